"""What must hold of the books after every step, asked of the database itself; shares no SQL with the store."""

from __future__ import annotations

from pathlib import Path

from daemon.store.queries import Connection, Queries
from tests.cases.books_model import Model

FILE = Path(__file__).with_suffix(".sql")
SQL = Queries(FILE.read_text(), FILE.name)


async def judge(connection: Connection, model: Model) -> None:
    """Assert every rule of the books of the model's accounts, and that the store has what the model has."""
    names = list(model.accounts)
    await judge_accounts(connection, names)
    rows = await SQL["balances"].rows(connection, names)
    stored = {row["account"]: (int(row["available"]), int(row["reserved"]), int(row["settled"])) for row in rows}
    expected = {name: account.shown for name, account in model.accounts.items()}
    assert dict.fromkeys(expected, (0, 0, 0)) | stored == expected
    assert all(sum(account.shown) == account.outside for account in model.accounts.values()), (
        "the model itself is wrong"
    )
    lives = [tuple(row) for row in await SQL["lives"].rows(connection, names)]
    assert lives == [
        (one.key, life.status, life.review, life.cancelling, life.code, life.closed, life.reversed, life.reserved)
        for one in sorted(model.payouts, key=lambda payout: payout.key)
        for life in one.lives
    ]


async def judge_everybody(connection: Connection) -> None:
    """Assert the rules of everybody's books."""
    await judge_accounts(connection, [row["account"] for row in await SQL["accounts"].rows(connection)])


async def judge_accounts(connection: Connection, names: list[str]) -> None:
    """Assert the rules of the books of these accounts."""
    broken = await SQL["broken"].rows(connection, names)
    assert not broken, [tuple(row) for row in broken]
