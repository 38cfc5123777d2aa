"""What accounts must have after each step, worked out by hand: the answers that the store is held against."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

DONE, AGAIN = "done", "again"
REFUSED = "invalid_state"
LACKING = "insufficient_funds"
OPEN = frozenset({"created", "signed", "broadcast"})
SIGNED = frozenset({"signed", "broadcast"})


@dataclass
class Account:
    """Three buckets, and what has come in and gone out."""

    available: int = 0
    reserved: int = 0
    settled: int = 0
    outside: int = 0  #: credits less debits

    @property
    def shown(self) -> tuple[int, int, int]:
        """The buckets."""
        return self.available, self.reserved, self.settled


@dataclass
class Life:
    """A version."""

    status: str
    reserved: bool
    code: str | None = None
    review: bool = False
    cancelling: bool = False
    reversed: bool = False
    closed: bool = False
    spent_by: str | None = None  #: what used its token without paying

    @property
    def dead(self) -> bool:
        """Proved unable to pay."""
        return self.status == "failed" or self.reversed


@dataclass
class Payout:
    """An order and its versions."""

    payout_id: UUID
    account: str
    key: str
    amount: int
    lives: list[Life] = field(default_factory=list)

    @property
    def now(self) -> Life:
        """The newest version."""
        return self.lives[-1]

    @property
    def version(self) -> int:
        """Its number."""
        return len(self.lives)


class Model:
    """Accounts and payouts. Each method gives the answer that is expected, and takes the step if that is `done`."""

    def __init__(self) -> None:
        """Nobody has anything; the ledger is on."""
        self.accounts: dict[str, Account] = {}
        self.payouts: list[Payout] = []
        self.ledger = True

    def account(self, name: str) -> Account:
        """The account of this name; one that is new has nothing."""
        return self.accounts.setdefault(name, Account())

    # ------------------------------------------------------------------ money

    def book(self, kind: str, name: str, amount: int) -> str:
        """A credit or a debit."""
        account = self.account(name)
        if not self.ledger:
            return REFUSED
        if kind == "debit" and account.available < amount:
            return LACKING
        signed = amount if kind == "credit" else -amount
        account.available += signed
        account.outside += signed
        return DONE

    def order(self, payout: Payout) -> str:
        """A new order: accepted with its reservation, or born failed."""
        self.payouts.append(payout)
        if self.ledger and self.account(payout.account).available < payout.amount:
            payout.lives.append(Life("failed", reserved=False, code=LACKING))
            return LACKING
        self._begin(payout)
        return DONE

    def _begin(self, payout: Payout) -> None:
        payout.lives.append(Life("created", reserved=self.ledger))
        if self.ledger:
            account = self.account(payout.account)
            account.available -= payout.amount
            account.reserved += payout.amount

    def _end(self, payout: Payout, status: str, code: str | None = None) -> None:
        """Settle or release, if anything is reserved. A hold ends with it."""
        life, account = payout.now, self.account(payout.account)
        life.status, life.code, life.review = status, code, False
        if not life.reserved:
            return
        account.reserved -= payout.amount
        if status == "confirmed":
            account.settled += payout.amount
        else:
            account.available += payout.amount

    # ------------------------------------------------------------------ people

    def cancel(self, payout: Payout) -> str:
        """At once before signing; after it, asked for."""
        life = payout.now
        if life.status == "created":
            self._end(payout, "failed", "cancelled")
            return DONE
        if life.status in SIGNED:
            already, life.cancelling = life.cancelling, True
            return AGAIN if already else DONE
        return AGAIN if life.code == "cancelled" else REFUSED

    def hold(self, payout: Payout) -> str:
        """A person sets it aside."""
        life = payout.now
        if life.status not in OPEN:
            return REFUSED
        already, life.review = life.review, True
        return AGAIN if already else DONE

    def release(self, payout: Payout) -> str:
        """A person takes that back."""
        held, payout.now.review = payout.now.review, False
        return DONE if held else AGAIN

    def close(self, payout: Payout) -> str:
        """Somebody pays elsewhere."""
        life = payout.now
        if not life.dead:
            return REFUSED
        already, life.closed = life.closed, True
        return AGAIN if already else DONE

    def retry(self, payout: Payout, version: int) -> str:
        """The next version, once."""
        if version > payout.version:
            return REFUSED
        if version < payout.version:
            return AGAIN
        if not payout.now.dead or payout.now.closed:
            return REFUSED
        if self.ledger and self.account(payout.account).available < payout.amount:
            return LACKING
        self._begin(payout)
        return DONE

    # ------------------------------------------------------------------ workers and the chain

    def sign(self, payout: Payout) -> bool:
        """Whether a token may be bound."""
        life = payout.now
        if life.status != "created" or life.review:
            return False
        life.status = "signed"
        return True

    def accept(self, payout: Payout) -> bool:
        """A node took it."""
        if payout.now.status != "signed":
            return False
        payout.now.status = "broadcast"
        return True

    def pay(self, payout: Payout) -> None:
        """Its transfer is final."""
        self._end(payout, "confirmed")

    def spend(self, payout: Payout, *, by_cancel: bool) -> None:
        """Its token is used for good, and that pays nobody."""
        payout.now.spent_by = "cancelled" if by_cancel else "reverted"

    def end_spent(self) -> int:
        """Versions end whose token is spent; what a person holds waits for that person, but for its cancel."""
        ending = [
            one
            for one in self.payouts
            if one.now.status in SIGNED and one.now.spent_by and (not one.now.review or one.now.spent_by == "cancelled")
        ]
        for payout in ending:
            self._end(payout, "failed", payout.now.spent_by)
        return len(ending)

    def reverse(self, payout: Payout) -> None:
        """What had paid it is proved gone."""
        payout.now.reversed = True
        if payout.now.reserved:
            account = self.account(payout.account)
            account.settled -= payout.amount
            account.available += payout.amount

    # ------------------------------------------------------------------ which there are

    def payable(self, payout: Payout) -> bool:
        """Whether what was signed for it may still land."""
        return payout.now.status in SIGNED and payout.now.spent_by is None

    def reversible(self, payout: Payout) -> bool:
        """Whether it is paid."""
        return payout.now.status == "confirmed" and not payout.now.reversed
