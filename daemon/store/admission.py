"""May these orders be accepted? The one function that says so, for a new order and for a retry alike.

Limits come before funds, and each order is decided on top of those before it; what is refused takes nothing
from either. Sweeps are not decided here: they move our own money, outside limits, approvals and ledger.

Locks are taken in one order: the keys of limits, then balances, each sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from daemon.payouts.amounts import show_amount
from daemon.payouts.policy import Act, Spend, Tally, Terms
from daemon.store import limits
from daemon.store.orders import NewPayout, Refusal, Resolved
from daemon.store.queries import Connection, load

SQL = load(__name__)
Asked: TypeAlias = "tuple[NewPayout, Resolved]"


@dataclass(frozen=True, slots=True)
class Ruling:
    """What becomes of an order. `needs_approval`: it is accepted, and waits for a second person."""

    refusal: Refusal | None = None
    needs_approval: bool = False


async def decide(connection: Connection, orders: Sequence[Asked], *, terms: Terms, ledger: bool) -> list[Ruling]:
    """A ruling for each, in their order. `ledger` off: nobody has balances."""
    asking = [asked for asked in orders if _asks(asked)]
    tally = await limits.tally(connection, Act.ACCEPTED, terms.at_intake, [_spend(asked) for asked in asking])
    purse = await _purse(connection, asking) if ledger else None
    return [_ruling(asked, tally, purse) if _asks(asked) else Ruling(asked[1].refusal) for asked in orders]


def _asks(asked: Asked) -> bool:
    order, resolved = asked
    return resolved.refusal is None and not order.sweeps


def _spend(asked: Asked) -> Spend:
    order, resolved = asked
    return Spend(
        unit_id=resolved.asset.unit_id,
        amount=resolved.amount,
        destination=resolved.destination,
        account=order.account,
        wallet_id=resolved.wallet.wallet_id if resolved.wallet else None,
    )


def _ruling(asked: Asked, tally: Tally, purse: _Purse | None) -> Ruling:
    spend = _spend(asked)
    over = tally.over(spend)
    if over is not None:
        return Ruling(Refusal("limit_exceeded", over.detail))
    lacking = purse.take(asked) if purse is not None else None
    if lacking is not None:
        return Ruling(lacking)
    needs_approval = tally.needs_approval(spend)
    tally.take(spend)
    return Ruling(needs_approval=needs_approval)


class _Purse:
    """What the accounts of these orders have left; locked."""

    def __init__(self, left: dict[tuple[str, int], int]) -> None:
        self._left = left

    def take(self, asked: Asked) -> Refusal | None:
        """Take the order's amount, or say that it is not there."""
        order, resolved = asked
        asset, key = resolved.asset, (order.account, resolved.asset.unit_id)
        available = self._left.get(key, 0)
        if available < resolved.amount:
            return Refusal(
                "insufficient_funds",
                f"account {order.account} has {show_amount(available, asset.decimals)} {asset.name} available, "
                f"the order asks for {show_amount(resolved.amount, asset.decimals)}",
            )
        self._left[key] = available - resolved.amount
        return None


async def _purse(connection: Connection, asking: Sequence[Asked]) -> _Purse:
    keys = sorted({(order.account, resolved.asset.unit_id) for order, resolved in asking})
    if not keys:
        return _Purse({})
    rows = await SQL["lock_balances"].rows(connection, [account for account, _ in keys], [unit for _, unit in keys])
    return _Purse({(row["account"], row["unit_id"]): int(row["available"]) for row in rows})
