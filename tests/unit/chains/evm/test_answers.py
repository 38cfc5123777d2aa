"""Every text that nodes are known to say, and its class; everything else is investigated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chains.evm.answers import classify
from chains.evm.answers_table import ROWS, Row
from chains.types import AnswerClass

I, S, R, H, F = (  # noqa: E741 - the letters of the table in the facts
    AnswerClass.INVESTIGATE,
    AnswerClass.SAME_BYTES,
    AnswerClass.REPLACE,
    AnswerClass.HOLD,
    AnswerClass.REFUSED,
)
OURS = "0x" + "ab" * 32
OTHER = "0x" + "cd" * 32

CORPUS = [
    (-32000, "already known", I),
    (None, f"known transaction: {OTHER[2:]}", I),
    (None, f"known transaction: {OTHER}", I),
    (-32003, "transaction already imported", I),
    (-32000, "Known transaction", I),
    (-32000, "AlreadyKnown", I),
    (-32000, "existing txn with same hash", I),
    (-32000, "mined", I),
    (-32010, "Transaction with the same hash was already imported.", I),
    (-32000, "nonce too low", I),
    (-32000, "nonce too low: next nonce 7, tx nonce 3", I),
    (-32001, "Nonce too low", I),
    (-32010, "OldNonce, Current nonce: 7, nonce of rejected tx: 3", I),
    (-32010, "OwnNonceAlreadyUsed", I),
    (-32010, "Transaction nonce is too low. Try incrementing the nonce.", I),
    (None, "nonce has already been used", I),
    (None, "replacement fee too low", I),
    (-32000, "replacement transaction underpriced", I),
    (-32000, "Replacement transaction underpriced", I),
    (-32000, "could not replace existing tx", I),
    (-32000, "can't replace blob-txn with a non-blob-txn", H),
    (-32010, "ReplacementNotAllowed", I),
    (-32010, "FeeTooLowToCompete", I),
    (-32010, "FeeTooLow, MaxFeePerGas too low", I),
    (-32000, "future transaction tries to replace pending", S),
    (-32000, "address already reserved", S),
    (-32000, "transaction underpriced", R),
    (-32000, "underpriced", R),
    (-32000, "fee too low", R),
    (-32000, "transaction gas price below minimum: gas tip cap 1, minimum needed 25000000000", R),
    (-32000, "transaction priority fee below minimum required priority fee 1000", R),
    (-32003, "max fee per gas less than block base fee", R),
    (-32009, "Gas price below current base fee", R),
    (-32009, "Gas price below configured minimum gas price", R),
    (-32000, "txpool is full", S),
    (-32000, "pending sub-pool is full", S),
    (-32000, "baseFee sub-pool is full", S),
    (-32010, "There are too many transactions in the queue. Your transaction was dropped.", S),
    (-32000, "account limit exceeded: pooled 64 txs", S),
    (-32000, "spammer", S),
    (-32000, "in-flight transaction limit reached for delegated accounts", S),
    (-32000, "gapped-nonce tx from delegated accounts", S),
    (-32000, "nonce too high: tx nonce 9, gapped nonce 5", S),
    (-32010, "NonceGap, Future nonce. Expected nonce: 4", S),
    (-32006, "Nonce too high", S),
    (-32006, "Transaction nonce is too distant from current sender nonce", S),
    (-32000, "An invalid transaction with a lower nonce exists", S),
    (None, "nonce too far in the future", S),
    (-32000, "insufficient funds for gas * price + value: balance 1, tx cost 3, overshot 2", H),
    (-32000, "insufficient funds for gas * price + value: address 0x1 have 1 want 2", H),
    (-32000, "insufficient funds for transfer", H),
    (-32004, "Upfront cost exceeds account balance", H),
    (-32010, "InsufficientFunds, Account balance: 0, cumulative cost: 3", H),
    (-32010, "Insufficient funds. The account you tried to send transaction from does not have enough funds.", H),
    (-32003, "Insufficient funds for gas * price + value", H),
    (-32000, "intrinsic gas too low: gas 20000, minimum needed 21000", F),
    (-32003, "Intrinsic gas exceeds gas limit", F),
    (-32010, "IntrinsicGas", F),
    (-32000, "insufficient gas for floor data gas cost: have 1, want 2", F),
    (-32000, "exceeds block gas limit", F),
    (-32003, "intrinsic gas too high -- tx.gas_limit > env.block.gas_limit", F),
    (-32000, "transaction gas limit too high (cap: 16777216, tx: 20000000)", F),
    (-32005, "Transaction gas limit exceeds block gas limit", F),
    (-32000, "exceeds max transaction gas limit", F),
    (-32010, "GasLimitExceeded", F),
    (-32000, "max priority fee per gas higher than max fee per gas", F),
    (-32000, "Max priority fee per gas exceeds max fee per gas", F),
    (-32000, "tx fee (2.10 ether) exceeds the configured cap (1.00 ether)", H),
    (-32000, "tx fee (5 wei) exceeds the configured cap (1 wei)", H),
    (-32000, "Transaction fee cap exceeded", H),
    (-32000, "invalid sender", F),
    (-32003, "invalid chain id for signer", F),
    (-32000, "invalid chain ID", F),
    (-32000, "Wrong chainId", F),
    (-32000, "ChainId is required", F),
    (-32000, "ChainId not supported", F),
    (-32000, "only replay-protected (EIP-155) transactions allowed over RPC", F),
    (-32000, "invalid transaction signature", F),
    (-32002, "Invalid signature", F),
    (-32602, "failed to decode signed transaction", F),
    (-32602, "Failed to decode transaction", F),
    (-32010, "Invalid RLP.", F),
    (-32000, "oversized data: transaction size 140000, limit 131072", F),
    (-32000, "RLPTooLong", F),
    (-32000, "sender is not an EOA", F),
    (-32010, "SenderIsContract", F),
    (-32000, "nonce has max value", F),
    (-32008, "Initial sync is still in progress", S),
    (-32000, "Timeout expired", I),
    (-32603, "Internal error", I),
    (-32603, "", I),
    (-32007, "Sender account not authorized to send transactions", H),
    (-32007, "sender not authorized", H),
    (-32010, "Sender is banned in local queue.", H),
    (-32010, "Recipient is banned in local queue.", H),
    (-32010, "Code is banned in local queue.", H),
    (-32000, "sender or to in black list", H),
    (-32000, "forbidden sender address", H),
    (-32000, "Cyclic transaction detected", I),
    (-32000, "Transaction confirmation timeout", I),
    (-32000, "nonce too low: address 0x12, tx: 5 state: 7", I),
    (-32000, "nonce too high: address 0x12, tx: 9 state: 7", S),
    (-32000, "sequencer temporarily not available", S),
    (-32000, "queue full", S),
    (-32000, "sequencer pending tx pool full, please try again", S),
    (-32000, "sequencer internal error", I),
    (-32000, "failed to publish transaction to any of the forwarding targets", S),
    (-32000, "currently not accepting transactions due to expected surplus being below threshold", S),
    (-32000, "publishing transactions not supported by this endpoint", H),
    (-32000, "transaction sender is not on the whitelist", H),
    (3, "nonce too low. allowed nonce range: 5 - 25, actual: 3", I),
    (3, "nonce too high. allowed nonce range: 5 - 25, actual: 30", S),
    (3, f"known transaction. transaction with hash {OTHER} is already in the system", I),
    (3, "insertion of another transaction with the same nonce is in progress", I),
    (3, "insufficient funds for gas + value. balance: 1, fee: 2, value: 3", H),
    (3, "not enough balance to cover the fee. initial balance: 1", H),
    (3, "failed to validate the transaction. reason: Validation revert", F),
    (3, "failed to include transaction in the system. reason: x", S),
    (3, "server shutting down", I),
    (3, "virtual machine entered unexpected state. please contact developers", I),
    (None, "not enough keccak counters to continue the execution", F),
    (-32000, "ALREADY_EXISTS: already known", I),
    (-32000, "transaction underpriced: gas tip cap 100000000, minimum needed 1000000000", R),
    (-32000, "nonce too low: address 0x12 current nonce (5833) > tx nonce (5511)", I),
    (-32000, "there is another tx which has the same nonce in the tx pool", I),
    (-32000, "gasprice is less than gas price minimum floor", R),
    (-32000, "insufficient balance to pay gatewayFee", H),
    (-32000, "gas price too low: 1 wei, use at least tx.gasPrice = 15000000 wei", R),
    (1010, "submit transaction to pool failed: Pool(AlreadyImported(Any { .. }))", I),
    (1010, "submit transaction to pool failed: Pool(Stale)", I),
    (-32000, "transaction already finalized", I),
    (32001, "[Request ID: 1] Nonce too low. Provided nonce: 15, current nonce: 15", I),
    (-32000, "[Request ID: 1] transaction failed pre-check with the status: INSUFFICIENT_PAYER_BALANCE", H),
    (-32000, "failed to forward tx to sequencer, please try again. Error message: 'nonce too low'", I),
    (-32010, "alreadyknown", I),
    (-32000, "tx already exists in cache", I),
    (-32000, "insufficient fee", R),
    (-32000, "Signer had insufficient balance", H),
    (-32000, "Gas limit too low", F),
    (-32000, "incorrect account sequence", I),
    (-32000, "user cant pay the bills", H),
    (None, "502 Bad Gateway", I),
    (None, "503 Service Temporarily Unavailable", I),
    (-32009, "408 Request Timeout", I),
    (None, "read tcp: i/o timeout", I),
    (None, "network is unreachable", I),
    (-32005, "daily request count exceeded", I),
    (-32090, "Too many requests, reason: call rate limit exhausted, retry in 10s", I),
    # A revert reason may quote anything, so it is looked for first.
    (3, "execution reverted: fwd: nonce too low", F),
    (3, "execution reverted: already known", F),
    (3, "execution reverted", F),
]

UNKNOWN = [
    "banana",
    "",
    "transaction rejected",
    "🦀",
    "nonce",
    "low nonce too",
    "fee",
    "determined",
    "try again later",
    "<html>nginx</html>",
    "payment required",
    "quota",
    "invalid argument 0",
    "method not found",
    "unauthorized",
    "backend is unhealthy",
    "no available upstream",
    "ok",
    "0x",
    "null",
]


@pytest.mark.parametrize(("code", "text", "expected"), CORPUS)
def test_each_known_text_has_its_class(code: int | None, text: str, expected: AnswerClass) -> None:
    assert classify(code, text).answer is expected


@pytest.mark.parametrize("text", UNKNOWN)
def test_an_unknown_text_is_investigated_and_has_no_row(text: str) -> None:
    answer = classify(-32000, text)

    assert answer.answer is AnswerClass.INVESTIGATE
    assert answer.row is None


@given(st.integers() | st.none(), st.text(max_size=300))
def test_no_text_crashes_the_classifier_or_counts_as_accepted(code: int | None, text: str) -> None:
    assert classify(code, text).answer is not AnswerClass.ACCEPTED


def test_every_row_of_the_table_is_reached_by_its_own_pattern() -> None:
    shadowed = [row for row in ROWS if classify(row.code, row.pattern.removeprefix("=")).row is not row]

    assert shadowed == []
    assert all(row.pattern == row.pattern.lower() for row in ROWS)


KNOWN_TEXTS = [row.pattern for row in ROWS if row.known]


@pytest.mark.parametrize("text", KNOWN_TEXTS)
def test_already_known_is_acceptance_only_for_bytes_whose_hash_is_ours(text: str) -> None:
    assert classify(-32000, text).answer is AnswerClass.INVESTIGATE
    assert classify(-32000, text.removesuffix("0x"), tx_id=OURS).answer is AnswerClass.ACCEPTED
    assert classify(-32000, f"{text} {OURS}", tx_id=OURS).answer is AnswerClass.ACCEPTED
    assert classify(-32000, f"{text} {OTHER}", tx_id=OURS).answer is AnswerClass.INVESTIGATE


def test_an_underpriced_replacement_is_replaced_only_when_it_was_our_own_replacement() -> None:
    text = "replacement transaction underpriced"

    assert classify(-32000, text).answer is AnswerClass.INVESTIGATE
    assert classify(-32000, text, replacement=True).answer is AnswerClass.REPLACE


@pytest.mark.parametrize(
    ("text", "tip", "max_fee", "nonce"),
    [
        ("transaction gas price below minimum: gas tip cap 1, minimum needed 25000000000", 25 * 10**9, None, None),
        ("transaction priority fee below minimum required priority fee 77", 77, None, None),
        ("max fee per gas less than block base fee: address 0x1, maxFeePerGas: 1, baseFee: 875", None, 875, None),
        ("gas price too low: 1 wei, use at least tx.gasPrice = 15 wei", None, 15, None),
        ("nonce too low: next nonce 7, tx nonce 3", None, None, 7),
        ("OldNonce, Current nonce: 7, nonce of rejected tx: 3", None, None, 7),
        ("nonce too low: address 0x1, tx: 5 state: 7", None, None, 7),
        ("nonce too low: address 0x1 current nonce (7) > tx nonce (5)", None, None, 7),
        ("nonce too low. allowed nonce range: 7 - 27, actual: 3", None, None, 7),
        ("minimum needed " + "9" * 5000, None, None, None),
    ],
)
def test_the_numbers_in_a_text_are_read(text: str, tip: int | None, max_fee: int | None, nonce: int | None) -> None:
    answer = classify(-32000, text)

    assert (answer.tip_least, answer.max_fee_least, answer.next_nonce) == (tip, max_fee, nonce)


def test_an_operators_row_comes_before_the_table() -> None:
    row = Row("banana", "our gateway", AnswerClass.SAME_BYTES, "config")

    answer = classify(-32000, "Banana: nonce too low", extra=(row,))

    assert answer.answer is AnswerClass.SAME_BYTES
    assert answer.row is row
