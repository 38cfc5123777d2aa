"""Loops that are broken on purpose, each in a way that somebody could write one day."""

from collections.abc import Sequence
from typing import Any

from chains.settings import ByDepth
from chains.types import BlockReading, Order, Prepared, SendAnswer, SightingKind
from daemon.payouts.states import PayoutState
from daemon.simulation.process import Parts, production
from daemon.store import attempts, ledger, proofs, replacing, tokens, transfers, versions
from daemon.store.attempts import Due, Send
from daemon.store.orders import Policy
from daemon.store.queries import Connection
from daemon.store.replacing import Wanted
from daemon.store.transfers import Pending
from daemon.workers.confirm import Confirm
from daemon.workers.context import Worker
from daemon.workers.reconcile import Reconcile
from daemon.workers.replace import Replace, Stored
from daemon.workers.send import SendLoop, Turn
from daemon.workers.sign import Sign
from daemon.workers.watch import Watch


def instead(parts: Parts, broken: Worker) -> list[Worker]:
    """The production loops, with this one in its place."""
    return [broken if worker.name == broken.name else worker for worker in production(parts)]


class PaysAgain(SendLoop):
    """An answer is lost, so the payment is made once more, with a nonce of its own."""

    parts: Parts

    async def _send(self, due: Due, send: Send, turn: Turn) -> SendAnswer:
        answer = await super()._send(due, send, turn)
        if answer.answer is None and due.payout_id is not None:
            await self._context.db.run(lambda connection: self._again(connection, due))
        return answer

    async def _again(self, connection: Connection, due: Due) -> None:
        wallet = self._context.catalog.wallet_by_id(due.wallet_id)
        assert wallet is not None
        gate = await tokens.lock_gate(connection, due.wallet_id)
        assert gate.next_nonce is not None
        key = versions.Key(due.payout_id, due.version)  # type: ignore[arg-type]
        await tokens.bind(connection, wallet_id=due.wallet_id, kind="evm_nonce", first=gate.next_nonce, keys=[key])


class PaysAgainBehindTheDatabase(SendLoop):
    """The same, by somebody who thought that the database is only for the books."""

    parts: Parts

    async def _send(self, due: Due, send: Send, turn: Turn) -> SendAnswer:
        answer = await super()._send(due, send, turn)
        wallet = self._context.catalog.wallet_by_id(due.wallet_id)
        if answer.answer is None and wallet is not None:
            rail, signer = self.parts.rail, self.parts.scene.signer(wallet.address)
            order = Order(wallet.address, "", self.parts.scene.wallets["hot0"], 1)
            prepared = await rail.prepare(order, now=self.parts.scene.clock.now())
            nonce = self.parts.scene.chain.head.state.nonce(wallet.address) + 1
            payload = rail.build(order, token=str(nonce), prepared=prepared)  # type: ignore[arg-type]
            tx = rail.assemble(payload.unsigned, signer.sign(payload.signing_hash), wallet=wallet.address)
            await rail.send(tx, node=send.node)
        return answer


class SendsBeforeItIsStored(SendLoop):
    """The bytes leave inside the transaction that records them."""

    async def round(self) -> bool:
        await self._context.db.run(self._all_in_one)
        return False

    async def _all_in_one(self, connection: Connection) -> None:
        for due, send in await self._note(connection):
            await self._chain.rail.send(due.tx, node=send.node)


class FailsWhatIsNotSeen(Confirm):
    """Nobody knows the transaction, so it is called dead and the money is given back."""

    async def round(self) -> bool:
        await super().round()
        await self._context.db.run(self._give_up)
        return False

    async def _give_up(self, connection: Connection) -> None:
        for due in await attempts.due(connection, chain_id=self._chain.chain_id, most=5):
            if due.payout_id is None or (await self._chain.rail.look_up(due.tx.tx_id)).kind is not SightingKind.UNSEEN:
                continue
            key = versions.Key(due.payout_id, due.version)  # type: ignore[arg-type]
            proof_id = await proofs.write(connection, key, shows="dead", kind="nonce_spent_by_other", evidence=[])
            await tokens.close(connection, token_id=due.token_id, proof_id=proof_id)
            await versions.fail(
                connection, key, PayoutState(due.status), proof_id=proof_id, code="unseen", detail="nobody knows it"
            )
            await ledger.release(connection, key, proof_id=proof_id)


class EndsACancelAtOnce(Confirm):
    """The cancel is in a block, and the operator is waiting."""

    async def round(self) -> bool:
        await super().round()
        await self._context.db.run(self._end)
        return False

    async def _end(self, connection: Connection) -> None:
        for row in await connection.fetch(
            "SELECT k.payout_id, k.version, k.token_id, v.status FROM tokens k JOIN attempts t ON t.tx_id = k.spent_tx"
            " JOIN payout_versions v USING (payout_id, version)"
            " WHERE t.purpose = 'cancel' AND NOT k.spent_final AND k.open AND v.status IN ('signed', 'broadcast')"
        ):
            key = versions.Key(row["payout_id"], row["version"])
            proof_id = await proofs.write(connection, key, shows="dead", kind="nonce_spent_by_other", evidence=[])
            await tokens.close(connection, token_id=row["token_id"], proof_id=proof_id)
            status = PayoutState(row["status"])
            await versions.fail(connection, key, status, proof_id=proof_id, code="cancelled", detail="mined")
            await ledger.release(connection, key, proof_id=proof_id)


class PaysWhatIsToBeCancelled(Replace):
    """A cancel is stuck, so the payment is signed once more at a higher fee."""

    async def _sign(self, connection: Connection, one: Wanted, market: Prepared, native: int) -> Stored | None:
        under = await replacing.take(connection, one, wallet_id=self._wallet.wallet_id)
        if under is None:
            return None
        first, *later = under.payloads
        wallet = self._wallet.address
        payload = self._chain.rail.rebuild(first, wallet=wallet, prepared=market, cancel=False, later=later)
        tx = self._chain.rail.assemble(payload.unsigned, self._signer.sign(payload.signing_hash), wallet=wallet)
        attempt = attempts.Signed(one.token_id, under.number, "pay", payload, tx)
        await attempts.store(connection, chain_id=self._chain.chain_id, signed=[attempt])
        return Stored("pay", under.value, tx.tx_id, first=False)


class ReleasesWithoutProof(Confirm):
    """The money is given back while the payment is under way: somebody asked for it."""

    async def round(self) -> bool:
        await super().round()
        await self._context.db.run(self._release)
        return False

    async def _release(self, connection: Connection) -> None:
        for due in await attempts.due(connection, chain_id=self._chain.chain_id, most=1):
            key = versions.Key(due.payout_id, due.version)  # type: ignore[arg-type]
            await ledger.release(connection, key, proof_id=1)


class SkipsABlock(Watch):
    """The second block of every longer piece is not looked at: where it is the first, the daemon itself sees it."""

    async def _read(self, first: int, last: int, wallet_ids: Sequence[int]) -> tuple[BlockReading, ...]:
        blocks = await super()._read(first, last, wallet_ids)
        return (*blocks[:1], *blocks[2:])


class BelievesEveryFork(Watch):
    """What was read once is true for ever: no parent is compared."""

    async def _look_for_fork(self, *_: Any) -> bool:
        return False

    async def _fork_below(self, height: int) -> None:
        """Nothing: it will heal by itself."""


class ShrugsAtOrphans(Reconcile):
    """What no payout explains must be somebody's spam."""

    async def _explain(self, connection: Connection, found: Pending) -> str:
        if found.ours is not None:
            return await super()._explain(connection, found)
        await transfers.set_result(connection, found.transfer_id, result="spam", payout_id=None, version=None)
        return "spam"


class SignsInReviewToo(Sign):
    """A payout in review is only a payout that somebody will look at later."""

    async def round(self) -> bool:
        more = await super().round()
        await self._context.db.run(self._sign_held)
        return more

    async def _sign_held(self, connection: Connection) -> None:
        gate = await tokens.lock_gate(connection, self._wallet.wallet_id)
        held = await connection.fetch(
            "SELECT payout_id, version FROM payout_versions WHERE status = 'created' AND review IS NOT NULL LIMIT 1"
        )
        if held and gate.next_nonce is not None and gate.paused is None:
            key = versions.Key(held[0]["payout_id"], held[0]["version"])
            await tokens.bind(
                connection, wallet_id=self._wallet.wallet_id, kind="evm_nonce", first=gate.next_nonce, keys=[key]
            )


def pays_again(parts: Parts) -> list[Worker]:
    """See PaysAgain."""
    return instead(parts, PaysAgain(parts.context, parts.chain))


def pays_again_behind_the_database(parts: Parts) -> list[Worker]:
    """See PaysAgainBehindTheDatabase."""
    broken = PaysAgainBehindTheDatabase(parts.context, parts.chain)
    broken.parts = parts
    return instead(parts, broken)


def sends_before_it_is_stored(parts: Parts) -> list[Worker]:
    """See SendsBeforeItIsStored."""
    return instead(parts, SendsBeforeItIsStored(parts.context, parts.chain))


def fails_what_is_not_seen(parts: Parts) -> list[Worker]:
    """See FailsWhatIsNotSeen."""
    return instead(parts, FailsWhatIsNotSeen(parts.context, parts.chain))


def ends_a_cancel_at_once(parts: Parts) -> list[Worker]:
    """See EndsACancelAtOnce."""
    return instead(parts, EndsACancelAtOnce(parts.context, parts.chain))


def pays_what_is_to_be_cancelled(parts: Parts) -> list[Worker]:
    """See PaysWhatIsToBeCancelled."""
    wallet = parts.context.catalog.wallets["hot0"]
    signer = parts.scene.signer(wallet.address)
    return instead(parts, PaysWhatIsToBeCancelled(parts.context, parts.chain, wallet, signer))


def releases_without_proof(parts: Parts) -> list[Worker]:
    """See ReleasesWithoutProof."""
    return instead(parts, ReleasesWithoutProof(parts.context, parts.chain))


def confirms_at_once(parts: Parts) -> list[Worker]:
    """One block is deep enough, somebody found, when customers complained."""
    parts.rail._paid = ByDepth(1)
    return production(parts)


def skips_a_block(parts: Parts) -> list[Worker]:
    """See SkipsABlock."""
    return instead(parts, SkipsABlock(parts.context, parts.chain))


def believes_every_fork(parts: Parts) -> list[Worker]:
    """See BelievesEveryFork."""
    return instead(parts, BelievesEveryFork(parts.context, parts.chain))


def shrugs_at_orphans(parts: Parts) -> list[Worker]:
    """See ShrugsAtOrphans."""
    return instead(parts, ShrugsAtOrphans(parts.context, parts.chain))


def signs_in_review_too(parts: Parts) -> list[Worker]:
    """See SignsInReviewToo."""
    wallet = parts.context.catalog.wallets["hot0"]
    signer = parts.scene.signer(wallet.address)
    return instead(
        parts, SignsInReviewToo(parts.context, parts.chain, wallet, signer, policy=Policy(terms=parts.terms))
    )


def signs_beyond_every_limit(parts: Parts) -> list[Worker]:
    """Limits are for intake, somebody thought, who had never seen two hours' worth fall due at once."""
    wallet = parts.context.catalog.wallets["hot0"]
    signer = parts.scene.signer(wallet.address)
    return instead(parts, Sign(parts.context, parts.chain, wallet, signer, policy=Policy()))
