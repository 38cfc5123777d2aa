"""Lists of payouts: everything is found, once, newest first, and no page reads more of history than it may."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg
import pytest

from daemon.store import transfer_views
from daemon.store.catalog import Catalog
from daemon.store.payout_search import Filters, search
from daemon.store.transfer_views import TransferFilters, transfers
from tests.http.api_world import EvmAddresses

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

#: Names, then payouts: payout n is of account n % 3, of destination n % 5 and so on; some fail, wait, or are in review.
HISTORY = Path(__file__).with_name("payout_search_history.sql")
EVERYTHING = """
    SELECT p.*, lower(u.name) AS asset, v.status,
           COALESCE(v.review, CASE WHEN v.needs_approval AND v.status = 'created' THEN 'approval' END) AS review,
           ARRAY(SELECT w.name FROM wallets w
                  WHERE w.wallet_id = p.wallet_id
                     OR w.wallet_id IN (SELECT k.wallet_id FROM tokens k WHERE k.payout_id = p.payout_id)) AS wallets,
           ARRAY(SELECT e.tx_id FROM tokens k JOIN attempts e USING (token_id)
                  WHERE k.payout_id = p.payout_id) AS txs
      FROM payouts p JOIN assets USING (asset_id) JOIN units u USING (unit_id)
      JOIN payout_versions v ON v.payout_id = p.payout_id
       AND v.version = (SELECT max(n.version) FROM payout_versions n WHERE n.payout_id = p.payout_id)
     ORDER BY p.created_at DESC, p.payout_id DESC
"""
CASES: list[dict[str, Any]] = [
    {}, {"account": "a1"}, {"accounts": ("a2",)}, {"accounts": ("a1", "house:treasury")}, {"accounts": ("nobody",)},
    {"idempotency_key": "k7"}, {"idempotency_key": "k7", "accounts": ("a1",)},
    {"idempotency_key": "k7", "tx_ids": ("0x7", "0x22")}, {"tx_ids": ("0x7", "0x8")}, {"tx_ids": ("0xnone",)},
    {"status": ("confirmed",)}, {"status": ("failed",)}, {"status": ("created",)}, {"status": ("signed", "created")},
    {"status": ("signed", "failed")}, {"review": ("operator",)}, {"review": ("approval",)},
    {"review": ("approval", "operator")}, {"network": "TWO"}, {"asset": "eth"}, {"asset": "none"},
    {"destinations": ("0xd3",)}, {"destinations": ("0xd3", "0xd4")},
    {"wallet": "hot"}, {"wallet": "rare"}, {"wallet": "nobody"},
    {"from": 40}, {"to": 40}, {"from": 90, "to": 40}, {"account": "a0", "status": ("failed",)},
    {"account": "a0", "status": ("signed",), "asset": "usdc", "network": "one", "wallet": "hot", "from": 90},
    {"wallet": "rare", "status": ("confirmed",), "destinations": ("0xd0",)},
]  # fmt: skip


async def filled(dsn: str, count: int) -> Connection:
    """A connection to a history of so many payouts, written behind the schema's back."""
    connection: Connection = await asyncpg.connect(dsn)
    await connection.execute("SET session_replication_role = replica; SET jit = off")
    await connection.execute(HISTORY.read_text().replace(":count", str(count)))
    await connection.execute("ANALYZE; SET session_replication_role = origin")
    return connection


@pytest.fixture
async def some(database_dsn: str) -> AsyncIterator[Connection]:
    """200 payouts."""
    connection = await filled(database_dsn, 200)
    yield connection
    await connection.close()


def filters_of(case: dict[str, Any], now: datetime) -> Filters:
    """The filters of a case; `from` and `to` are minutes ago."""
    rest = {name: value for name, value in case.items() if name not in ("from", "to")}
    return Filters(
        **rest,
        created_from=now - timedelta(minutes=case["from"]) if "from" in case else None,
        created_to=now - timedelta(minutes=case["to"]) if "to" in case else None,
    )


async def brute_force(connection: Connection, filters: Filters) -> list[UUID]:
    """The same by looking at every payout there is."""
    rows = await connection.fetch(EVERYTHING)
    f = filters

    def fits(row: asyncpg.Record) -> bool:
        return all((
            f.accounts is None or row["account"] in f.accounts,
            f.account is None or row["account"] == f.account,
            f.idempotency_key is None or row["idempotency_key"] == f.idempotency_key,
            f.status is None or row["status"] in f.status,
            f.review is None or row["review"] in f.review,
            f.network is None or row["network"].lower() == f.network.lower(),
            f.asset is None or row["asset"] == f.asset.lower(),
            f.destinations is None or row["destination"] in f.destinations,
            f.wallet is None or f.wallet in row["wallets"],
            f.tx_ids is None or set(f.tx_ids) & set(row["txs"]),
            f.created_from is None or row["created_at"] >= f.created_from,
            f.created_to is None or row["created_at"] < f.created_to,
        ))  # fmt: skip

    return [row["payout_id"] for row in rows if fits(row)]


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_pages_give_everything_that_matches_once_and_newest_first(
    some: Connection, case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    filters = filters_of(case, await some.fetchval("SELECT now()"))
    expected = await brute_force(some, filters)
    for few, walked_most, most in ((5_000, 20_000, 500), (3, 11, 7), (3, 4, 9)):
        monkeypatch.setattr("daemon.store.payout_search.FEW", few)
        found, before, pages = [], None, 0
        while True:
            async with some.transaction():
                ids, before = await search(some, filters, before=before, most=most, walked_most=walked_most)
            found += ids
            pages += 1
            if before is None:
                break

        assert found == expected
        assert pages <= 2 + 200 // min(most, walked_most)


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_no_page_reads_more_of_history_than_it_may(case: dict[str, Any], much: Connection) -> None:
    filters = filters_of(case, await much.fetchval("SELECT now()"))
    async with much.transaction():
        before = await read(much)
        await search(much, filters, before=None, most=10, walked_most=200)
        rows = await read(much) - before

    # Several tables, the look-up of a rare wallet, and all that is open: of sixty thousand rows in them.
    assert rows < 15_000


async def test_transfers_are_looked_up_and_not_searched_for(much: Connection) -> None:
    catalog, addresses = Catalog({}, {}), EvmAddresses()
    asked = {
        "payout": TransferFilters(payout_id=UUID(int=4_001)),
        "transaction": TransferFilters(tx_ids=("0x4001",)),
        "orphans": TransferFilters(result="orphan"),
        "everything": TransferFilters(),
    }
    read_rows, found = {}, {}
    for name, filters in asked.items():
        async with much.transaction():
            before = await read(much)
            page = await transfers(much, filters, before=None, most=10, catalog=catalog, addresses=addresses)
            read_rows[name], found[name] = await read(much) - before, [one["tx_hash"] for one in page.objects]

    assert found["payout"] == found["transaction"] == ["0x4001"]
    assert [int(tx, 16) > 0 for tx in found["orphans"]] == [True] * 10
    assert max(read_rows.values()) < 2_000


async def test_a_walk_over_transfers_that_finds_nothing_goes_on_where_it_stopped(
    some: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer_views, "WALKED_MOST", 20)
    monkeypatch.setattr(transfer_views, "FEW", 2)
    found, before = [], None
    while True:
        async with some.transaction():
            page = await transfers(
                some,
                TransferFilters(wallet="rare"),
                before=before,
                most=50,
                catalog=Catalog({}, {}),
                addresses=EvmAddresses(),
            )
        found += [one["tx_hash"] for one in page.objects]
        before = page.before
        if before is None:
            break

    rows = await some.fetch("SELECT tx_id FROM transfers WHERE wallet_id = 2 ORDER BY transfer_id DESC")
    assert found == [row["tx_id"] for row in rows]
    assert len(found) > 2


async def read(connection: Connection) -> int:
    """Rows that this transaction has read so far, by scan or by index."""
    total: int = await connection.fetchval(
        "SELECT sum(seq_tup_read + COALESCE(idx_tup_fetch, 0))::bigint FROM pg_stat_xact_user_tables"
    )
    return total


@pytest.fixture(scope="module")
def much_dsn(databases: Any, migrated_template: str) -> Any:
    """A database with 20,000 payouts, shared by the tests of this module, which change nothing."""
    name = databases.create(template=migrated_template)
    dsn = databases.dsn_of(name)

    async def fill() -> None:
        await (await filled(dsn, 20_000)).close()

    databases.run(fill())
    yield dsn
    databases.drop(name)


@pytest.fixture
async def much(much_dsn: str) -> AsyncIterator[Connection]:
    """A connection to it."""
    connection: Connection = await asyncpg.connect(much_dsn)
    await connection.execute("SET jit = off")
    yield connection
    await connection.close()
