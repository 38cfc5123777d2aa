"""Bind a token to each created payout, and store its signed bytes, in one transaction.

Guarantees: a version gets one token, ever, while it is open; payload, bytes and transaction id are
committed before anything is sent; what is signed within a window never exceeds a limit, whatever daemons and
wallets sign; what may not be signed now is put off and blocks nothing behind it.
Does not guarantee: that anything is sent (send does), or that two daemons do not ask the network for
the same payout (only one of them binds).
Killed at any line: before the commit nothing happened; after it the send loop finds the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from chains.base import Signer
from chains.errors import FeeCapBlocks, PayloadRefused, RailUnavailable
from chains.types import NATIVE, Order, Prepared, Unpayable, WalletReading
from daemon.payouts.gate import ChainSays, Purse, Waits, Wish, choose, forbids
from daemon.payouts.states import PayoutState
from daemon.store import after_commit, attempts, deployment, events, ledger, proofs, sweeps, tokens, versions
from daemon.store.catalog import WalletRow
from daemon.store.errors import Refused
from daemon.store.orders import Policy
from daemon.store.queries import Connection
from daemon.store.versions import Candidate, Key
from daemon.workers.context import Chain, Context
from daemon.workers.listed import Listed
from daemon.workers.together import all_of
from daemon.workers.within_limits import WithinLimits

log = structlog.get_logger()
PUT_OFF_S = {
    Waits.IN_FLIGHT_CAP: 1.0,
    Waits.READING: 1.0,
    Waits.NODE: 3.0,
    Waits.FEE_CAP: 10.0,
    Waits.WALLET_PAUSED: 3.0,
    Waits.FROZEN: 5.0,
    Waits.FUNDS: 10.0,
}  #: how soon to look again
#: Rules that refuse binding for now, whatever the payout is.
PASSING = frozenset(
    {"tokens_frozen", "tokens_wallet_paused", "tokens_wallet_retired", "tokens_next_nonce", "tokens_value"}
)
OF_ONE_WALLET = frozenset({Waits.FUNDS, Waits.IN_FLIGHT_CAP, Waits.WALLET_PAUSED, Waits.READING})


@dataclass(frozen=True, slots=True)
class Ready:
    """A candidate and what the network told about paying it."""

    candidate: Candidate
    prepared: Prepared


class Sign:
    """Signs for one wallet with a local key."""

    interval_s = 1.0
    timeout_s = 30.0

    def __init__(
        self,
        context: Context,
        chain: Chain,
        wallet: WalletRow,
        signer: Signer,
        *,
        policy: Policy,
        batch: int = 20,
    ) -> None:
        """`signer` must hold the key of `wallet`; at most `batch` payouts are signed in a round.

        `policy` is that of the whole deployment; approvals are given before.
        """
        assert signer.address == wallet.address, f"the key of wallet {wallet.name} is for {signer.address}"
        self.name = f"sign:{wallet.name}"
        self._context = context
        self._chain = chain
        self._wallet = wallet
        self._signer = signer
        self._batch = self._most = batch
        self._counter = 0  #: the highest next nonce that the database ever showed; a lower one is an older database
        others = [w for w in context.catalog.wallets_of(chain.chain_id) if w.signs and not w.retired]
        self._alone = len(others) == 1
        self._lists = Listed(policy, context.desk)
        self._limits = WithinLimits(policy.terms, wallet.wallet_id, alone=self._alone)

    async def round(self) -> bool:
        """Sign what may be signed; whether there may be more to sign at once."""
        candidates, full = await self._context.db.run(self._candidates)
        if not candidates:
            return full
        try:
            reading = await self._read_wallet()
        except RailUnavailable as error:
            log.warning("sign.node_unavailable", wallet=self._wallet.name, detail=str(error))
            await self._put_off(candidates, Waits.NODE)
            return False
        short = [c for c in candidates if reading.balances.get(c.contract, 0) < c.amount]
        await self._put_off(short, Waits.FUNDS)  # the dry run of these would fail for our reason, not the payee's
        candidates = [c for c in candidates if c not in short]
        answers = await self._prepare(candidates)
        ready = [Ready(c, a) for c, a in zip(candidates, answers, strict=True) if isinstance(a, Prepared)]
        for candidate, answer in zip(candidates, answers, strict=True):
            if isinstance(answer, Unpayable):
                await self._refuse(candidate, answer, reading)
            elif isinstance(answer, RailUnavailable):
                log.info("payout.put_off", payout_id=str(candidate.key.payout_id), detail=str(answer))
                await self._put_off([candidate], Waits.FEE_CAP if isinstance(answer, FeeCapBlocks) else Waits.NODE)
        signed = bool(ready) and await self._sign_all(ready, reading)
        self._batch = min(self._most, self._batch + 1)
        return signed and full

    def halve(self) -> None:
        """Called when a round timed out: a slow node must let some be signed."""
        self._batch = max(1, self._batch // 2)

    async def _candidates(self, connection: Connection) -> tuple[list[Candidate], bool]:
        """What could be signed, by the lists and as the limits look; whether there may be more of it."""
        found = await versions.candidates(
            connection, wallet_id=self._wallet.wallet_id, chain_id=self._chain.chain_id, most=self._batch
        )
        allowed = await self._lists.let_through(connection, found)
        return await self._limits.look_ahead(connection, allowed), len(found) == self._batch

    async def _read_wallet(self) -> WalletReading:
        """The wallet now. Raises RailUnavailable also when nodes contradict each other on it."""
        contracts = {NATIVE, *self._context.catalog.assets_of(self._chain.chain_id)}  # fees are always native
        reading = await self._chain.rail.wallet(self._wallet.address, contracts=sorted(contracts))
        if not reading.agreed:
            raise RailUnavailable(f"nodes contradict each other on wallet {self._wallet.address}")
        return reading

    async def _prepare(self, candidates: Sequence[Candidate]) -> list[Prepared | Unpayable | RailUnavailable]:
        """What the network says about each order; one that no node can answer holds up no other."""
        return await all_of(self._ask(self._order(candidate)) for candidate in candidates)

    async def _ask(self, order: Order) -> Prepared | Unpayable | RailUnavailable:
        try:
            return await self._chain.rail.prepare(order, now=self._context.clock.now())
        except RailUnavailable as error:
            return error

    def _order(self, candidate: Candidate) -> Order:
        return Order(self._wallet.address, candidate.contract, candidate.destination, candidate.amount)

    def _wish(self, one: Ready) -> Wish[Ready]:
        candidate = one.candidate
        return Wish(one, candidate.contract, candidate.amount, one.prepared.fee_most, self._limits.spend_of(candidate))

    async def _sign_all(self, ready: Sequence[Ready], reading: WalletReading) -> bool:
        """Sign these together; when one cannot be built, mark that one and sign the others. Whether any was signed."""
        left = list(ready)
        while left:
            try:
                signed = await self._context.db.run(partial(self._sign, ready=left, reading=reading))
            except Unsignable as poison:
                log.warning("payout.unsignable", payout_id=str(poison.key.payout_id), detail=poison.detail)
                await self._context.db.run(
                    partial(
                        events.to_review,
                        key=poison.key,
                        reason="internal_error",
                        detail=poison.detail,
                        desk=self._context.desk,
                    )
                )
                left = [one for one in left if one.candidate.key != poison.key]
                continue
            except Refused as refused:
                return await self._sign_apart(left, reading, refused)
            if signed:
                self._counter += len(signed)
                self._context.bells.ring(f"send:{self._chain.name}")
                waited = {one.candidate.key: self._waited_s(one.candidate) for one in left}
                for key in signed:
                    self._context.metrics.observe(
                        "payout_stage_seconds", waited[key], chain=self._chain.name, stage="sign"
                    )
                    self._context.metrics.add(
                        "payout_transitions_total", chain=self._chain.name, source="created", target="signed"
                    )
                    log.info("payout.signed", payout_id=str(key.payout_id), wallet=self._wallet.name)
            return bool(signed)
        return False

    def _waited_s(self, candidate: Candidate) -> float:
        """Seconds from the payout's birth to now."""
        return (self._context.clock.now() - candidate.created_at).total_seconds()

    async def _sign_apart(self, ready: Sequence[Ready], reading: WalletReading, refused: Refused) -> bool:
        """The schema refused these together: sign each alone, so that one holds up no other."""
        if len(ready) > 1:
            done = [await self._sign_all([one], reading) for one in ready]
            return any(done)
        key = ready[0].candidate.key
        log.warning("payout.refused_by_schema", payout_id=str(key.payout_id), detail=str(refused))
        if refused.rule not in PASSING:
            await self._context.db.run(
                partial(
                    events.to_review,
                    key=key,
                    reason="internal_error",
                    detail=str(refused),
                    desk=self._context.desk,
                )
            )
        return False

    async def _sign(self, connection: Connection, ready: Sequence[Ready], reading: WalletReading) -> list[Key]:
        """The signing transaction: gate, claim, bind, sign, store. The keys that were signed."""
        gate = await tokens.lock_gate(connection, self._wallet.wallet_id)
        if gate.next_nonce is not None and gate.next_nonce < self._counter and gate.frozen is None:
            reason = f"the database has gone back: wallet {self._wallet.name} had signed up to {self._counter - 1}"
            await deployment.freeze(connection, reason=reason)
            gate = await tokens.lock_gate(connection, self._wallet.wallet_id)
        self._counter = gate.next_nonce or 0
        keys = [one.candidate.key for one in ready]
        chain_says = ChainSays(reading.block, reading.nonce_latest, reading.nonce_pending)
        why = forbids(
            gate,
            chain_says,
            max_blind_blocks=self._chain.max_blind_blocks,
            max_in_flight=self._wallet.max_in_flight,
        )
        if why is not None:
            await self._wait(connection, keys, why)
            return []
        claimed = await versions.claim(connection, wallet_id=self._wallet.wallet_id, keys=keys)
        self._count_lost(connection, len(keys) - len(claimed))
        committed = await tokens.committed(connection, self._wallet.wallet_id)
        behind = await sweeps.behind(
            connection,
            claimed,
            wallet_id=self._wallet.wallet_id,
            balances=reading.balances,
            committed=committed,
        )
        if behind:
            await self._wait(connection, list(behind), Waits.FUNDS)
        free = {candidate.key for candidate in claimed} - behind
        wishes = [self._wish(one) for one in ready if one.candidate.key in free]
        tally = await self._limits.tally(connection, [wish.spend for wish in wishes])
        room = self._wallet.max_in_flight - gate.in_flight
        choice = choose(wishes, purse=Purse(reading.balances, committed), tally=tally, room=room)
        for group, reason in ((choice.lacking, Waits.FUNDS), (choice.crowded, Waits.IN_FLIGHT_CAP)):
            if group:
                await self._wait(connection, [one.candidate.key for one in group], reason)
        await self._limits.hold_back(connection, [(one.candidate.key, over) for one, over in choice.over])
        if choice.signed:
            assert gate.next_nonce is not None, "the gate lets nothing through without an adopted nonce"
            await self._bind(connection, choice.signed, gate.next_nonce)
            await tokens.note_in_flight(
                connection, wallet_id=self._wallet.wallet_id, in_flight=gate.in_flight + len(choice.signed)
            )
        return [one.candidate.key for one in choice.signed]

    def _count_lost(self, connection: Connection, lost: int) -> None:
        """Somebody else was quicker with these: another worker, or a person."""
        if lost:
            add = self._context.metrics.add
            after_commit.call(connection, lambda _certain: add("fence_rejections_total", lost))

    async def _bind(self, connection: Connection, chosen: Sequence[Ready], first: int) -> None:
        """Bind consecutive tokens and store the signed bytes of each."""
        keys = [one.candidate.key for one in chosen]
        bound = await tokens.bind(
            connection, wallet_id=self._wallet.wallet_id, kind=self._chain.rail.token_kind, first=first, keys=keys
        )
        signed = [self._attempt(one, token_id, value) for one, (_, token_id, value) in zip(chosen, bound, strict=True)]
        await attempts.store(connection, chain_id=self._chain.chain_id, signed=signed)
        await versions.signed(connection, keys)
        steps = [
            events.step(key, "payout.signed", tx_id=attempt.tx.tx_id, nonce=value)
            for (key, _, value), attempt in zip(bound, signed, strict=True)
        ]
        await self._context.desk.outbox.emit(connection, *steps)

    def _attempt(self, one: Ready, token_id: int, value: str) -> attempts.Signed:
        """Build and sign one payment. Raises Unsignable."""
        candidate = one.candidate
        try:
            payload = self._chain.rail.build(self._order(candidate), token=value, prepared=one.prepared)
            signature = self._signer.sign(payload.signing_hash)
            tx = self._chain.rail.assemble(payload.unsigned, signature, wallet=self._wallet.address)
        except PayloadRefused as error:
            raise Unsignable(candidate.key, str(error)) from error
        return attempts.Signed(token_id, 1, "pay", payload, tx)

    async def _refuse(self, candidate: Candidate, answer: Unpayable, reading: WalletReading) -> None:
        """The chain says it cannot be paid, and no token was bound: failed, with that as the proof.

        Not while the deployment is frozen: a database that forgot does not know that none was bound.
        """
        key, desk = candidate.key, self._context.desk
        try:
            await self._context.db.run(lambda connection: self._fail(connection, key, answer.reason, reading))
        except Refused as refused:  # else nothing of this wallet would be signed as long as this one is there
            log.warning("payout.refused_by_schema", payout_id=str(key.payout_id), detail=str(refused))
            marked = partial(events.to_review, key=key, reason="internal_error", detail=str(refused), desk=desk)
            await self._context.db.run(marked)

    async def _fail(self, connection: Connection, key: Key, reason: str, reading: WalletReading) -> None:
        state = await versions.lock(connection, key)
        if state is None or state["status"] != PayoutState.CREATED.value or state["review"] is not None:
            return
        if await deployment.frozen(connection) is not None:
            await self._wait(connection, [key], Waits.FROZEN)
            return
        evidence = [{"what": "dry run refused; no token was ever bound", "reason": reason, "block": reading.block}]
        proof_id = await proofs.write(connection, key, shows="dead", kind="never_bound", evidence=evidence)
        moved = await versions.fail(
            connection, key, PayoutState.CREATED, proof_id=proof_id, code="refused_before_signing", detail=reason
        )
        if moved:
            await ledger.release(connection, key, proof_id=proof_id)
            await self._context.desk.outbox.emit(connection, events.step(key, "payout.failed", reason=reason))

    async def _put_off(self, candidates: Sequence[Candidate], why: Waits) -> None:
        if candidates:
            keys = [candidate.key for candidate in candidates]
            await self._context.db.run(partial(self._wait, keys=keys, why=why))

    async def _wait(self, connection: Connection, keys: Sequence[Key], why: Waits) -> None:
        """Say why, and put them behind the others. What only this wallet lacks stays due for the chain's others."""
        seconds = 0.0 if why in OF_ONE_WALLET and not self._alone else PUT_OFF_S[why]
        await versions.put_off(connection, keys, waits_for=why.value, seconds=seconds)


class Unsignable(Exception):
    """This payout's payload cannot be built or signed; the transaction is rolled back without it."""

    def __init__(self, key: Key, detail: str) -> None:
        """`detail` holds no bytes and no key."""
        super().__init__(detail)
        self.key = key
        self.detail = detail
