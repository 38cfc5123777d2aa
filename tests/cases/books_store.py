"""The store's own functions, in the words of the books: money in and out, orders, people, workers, the chain.

What the chain shows is written as the watching loops write it; every step of a payout and every ledger entry is
the store's own, but for the reversal, of which there is only the schema so far.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal
from uuid import UUID, uuid4

from daemon.payouts.states import PayoutState
from daemon.store import accounts, endings, intake_batch, ledger, proofs, retries, tokens, versions
from daemon.store.catalog import Catalog
from daemon.store.database import Database
from daemon.store.endings import Ending
from daemon.store.intake_batch import Member, Rules, Shop, Submitted
from daemon.store.orders import NewPayout, Policy, Rejected, resolve
from daemon.store.payout_actions import Act, Acted
from daemon.store.queries import Connection, Queries
from daemon.store.twins import TwinRules
from daemon.store.versions import Key
from tests.cases.books_model import AGAIN, DONE, Payout
from tests.http.api_world import ETHEREUM, make_intake, seed

CANCEL = Ending("nonce_spent_by_other", "cancelled", "its cancel is final")
REVERT = Ending("reverted_final", "reverted", "ERC20: transfer amount exceeds balance")
UNIT = 10**6
FILE = Path(__file__).with_suffix(".sql")
SQL = Queries(FILE.read_text(), FILE.name)
ActOf = Callable[[Connection, Act, Shop], Awaitable[Any]]


class Store:
    """One database, and what a daemon knows of it."""

    def __init__(self, database: Database, catalog: Catalog, shop: Shop) -> None:
        """Use `open_store`."""
        self.database = database
        self.catalog = catalog
        self.shop = shop
        self.wallet = catalog.wallets["hot-1"]

    def switch_ledger(self, *, on: bool) -> None:
        """As if every daemon had been started again with this `ledger.mode`."""
        self.shop = replace(self.shop, rules=replace(self.shop.rules, ledger=on))

    # ------------------------------------------------------------------ money and orders

    async def book(self, kind: Literal["credit", "debit"], account: str, amount: int, key: str) -> str:
        """A credit or a debit under a key."""
        booking = accounts.Booking(
            kind=kind, account=account, idempotency_key=key, asset="USDC", amount=_shown(amount), reference="made up",
            actor="test",
        )  # fmt: skip
        outbox, on = self.shop.desk.outbox, self.shop.rules.ledger
        answer = await accounts.book(self.database, booking, outbox=outbox, ledger_on=on)
        if isinstance(answer, Rejected):
            return answer.code
        return AGAIN if answer.replayed else DONE

    async def order(self, orders: Sequence[tuple[str, str, int, str]]) -> list[tuple[UUID, str]]:
        """A batch of (account, key, amount, destination); id and answer of each."""
        members = [self._member(*one) for one in orders]
        outcomes = await self.database.run(lambda connection: intake_batch.store(connection, members, self.shop))
        return [_answer(outcome) for outcome in outcomes]

    def _member(self, account: str, key: str, amount: int, destination: str) -> Member:
        order = NewPayout(
            account=account, idempotency_key=key, asset="USDC", network="Ethereum", destination=destination,
            amount=_shown(amount), created_by="test",
        )  # fmt: skip
        shop = self.shop
        resolved = resolve(order, catalog=shop.catalog, addresses=shop.addresses, policy=shop.rules.policy)
        return Member(order, resolved, uuid4())

    # ------------------------------------------------------------------ people

    async def act(self, what: ActOf, payout: Payout) -> str:
        """cancel, hold, release_review, close."""
        act = Act(payout.payout_id, "somebody", "made up")
        return _acted(await self.database.run(lambda connection: what(connection, act, self.shop)))

    async def retry(self, payout: Payout, version: int) -> str:
        """The next version after `version`."""
        act = Act(payout.payout_id, "somebody", "made up")
        return _acted(
            await self.database.run(
                lambda connection: retries.retry(connection, act, self.shop, version=version, refused_only=False)
            )
        )

    # ------------------------------------------------------------------ workers and the chain

    async def sign(self, payout: Payout) -> bool:
        """Bind the wallet's next nonce and store the attempt, as the signing loop does; whether it was let."""
        key = _key(payout)

        async def work(connection: Connection) -> bool:
            gate = await tokens.lock_gate(connection, self.wallet.wallet_id)
            assert gate.next_nonce is not None
            claimed = await versions.claim(connection, wallet_id=self.wallet.wallet_id, keys=[key])
            for one in claimed:
                ((_, token_id, value),) = await tokens.bind(
                    connection, wallet_id=self.wallet.wallet_id, kind="evm_nonce", first=gate.next_nonce, keys=[one.key]
                )
                await SQL["attempt"].run(connection, token_id, 1, "pay", ETHEREUM, f"0xpay{value}")
            return bool(claimed)

        return await self.database.run(work)

    async def accept(self, payout: Payout) -> bool:
        """A node took it: the step to broadcast, where it is one."""
        source, target = PayoutState.SIGNED, PayoutState.BROADCAST
        return await self.database.run(lambda connection: versions.move(connection, _key(payout), source, target))

    async def pay(self, payout: Payout) -> None:
        """Its transfer is seen, matched and final; the confirming loop's step, again until nothing is left to do."""
        await self.land(payout)
        assert [await self.confirm(payout) for _ in range(2)] == [1, 0]

    async def land(self, payout: Payout) -> None:
        """Its transfer is seen, matched and final."""

        async def work(connection: Connection) -> None:
            token = await _token(connection, payout)
            tx_id = f"0xpay{token['value']}"
            await SQL["spend"].run(connection, token["token_id"], tx_id, True, "ours", False)
            await SQL["land"].run(connection, payout.payout_id, tx_id, self.wallet.wallet_id, uuid4())
            await SQL["match"].run(connection, payout.payout_id, payout.version, tx_id)

        await self.database.run(work)

    async def confirm(self, payout: Payout) -> int:
        """The confirming loop's step over it; how many versions have ended by it."""

        async def work(connection: Connection) -> int:
            found = await endings.paid(connection, chain_id=ETHEREUM, most=1, payout_id=payout.payout_id)
            return sum([await endings.confirm(connection, one, desk=self.shop.desk) for one in found])

        return await self.database.run(work)

    async def spend(self, payout: Payout, *, by_cancel: bool) -> None:
        """Its token is used for good by its cancel, or by its own payment, which reverted."""

        async def work(connection: Connection) -> None:
            token = await _token(connection, payout)
            tx_id = f"0x{'cancel' if by_cancel else 'pay'}{token['value']}"
            if by_cancel:
                await SQL["attempt"].run(connection, token["token_id"], 2, "cancel", ETHEREUM, tx_id)
            await SQL["spend"].run(connection, token["token_id"], tx_id, by_cancel, "ours", True)

        await self.database.run(work)

    async def end_spent(self, payouts: Sequence[Payout]) -> int:
        """What the confirming loop makes of spent tokens of these payouts; how many versions have ended by it."""
        mine = {payout.payout_id for payout in payouts}

        async def work(connection: Connection) -> int:
            found = await endings.spent(connection, chain_id=ETHEREUM, most=10_000)
            ended = [
                await endings.fail(connection, one, CANCEL if one.purpose == "cancel" else REVERT, desk=self.shop.desk)
                for one in found
                if one.key.payout_id in mine
            ]
            return sum(one is not None for one in ended)

        return await self.database.run(work)

    async def reverse(self, payout: Payout) -> None:
        """What had paid it left the chain, and another transaction holds its nonce for good: the schema's own way."""
        key = _key(payout)

        async def work(connection: Connection) -> None:
            token_id = (await _token(connection, payout))["token_id"]
            await SQL["spend"].run(connection, token_id, "0xother", True, "foreign", True)
            dead = await proofs.write(connection, key, shows="dead", kind="nonce_spent_by_other", evidence=[])
            await tokens.close(connection, token_id=token_id, proof_id=dead)
            await SQL["leave_the_chain"].run(connection, key.payout_id, key.version)
            gone = await proofs.write(connection, key, shows="reversed", kind="nonce_spent_by_other", evidence=[])
            for step in ("void", "reverse", "book_reversal"):
                await SQL[step].run(connection, key.payout_id, key.version, gone)

        await self.database.run(work)

    # ------------------------------------------------------------------ everything a second time

    async def reserve_again(self, payout: Payout) -> None:
        """Write the reservation of the newest version a second time, past every check but the database's."""
        unit_id = self.catalog.networks["ethereum"].assets["usdc"].unit_id
        held = [ledger.Reservation(_key(payout), payout.account, unit_id, payout.amount)]
        await self.database.run(lambda connection: ledger.reserve(connection, held))

    async def settle_again(self, payout: Payout) -> None:
        """The same for its settlement."""
        ends = await self._ends(payout)
        await self.database.run(
            lambda connection: ledger.settle(connection, _key(payout), transfer_id=ends["transfer_id"])
        )

    async def release_again(self, payout: Payout) -> None:
        """The same for its release."""
        ends = await self._ends(payout)
        await self.database.run(lambda connection: ledger.release(connection, _key(payout), proof_id=ends["proof_id"]))

    async def _ends(self, payout: Payout) -> Any:
        return await self.database.run(lambda connection: SQL["ends"].one(connection, payout.payout_id, payout.version))

    async def book_under_a_known_key(self, kind: Literal["credit", "debit"], account: str, key: str) -> None:
        """The same for a credit or a debit: its key is remembered a second time."""

        async def work(connection: Connection) -> None:
            with ledger.once(kind):
                await SQL["remember_again"].run(connection, account, key)

        await self.database.run(work)


async def open_store(dsn: str, *, policy: Policy | None = None, most: int = 8) -> Store:
    """The store on a migrated database; nothing is told of equal orders, which is another test's matter.

    `most` connections at once.
    """
    database = await Database.connect(dsn, most=most)
    catalog = await seed(database)
    async with database.transaction() as connection:
        await SQL["open_wallet"].run(connection)
        await SQL["open_chain"].run(connection, ETHEREUM)
    intake, _ = make_intake(database, catalog, rules=Rules(policy=policy or Policy(), twins=TwinRules(enabled=False)))
    return Store(database, catalog, intake.shop)


async def _token(connection: Connection, payout: Payout) -> Any:
    token = await SQL["token"].one(connection, payout.payout_id, payout.version)
    assert token is not None, "it was signed"
    return token


def _key(payout: Payout) -> Key:
    return Key(payout.payout_id, payout.version)


def _shown(amount: int) -> str:
    """Base units of USDC as the API words them."""
    whole, rest = divmod(amount, UNIT)
    return f"{whole}.{rest:06d}" if rest else str(whole)


def _answer(outcome: Any) -> tuple[UUID, str]:
    assert isinstance(outcome, Submitted), outcome
    refused = outcome.refusal.code if outcome.refusal else DONE
    return UUID(outcome.payout["id"]), AGAIN if outcome.replayed else refused


def _acted(outcome: Any) -> str:
    if isinstance(outcome, Rejected):
        return outcome.code
    assert isinstance(outcome, Acted)
    return DONE if outcome.changed else AGAIN
