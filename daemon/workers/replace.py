"""Sign another attempt under a token that is bound: a cancel, or the same payment at a higher fee.

Guarantees: a replacement says what the token's first attempt says but for its fees, a cancel pays nobody,
and both use the nonce that the payment has, so that at most one of them all can land; payload, bytes and
transaction id are committed before anything is sent; nothing is signed under a token that a block has used,
and no payment once a cancel was asked. Works on while the payout is in review and the wallet paused; not
while the deployment is frozen, but for fillers, which work the freeze off.
Does not guarantee that it lands: the other attempts may. What the fee cap forbids is not signed, and the last
bytes go on being sent.
Killed at any line: before the commit nothing happened; after it the send loop finds the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from chains.base import Signer
from chains.errors import FeeCapBlocks, PayloadRefused, RailUnavailable
from chains.types import NATIVE, Order, Prepared, Unpayable
from daemon.payouts.gate import Waits
from daemon.store import attempts, events, replacing, tokens
from daemon.store.catalog import WalletRow
from daemon.store.errors import Refused
from daemon.store.queries import Connection
from daemon.store.replacing import Wanted, Why
from daemon.workers.context import Chain, Context
from daemon.workers.rows import each

log = structlog.get_logger()
BATCH = 20
AGAIN_S = {Waits.FEE_CAP: 10.0, Waits.FUNDS: 10.0, Waits.NODE: 3.0}  #: how soon to look again
REST_S = 5.0  #: before the market is asked again about one that it does not outbid
POISONED_S = 60.0


class Short(Exception):
    """The wallet lacks what this attempt may cost beside everything else that is signed; nothing is stored."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An attempt that was committed, or is about to be."""

    purpose: str
    value: str  #: of its token
    tx_id: str
    first: bool  #: the first of its purpose under this token


class Replace:
    """Signs replacements and cancels for one wallet with a local key."""

    interval_s = 1.0
    timeout_s = 30.0

    def __init__(self, context: Context, chain: Chain, wallet: WalletRow, signer: Signer) -> None:
        """`signer` must hold the key of `wallet`. Several daemons may run it: the wallet's lock lets one sign."""
        assert signer.address == wallet.address, f"the key of wallet {wallet.name} is for {signer.address}"
        self.name = f"replace:{wallet.name}"
        self._context = context
        self._chain = chain
        self._wallet = wallet
        self._signer = signer

    async def round(self) -> bool:
        """Sign what is wanted and may be signed; never more to do at once."""
        found = await self._context.db.run(self._wanted)
        if not found:
            return False
        try:
            market = await self._market()
            reading = await self._chain.rail.wallet(self._wallet.address, contracts=(NATIVE,))
        except FeeCapBlocks as error:
            log.warning("replace.fee_cap", wallet=self._wallet.name, detail=str(error))
            await self._wait(found, Waits.FEE_CAP)
            return False
        except RailUnavailable as error:
            log.warning("replace.node_unavailable", wallet=self._wallet.name, detail=str(error))
            await self._wait(found, Waits.NODE)
            return False
        due = [one for one in found if self._is_due(one, market)]
        await self._rest([one for one in found if one not in due], REST_S)
        await each(due, lambda one: self._advance(one, market, reading.balances[NATIVE]), mark=self._poison)
        return False

    async def _wanted(self, connection: Connection) -> list[Wanted]:
        return await replacing.wanted(
            connection,
            wallet_id=self._wallet.wallet_id,
            bump_after_blocks=self._chain.bump_after_blocks,
            most=BATCH,
        )

    async def _market(self) -> Prepared:
        """What a transaction that pays nobody takes now. Raises FeeCapBlocks, RailUnavailable.

        A replacement changes fees alone, so what it pays is not asked about again.
        """
        order = Order(self._wallet.address, NATIVE, self._wallet.address, 0)
        market = await self._chain.rail.prepare(order, now=self._context.clock.now())
        if isinstance(market, Unpayable):
            raise RailUnavailable(f"the chain refuses a payment of nothing to oneself: {market.reason}")
        return market

    def _is_due(self, one: Wanted, market: Prepared) -> bool:
        """What merely waits bids more only where the market or a node asks for it: else it is sent again, not signed.

        On a quick chain a few blocks pass before anything is seen.
        """
        return one.why is not Why.WAITS or one.too_cheap or self._chain.rail.outbid(one.newest, prepared=market)

    async def _advance(self, one: Wanted, market: Prepared, native: int) -> None:
        """Sign one more attempt, or say why not yet."""
        try:
            signed = await self._context.db.run(partial(self._sign, one=one, market=market, native=native))
        except FeeCapBlocks as error:
            log.warning("replace.fee_cap", wallet=self._wallet.name, token=one.token_id, detail=str(error))
            await self._wait([one], Waits.FEE_CAP)
            return
        except Short:
            await self._wait([one], Waits.FUNDS)
            return
        if signed is None:
            return
        if signed.purpose != "cancel" or not signed.first:
            self._context.metrics.add("replacements_total", chain=self._chain.name)
        else:
            self._context.metrics.add("cancels_total", chain=self._chain.name)
        self._context.bells.ring(f"send:{self._chain.name}")
        log.info("attempt.signed", wallet=self._wallet.name, nonce=signed.value, kind=signed.purpose, tx=signed.tx_id)

    async def _sign(self, connection: Connection, one: Wanted, market: Prepared, native: int) -> Stored | None:
        """The signing transaction: locks, build, sign, store. None where it is not wanted any more.

        Raises: FeeCapBlocks, Short, PayloadRefused; nothing is stored then.
        """
        under = await replacing.take(connection, one, wallet_id=self._wallet.wallet_id)
        if under is None:
            return None
        first, *later = under.payloads
        payload = self._chain.rail.rebuild(
            first, wallet=self._wallet.address, prepared=market, cancel=under.purpose != "pay", later=later
        )
        committed = await tokens.committed(connection, self._wallet.wallet_id)
        if payload.gas_cost_most - under.gas_cost_most > max(0, native - committed.native):
            raise Short
        signature = self._signer.sign(payload.signing_hash)
        tx = self._chain.rail.assemble(payload.unsigned, signature, wallet=self._wallet.address)
        attempt = attempts.Signed(one.token_id, under.number, under.purpose, payload, tx)
        await attempts.store(connection, chain_id=self._chain.chain_id, signed=[attempt])
        await replacing.done(connection, one.token_id)
        if one.key is not None:
            topic = "attempt.cancel" if under.purpose == "cancel" else "attempt.replacement"
            told = events.step(one.key, topic, tx_id=tx.tx_id, nonce=under.value, number=under.number)
            await self._context.desk.outbox.emit(connection, told)
        return Stored(under.purpose, under.value, tx.tx_id, first=under.first_of_its_kind)

    async def _wait(self, found: Sequence[Wanted], why: Waits) -> None:
        """Say why nothing more is signed for these just now. Their last bytes go on being sent."""
        for one in found:
            wait = partial(replacing.wait, one=one, waits_for=why.value, seconds=AGAIN_S[why])
            await self._context.db.run(wait)

    async def _rest(self, found: Sequence[Wanted], seconds: float) -> None:
        for one in found:
            await self._context.db.run(partial(replacing.wait, one=one, waits_for=None, seconds=seconds))

    async def _poison(self, one: Wanted, error: Exception) -> None:
        """This one cannot be built or stored: a person is told, and the others go on."""
        log.error(
            "attempt.not_signed",
            wallet=self._wallet.name,
            token=one.token_id,
            detail=str(error),
            exc_info=None if isinstance(error, Refused | PayloadRefused) else error,
        )
        await self._rest([one], POISONED_S)
        if one.key is not None:
            detail = f"no replacement could be signed: {error}"
            mark = partial(
                events.to_review, key=one.key, reason="internal_error", detail=detail, desk=self._context.desk
            )
            await self._context.db.run(mark)
