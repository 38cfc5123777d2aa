"""What the database refuses and allows of sweeps: no account, no ledger, only to another wallet of ours; its counts."""

import pytest
from asyncpg import Connection, Record

from tests.store import schema_steps as do
from tests.store.schema_cases import HOT, SPARE, Allowed, Refused, allows, refuses, steps

OF_TREASURY = "'house:treasury'"


def swept(n: int, *, to: str = "0xcold", account: str = OF_TREASURY, asset: int = 1) -> str:
    """An order to sweep, with its version."""
    order = do.intent(n, to=to, asset=asset).replace("network, created_by)", "network, created_by, kind)")
    return steps(
        order.replace("'ann',", f"{account},", 1).replace("'net', 'ann')", "'net', 'ann', 'sweep')"), do.version(n)
    )


SWEEPS = [
    Refused("a sweep of an account", "payouts_sweep_account", "", swept(1, account="'ann'")),
    Refused("a sweep of another account of the house", "payouts_sweep_account", "", swept(1, account="'house:gas'")),
    Refused(
        "a payout of an account of the house",
        "payouts_sweep_account",
        "",
        do.intent(1).replace("'ann',", f"{OF_TREASURY},", 1),
    ),
    Refused("a reservation of a sweep", "ledger_no_sweep", swept(1), do.entry("reserve", 1, account="house:treasury")),
    Refused("a reservation of a sweep by an account", "ledger_as_ordered", swept(1), do.entry("reserve", 1)),
    Refused("a sweep to a stranger bound", "tokens_sweep_to_own_wallet", swept(1, to="0xD"), do.bind(1)),
    Refused("a sweep to a wallet of another chain bound", "tokens_sweep_to_own_wallet", swept(1, to="Sol"), do.bind(1)),
    Refused("a sweep to the wallet that pays", "tokens_sweep_elsewhere", swept(1, to="0xhot"), do.bind(1, wallet=HOT)),
    Allowed("a sweep to a wallet that is only watched", swept(1), do.bind(1), do.status(1), "signed"),
    Allowed(
        "a sweep to another wallet with a key", swept(1, to="0xhot"), do.bind(1, wallet=SPARE), do.status(1), "signed"
    ),
    Allowed("an order to sweep to a stranger stored, to be refused", "", swept(1, to="0xD"), do.status(1), "created"),
]

COUNTS = [
    Allowed(
        "an end noted once, when it comes",
        steps(do.order(1), do.order(2)),
        do.cancelled(3),
        "SELECT count(*) FROM ended_uncounted",
        1,
    ),
    Allowed(
        "an end noted with its chain, unit and status",
        "",
        do.paid(1, "0xa"),
        "SELECT string_agg(concat_ws('/', chain_id, unit_id, status), ' ') FROM ended_uncounted",
        "eip155:1/1/confirmed",
    ),
    Allowed(
        "a later change of what has ended not noted again",
        do.cancelled(1),
        "UPDATE payout_versions SET closed = true",
        "SELECT count(*) FROM ended_uncounted",
        1,
    ),
]

CASES = [case for case in SWEEPS + COUNTS if isinstance(case, Refused)]
ALLOWED = [case for case in SWEEPS + COUNTS if isinstance(case, Allowed)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
async def test_refused(case: Refused, seeded: "Connection[Record]") -> None:
    await refuses(seeded, case)


@pytest.mark.parametrize("case", ALLOWED, ids=lambda case: case.sentence)
async def test_allowed(case: Allowed, seeded: "Connection[Record]") -> None:
    await allows(seeded, case)
