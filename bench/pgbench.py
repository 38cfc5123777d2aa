"""pgbench doing the very transaction that intake does for one payout: the limit of one commit per payout.

The statements are not written down here. They are recorded while our own code stores one order, so that
they cannot drift apart; its values become pgbench's variables.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import UUID

import asyncpg

from bench.figures import percentile
from bench.stage import ASSET, CHAIN, NETWORK, WALLET, BenchFailed, Stage
from chains.evm import address as evm
from daemon.local.postgres_programs import find_programs
from daemon.store import catalog
from daemon.store.catalog import NamedAsset, NamedChain, NamedWallet
from daemon.store.incidents import Desk
from daemon.store.intake_batch import Member, Rules, Shop, Submitted, store
from daemon.store.orders import NewPayout, Policy, resolve
from daemon.store.outbox import Outbox

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

#: Values of the recorded order, and what stands for each in pgbench's script.
ID = UUID("5ca1ab1e-0000-4000-8000-00000000cafe")
KEY, ACCOUNT, DESTINATION = "the-key-of-this-order", "acct-1", "0x" + "be" * 20
STAND_INS = {
    str(ID): "md5(:n::text)::uuid::text",
    KEY: "('k' || :n::text)",
    ACCOUNT: "('acct-' || :a::text)",
    DESTINATION: "('0x' || md5(:n::text) || '00000000')",
}


@dataclass(slots=True)
class Recorder:
    """A connection that remembers what it was asked to run."""

    connection: Connection
    seen: list[tuple[str, tuple[object, ...]]]

    async def execute(self, query: str, *args: object) -> str:
        """Run a statement."""
        self.seen.append((query, args))
        return await self.connection.execute(query, *args)

    async def fetch(self, query: str, *args: object) -> list[asyncpg.Record]:
        """Run a query."""
        self.seen.append((query, args))
        return list(await self.connection.fetch(query, *args))


class Spelling:
    """Addresses of the one chain that there is."""

    def parse(self, chain_id: str, text: str) -> str:
        """The canonical spelling."""
        return evm.parse_address(text)

    def show(self, chain_id: str, address: str) -> str:
        """The spelling for people."""
        return evm.show_address(address)


@dataclass(frozen=True, slots=True)
class Rate:
    """What pgbench reports: transactions per second, and its own latencies."""

    clients: int
    per_s: float
    latencies_ms: tuple[float, ...]

    def ms(self, share: float) -> float:
        """A percentile of the latency in milliseconds."""
        return percentile(self.latencies_ms, share)


async def recorded_script(stage: Stage, dsn: str) -> str:
    """The transaction of one payout's intake as a script; `:a` is one of `:accounts` accounts."""
    connection = await asyncpg.connect(dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        seen = await _record(stage, connection)
        await transaction.rollback()
        statements = [await _statement(connection, sql, args) for sql, args in seen]
    finally:
        await connection.close()
    lines = [r"\set n random(1, 4611686018427387904)", r"\set a random(1, :accounts)", "BEGIN;", *statements, "COMMIT;"]
    return "\n".join(lines) + "\n"


async def _record(stage: Stage, connection: Connection) -> list[tuple[str, tuple[object, ...]]]:
    """What our intake runs for one new order that is accepted."""
    known = NamedChain(
        name=NETWORK,
        chain_id=CHAIN,
        genesis=await connection.fetchval("SELECT genesis FROM chains WHERE chain_id = $1", CHAIN),
        assets=(NamedAsset("ETH", "", 18), NamedAsset(ASSET, stage.contract, 6)),
        wallets=(NamedWallet(WALLET, stage.address, True, False, 1000),),
    )
    names = await catalog.store(connection, [known])
    addresses = Spelling()
    order = NewPayout(
        account=ACCOUNT, idempotency_key=KEY, asset=ASSET, network=NETWORK, destination=DESTINATION, amount="1",
        created_by="bench",
    )  # fmt: skip
    member = Member(order, resolve(order, catalog=names, addresses=addresses, policy=Policy()), ID)
    recorder = Recorder(connection, [])
    shop = Shop(names, addresses, Desk("bench", Outbox(()), frozenset()), Rules())
    (outcome,) = await store(recorder, [member], shop)
    if not isinstance(outcome, Submitted) or outcome.refusal is not None:
        raise BenchFailed(f"the order to record was not accepted: {outcome}")
    return recorder.seen


async def _statement(connection: Connection, sql: str, args: Sequence[object]) -> str:
    """One statement with its values in place, ready for pgbench."""
    prepared = await connection.prepare(sql)
    kinds = [kind.name for kind in prepared.get_parameters()]
    text = "\n".join(line for line in sql.splitlines() if not line.lstrip().startswith("--"))
    for number in range(len(args), 0, -1):  # from the last, or $1 would be found in $10
        text = text.replace(f"${number}", _value(args[number - 1], kinds[number - 1]))
    return f"{text.rstrip()};"


def _value(value: object, kind: str) -> str:
    """A value of this type as an expression of SQL and of pgbench's variables."""
    if isinstance(value, list):
        return f"ARRAY[{', '.join(_value(one, kind.removesuffix('[]')) for one in value)}]::{kind}"
    if value is None:
        return f"NULL::{kind}"
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'::bytea"
    return f"({_text(str(value))})::{kind}"


def _text(text: str) -> str:
    """A text as an expression. A colon is escaped: pgbench would take what follows for a variable."""
    for marker, stand_in in STAND_INS.items():
        if text == marker:
            return stand_in
        if marker in text:
            before, _, after = text.partition(marker)
            return f"{_text(before)} || {stand_in} || {_text(after)}"
    quoted = text.replace("\\", "\\\\").replace("'", "''").replace(":", "\\x3a")
    return f"E'{quoted}'"


async def run(stage: Stage, dsn: str, script: str, *, clients: int, accounts: int, seconds: float) -> Rate:
    """Run the script for `seconds`. Raises BenchFailed when pgbench does, or when a transaction fails."""
    program = find_programs(stage.server.place.data).folder / "pgbench"
    folder = Path(tempfile.mkdtemp(dir=stage.folder))
    (folder / "script.sql").write_text(script)
    command = [
        str(program), "--no-vacuum", "--protocol=prepared", f"--client={clients}", "--jobs=2",
        f"--define=accounts={accounts}", "--file=script.sql",
        f"--time={round(seconds)}" if seconds >= 1 else "--transactions=5",  # it knows whole seconds only
        "--log", "--log-prefix=took",
    ]  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=_environment(dsn), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        out, _ = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    found = re.search(rb"tps = ([0-9.]+)", out)
    if process.returncode or found is None or b"number of failed transactions: 0 " not in out:
        raise BenchFailed(f"pgbench ended with {process.returncode}:\n{out.decode(errors='replace')[-2000:]}")
    return Rate(clients, float(found[1]), tuple(_took_ms(folder)))


def _took_ms(folder: Path) -> list[float]:
    """The latencies from pgbench's logs. A line: client, number, microseconds, script, time, its microseconds."""
    took = [int(line.split()[2]) / 1000 for log in folder.glob("took.*") for line in log.read_text().splitlines()]
    shutil.rmtree(folder)
    return took


def _environment(dsn: str) -> dict[str, str]:
    """The DSN as variables: a password on the command line could be read by anybody."""
    parts = urlsplit(dsn)
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "PGHOST": parse_qs(parts.query)["host"][0],
        "PGUSER": unquote(parts.username or ""),
        "PGPASSWORD": unquote(parts.password or ""),
        "PGDATABASE": parts.path[1:],
    }


def describe(rate: Rate) -> str:
    """What this limit is, in words."""
    return f"pgbench, same transaction, {rate.clients} clients"


def best(rates: Sequence[Rate]) -> Rate:
    """The quickest of several: more clients are not always better."""
    return max(rates, key=lambda rate: rate.per_s)
