"""What nodes say to eth_sendRawTransaction, and how each is classed: facts, no logic.

A pattern is lower case and matches anywhere in the lower-cased text, or the whole of it when it
begins with "=". The first row that matches decides, so the order of the groups matters:
reverts before nonces, since a revert reason may quote anything; longer texts before their parts.
Sources name the file in the client's repository; "field" is text seen in public issues.
"""

from __future__ import annotations

from dataclasses import dataclass

from chains.types import AnswerClass

INVESTIGATE = AnswerClass.INVESTIGATE
SAME_BYTES = AnswerClass.SAME_BYTES
REPLACE = AnswerClass.REPLACE
HOLD = AnswerClass.HOLD
REFUSED = AnswerClass.REFUSED


@dataclass(frozen=True, slots=True)
class Row:
    """One text and its class.

    `code`: the row holds for this JSON-RPC error code only.
    `known`: the text says that the node has the transaction already.
    `bump`: the text refuses a replacement for its fees, when it is one of ours that was sent.
    `stops_wallet`: the configuration or the key is wrong, so nothing more may be signed with it.
    """

    pattern: str
    client: str
    answer: AnswerClass
    source: str
    code: int | None = None
    known: bool = False
    bump: bool = False
    stops_wallet: bool = False


_GETH_POOL = "geth core/txpool/errors.go"
_GETH_STATE = "geth core/error.go"
_GETH_CHECK = "geth core/txpool/validation.go"
_GETH_API = "geth internal/ethapi/api.go"
_RETH = "reth crates/rpc/rpc-eth-types/src/error"
_BESU = "besu ethereum/api RpcErrorType.java"
_NETHERMIND = "nethermind Nethermind.TxPool/AcceptTxResult.cs"
_ERIGON = "erigon txnprovider/txpool/txpoolcfg"
_PARITY = "openethereum rpc/src/v1/helpers/errors.rs"
_ANVIL = "anvil 1.7.1, measured"
_NITRO = "nitro execution/gethexec"
_ZKSYNC = "zksync-era core/node/api_server"
_FIELD = "field"

_REVERTS = (
    Row("execution reverted", "all", REFUSED, "geth core/vm/errors.go"),
    Row("vm exception while processing transaction", "ganache, hardhat", REFUSED, _FIELD),
    Row("evm error", "anvil", REFUSED, _ANVIL),
)

_KNOWN = (
    Row("alreadyknown", "old nethermind, gnosis", INVESTIGATE, _NETHERMIND, known=True),
    Row("already_exists: already known", "bsc through drpc", INVESTIGATE, _FIELD, known=True),
    Row("already known", "geth, reth, nethermind, erigon", INVESTIGATE, _GETH_POOL, known=True),
    Row("transaction already imported", "anvil", INVESTIGATE, _ANVIL, known=True),
    Row("known transaction: 0x", "old geth", INVESTIGATE, "geth core/tx_pool.go", known=True),
    Row("known transaction. transaction with hash", "zksync", INVESTIGATE, _ZKSYNC, known=True),
    Row("known transaction", "besu", INVESTIGATE, _BESU, known=True),
    Row("existing txn with same hash", "erigon", INVESTIGATE, _ERIGON, known=True),
    Row("transaction with the same hash was already imported", "parity", INVESTIGATE, _PARITY, known=True),
    Row("pool(alreadyimported", "moonbeam, substrate", INVESTIGATE, _FIELD, known=True),
    Row("tx already exists in cache", "sei", INVESTIGATE, _FIELD, known=True),
    Row("=mined", "erigon", INVESTIGATE, _ERIGON),
    Row("transaction already finalized", "harmony", INVESTIGATE, _FIELD),
    Row("pool(stale", "moonbeam, substrate", INVESTIGATE, _FIELD),
)

_SPENT_NONCES = (
    Row("failed to forward tx to sequencer, please try again", "mantle", INVESTIGATE, _FIELD),
    Row("transaction nonce is too low. try incrementing the nonce", "parity", INVESTIGATE, _PARITY),
    Row("nonce too low. allowed nonce range", "zksync", INVESTIGATE, _ZKSYNC),
    Row("nonce too low. provided nonce", "hedera", INVESTIGATE, _FIELD),
    Row("nonce too low", "geth, reth, anvil, erigon, nethermind, besu, nitro, op", INVESTIGATE, _GETH_STATE),
    Row("oldnonce", "old nethermind", INVESTIGATE, _NETHERMIND),
    Row("ownnoncealreadyused", "old nethermind", INVESTIGATE, _NETHERMIND),
    Row("nonce has already been used", "ethers", INVESTIGATE, _FIELD),
    Row("there is another tx which has the same nonce", "klaytn", INVESTIGATE, _FIELD),
    Row("another transaction with the same nonce is in progress", "zksync", INVESTIGATE, _ZKSYNC),
    Row("incorrect account sequence", "cosmos evm", INVESTIGATE, _FIELD),
)

_REPLACEMENTS = (
    Row("can't replace blob-txn with a non-blob-txn", "erigon", HOLD, _ERIGON),
    Row("replacement transaction underpriced", "all but nethermind", INVESTIGATE, _GETH_POOL, bump=True),
    Row("replacement fee too low", "ethers", INVESTIGATE, _FIELD, bump=True),
    Row("could not replace existing tx", "erigon", INVESTIGATE, _ERIGON, bump=True),
    Row("replacementnotallowed", "nethermind", INVESTIGATE, _NETHERMIND, bump=True),
    Row("feetoolowtocompete", "old nethermind", INVESTIGATE, _NETHERMIND, bump=True),
    Row("feetoolow", "old nethermind", INVESTIGATE, _NETHERMIND, bump=True),
    Row("future transaction tries to replace pending", "geth", SAME_BYTES, _GETH_POOL),
    Row("address already reserved", "geth, reth", SAME_BYTES, _GETH_POOL),
)

_FEES = (
    Row("transaction gas price below minimum", "geth, bor", REPLACE, _GETH_CHECK),
    Row("gas tip cap", "geth, bor, bsc", REPLACE, _GETH_CHECK),
    Row("transaction priority fee below minimum required", "reth", REPLACE, _RETH),
    Row("max fee per gas less than block base fee", "geth, reth, anvil, nitro, zksync", REPLACE, _GETH_STATE),
    Row("gas price below current base fee", "besu", REPLACE, _BESU),
    Row("gas price below configured minimum", "besu", REPLACE, _BESU),
    Row("gasprice is less than gas price minimum floor", "celo", REPLACE, _FIELD),
    Row("gas price too low", "metis", REPLACE, _FIELD),
    Row("insufficient fee", "sei", REPLACE, _FIELD),
    Row("transaction underpriced", "geth, reth", REPLACE, _GETH_POOL),
    Row("underpriced", "erigon", REPLACE, _ERIGON),
    Row("max priority fee per gas higher than max fee per gas", "geth", REFUSED, _GETH_STATE),
    Row("max priority fee per gas exceeds max fee per gas", "besu", REFUSED, _BESU),
    Row("tx fee (", "geth, reth", HOLD, _GETH_API),
    Row("transaction fee cap exceeded", "besu", HOLD, _BESU),
    Row("fee too low", "erigon", REPLACE, _ERIGON),
)

_FUNDS = (
    Row("insufficient funds", "geth, reth, anvil, erigon, parity, zksync", HOLD, _GETH_STATE),
    Row("insufficientfunds", "old nethermind", HOLD, _NETHERMIND),
    Row("upfront cost exceeds account balance", "besu", HOLD, _BESU),
    Row("not enough balance to cover the fee", "zksync", HOLD, _ZKSYNC),
    Row("insufficient_payer_balance", "hedera", HOLD, _FIELD),
    Row("signer had insufficient balance", "monad", HOLD, _FIELD),
    Row("gatewayfee", "celo", HOLD, _FIELD),
    Row("user cant pay the bills", "chain 106", HOLD, _FIELD),
)

_GAPS_AND_LIMITS = (
    Row("in-flight transaction limit reached for delegated accounts", "geth, reth", SAME_BYTES, _GETH_POOL),
    Row("gapped-nonce tx from delegated accounts", "geth, reth", SAME_BYTES, _GETH_POOL),
    Row("nonce too high", "geth, reth, besu, nitro, op, zksync", SAME_BYTES, _GETH_STATE),
    Row("noncegap", "nethermind", SAME_BYTES, _NETHERMIND),
    Row("nonce is too distant from current sender nonce", "besu", SAME_BYTES, _BESU),
    Row("an invalid transaction with a lower nonce exists", "besu", SAME_BYTES, _BESU),
    Row("nonce too far in the future", "field", SAME_BYTES, _FIELD),
    Row("sequencer pending tx pool full", "nitro", SAME_BYTES, _NITRO),
    Row("txpool is full", "geth, reth", SAME_BYTES, _GETH_POOL),
    Row("sub-pool is full", "erigon", SAME_BYTES, _ERIGON),
    Row("there are too many transactions in the queue", "parity", SAME_BYTES, _PARITY),
    Row("account limit exceeded", "geth", SAME_BYTES, _GETH_POOL),
    Row("=spammer", "erigon", SAME_BYTES, _ERIGON),
)

_NEVER = (
    Row("intrinsic gas too high", "anvil", REFUSED, _ANVIL),
    Row("intrinsic gas too low", "geth, reth, anvil", REFUSED, _GETH_STATE),
    Row("intrinsic gas exceeds gas limit", "besu", REFUSED, _BESU),
    Row("intrinsicgas", "old nethermind", REFUSED, _NETHERMIND),
    Row("insufficient gas for floor data gas cost", "geth", REFUSED, _GETH_STATE),
    Row("gas limit too low", "monad", REFUSED, _FIELD),
    Row("exceeds block gas limit", "geth, besu", REFUSED, _GETH_POOL),
    Row("transaction gas limit too high", "geth, reth", REFUSED, _GETH_STATE),
    Row("exceeds max transaction gas limit", "reth", REFUSED, _RETH),
    Row("gaslimitexceeded", "nethermind", REFUSED, _NETHERMIND),
    Row("counters to continue the execution", "polygon zkevm", REFUSED, _FIELD),
)

_WRONG_KEY_OR_CHAIN = (
    Row("invalid sender", "geth", REFUSED, _GETH_POOL, stops_wallet=True),
    Row("invalid chain id", "geth, reth, anvil", REFUSED, _GETH_STATE, stops_wallet=True),
    Row("wrong chainid", "besu", REFUSED, _BESU, stops_wallet=True),
    Row("chainid is required", "besu", REFUSED, _BESU, stops_wallet=True),
    Row("chainid not supported", "besu", REFUSED, _BESU, stops_wallet=True),
    Row("only replay-protected", "geth", REFUSED, _GETH_API, stops_wallet=True),
    Row("invalid transaction signature", "reth", REFUSED, _RETH, stops_wallet=True),
    Row("invalid signature", "besu", REFUSED, _BESU, stops_wallet=True),
    Row("failed to decode signed transaction", "reth", REFUSED, _RETH, stops_wallet=True),
    Row("failed to decode transaction", "anvil", REFUSED, _ANVIL, stops_wallet=True),
    Row("invalid rlp", "parity", REFUSED, _PARITY, stops_wallet=True),
    Row("oversized data", "geth", REFUSED, _GETH_POOL, stops_wallet=True),
    Row("rlptoolong", "erigon", REFUSED, _ERIGON, stops_wallet=True),
    Row("rlp too long", "erigon", REFUSED, _ERIGON, stops_wallet=True),
    Row("sender is not an eoa", "reth", REFUSED, _RETH, stops_wallet=True),
    Row("sender not an eoa", "geth", REFUSED, _GETH_STATE, stops_wallet=True),
    Row("senderiscontract", "nethermind", REFUSED, _NETHERMIND, stops_wallet=True),
    Row("nonce has max value", "geth", REFUSED, _GETH_STATE, stops_wallet=True),
)

_CLOSED_DOORS = (
    Row("sender not authorized", "besu", HOLD, _BESU),
    Row("not authorized to send transactions", "besu", HOLD, _BESU),
    Row("is banned", "openethereum", HOLD, _PARITY),
    Row("in black list", "bsc", HOLD, _FIELD),
    Row("forbidden sender address", "field", HOLD, _FIELD),
    Row("publishing transactions not supported by this endpoint", "nitro", HOLD, _NITRO),
    Row("sender is not on the whitelist", "nitro", HOLD, _NITRO),
)

_NOT_NOW = (
    Row("initial sync is still in progress", "besu", SAME_BYTES, _BESU),
    Row("node is syncing", "field", SAME_BYTES, _FIELD),
    Row("sequencer temporarily not available", "nitro", SAME_BYTES, _NITRO),
    Row("expected surplus being below threshold", "nitro", SAME_BYTES, _NITRO),
    Row("failed to publish transaction to any of the forwarding targets", "nitro", SAME_BYTES, _NITRO),
    Row("queue full", "nitro", SAME_BYTES, _NITRO),
    Row("failed to include transaction in the system", "zksync", SAME_BYTES, _ZKSYNC),
    Row("virtual machine entered unexpected state", "zksync", INVESTIGATE, _ZKSYNC),
    Row("failed to validate the transaction", "zksync", REFUSED, _ZKSYNC),
    Row("server shutting down", "zksync", INVESTIGATE, _ZKSYNC),
)

_UNCLEAR = (
    Row("sequencer internal error", "nitro", INVESTIGATE, _NITRO),
    Row("cyclic transaction detected", "anvil", INVESTIGATE, _ANVIL),
    Row("transaction confirmation timeout", "anvil", INVESTIGATE, _ANVIL),
    Row("timeout expired", "besu", INVESTIGATE, _BESU),
    Row("internal error", "all", INVESTIGATE, _FIELD),
    Row("bad gateway", "gateways", INVESTIGATE, _FIELD),
    Row("service temporarily unavailable", "gateways", INVESTIGATE, _FIELD),
    Row("request timeout", "gateways", INVESTIGATE, _FIELD),
    Row("i/o timeout", "gateways", INVESTIGATE, _FIELD),
    Row("network is unreachable", "gateways", INVESTIGATE, _FIELD),
    Row("connection reset", "gateways", INVESTIGATE, _FIELD),
    Row("too many requests", "gateways", INVESTIGATE, _FIELD),
    Row("rate limit", "gateways", INVESTIGATE, _FIELD),
    # Codes alone tell little, since every client uses them for something else; they come last.
    Row("", "gateways", INVESTIGATE, "EIP-1474 limit exceeded", code=-32005),
    Row("", "all", INVESTIGATE, "JSON-RPC 2.0 internal error", code=-32603),
)

ROWS = (
    *_REVERTS,
    *_KNOWN,
    *_SPENT_NONCES,
    *_REPLACEMENTS,
    *_GAPS_AND_LIMITS,
    *_CLOSED_DOORS,
    *_NOT_NOW,
    *_FEES,
    *_FUNDS,
    *_NEVER,
    *_WRONG_KEY_OR_CHAIN,
    *_UNCLEAR,
)
