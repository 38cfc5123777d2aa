"""What every bench stands on: a folder, the embedded PostgreSQL, a local chain, and the daemon as a process.

All of it ends with the bench, also after Ctrl-C; what a killed one leaves behind, the next one removes.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import yaml

from chains.evm.devnet import CHAIN_ID, ETHER, Devnet
from chains.signers.key_file import load_key_file
from daemon.local.postgres import EmbeddedPostgres
from daemon.local.postgres_place import Place

ROOT = Path(__file__).resolve().parents[1]
PREFIX = "payoutd-bench-"
YOUNG_S = 60  #: one that is just starting may not hold its lock yet
START_S = 60.0
STOP_S = 20.0
POLL_S = 0.02
CHAIN = f"eip155:{CHAIN_ID}"
WALLET, NETWORK, ASSET = "hot", "local", "USDC"
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None  # loaded before the fork, used after it


class BenchFailed(Exception):
    """Something that a bench stands on did not work; the message says what."""


@dataclass(slots=True)
class Stage:
    """A running PostgreSQL and a local chain with a funded wallet. `config` writes a daemon's configuration.

    Blocks come only when they are asked for.
    """

    folder: Path
    server: EmbeddedPostgres
    chain: Devnet
    contract: str
    token: str = field(repr=False)
    address: str = ""
    key: Path = field(default=Path(), repr=False)
    numbers: Any = field(default_factory=lambda: count(1))

    async def another_wallet(self) -> None:
        """A new key with funds: a daemon starts on an empty database only with a wallet that has no history."""
        self.key = self.folder / f"hot-{next(self.numbers)}.key"
        self.address = _new_key(self.key)
        await self.chain.fund(self.address, 10_000 * ETHER)
        await self.chain.mint(self.contract, self.address, 10**18)

    async def database(self) -> str:
        """The DSN of a new, empty database."""
        name = f"bench_{next(self.numbers)}"
        connection = await asyncpg.connect(self.server.dsn)
        try:
            await connection.execute(f"CREATE DATABASE {name} STRATEGY FILE_COPY")
        finally:
            await connection.close()
        return urlsplit(self.server.dsn)._replace(path=f"/{name}").geturl()

    async def drop(self, dsn: str) -> None:
        """Remove a database of `database`."""
        connection = await asyncpg.connect(self.server.dsn)
        try:
            await connection.execute(f"DROP DATABASE {urlsplit(dsn).path[1:]} WITH (FORCE)")
        finally:
            await connection.close()

    def config(self, dsn: str, **sections: Any) -> Path:
        """A configuration file for this database and chain; `sections` replace whole sections."""
        folder = self.folder / f"config-{next(self.numbers)}"
        folder.mkdir()
        (folder / "dsn").write_text(dsn)
        (folder / "token").write_text(self.token)
        for secret in ("dsn", "token"):
            (folder / secret).chmod(0o600)
        path = folder / "config.yaml"
        path.write_text(yaml.safe_dump({**self._sections(), **sections}))
        return path

    def _sections(self) -> dict[str, Any]:
        node = {"name": "anvil", "http": self.chain.url, "ws": self.chain.ws_url}
        assets = {"ETH": {"native": True}, ASSET: {"contract": self.contract, "decimals": 6}}
        finality = {"confirmations": 2, "dead": {"tag": "finalized"}}
        signer = {"kind": "private_key_file", "path": str(self.key)}
        return {
            "instance": "bench",
            "database": {"dsn_file": "dsn"},
            "http": {"listen": "127.0.0.1:0"},
            "api_tokens": [{"name": "bench", "token_file": "token", "account": "acct-1", "roles": ["admin"]}],
            "chains": {
                NETWORK: {
                    "kind": "evm", "chain_id": CHAIN_ID, "nodes": [node], "finality": finality, "assets": assets
                }
            },
            "wallets": {
                WALLET: {"chain": NETWORK, "address": self.address, "signer": signer, "max_in_flight": 1000}
            },
            "storm_per_minute": 10_000,
        }  # fmt: skip


@contextlib.asynccontextmanager
async def stage(*, fsync: bool = True) -> AsyncIterator[Stage]:
    """PostgreSQL and a chain, ready. Without `fsync` the figures mean nothing: for tests of the benches."""
    _sweep()
    folder = _new_folder()
    try:
        async with (
            await EmbeddedPostgres.start(folder, fsync=fsync) as server,
            await Devnet.start(block_time_s=None, slots_in_epoch=4) as chain,
        ):
            contract = await chain.deploy_token(symbol=ASSET, decimals=6)
            ready = Stage(folder, server, chain, contract, secrets.token_urlsafe(24))
            await ready.another_wallet()
            yield ready
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Running:
    """A daemon that takes requests."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def rss_mib(self) -> float:
        """Its resident memory now."""
        return _status(self.process.pid, "VmRSS") / 1024

    @property
    def peak_mib(self) -> float:
        """The most that it ever had resident."""
        return _status(self.process.pid, "VmHWM") / 1024

    @property
    def cpu_s(self) -> float:
        """Processor time that it has used."""
        return processor_s(self.process.pid)


@contextlib.asynccontextmanager
async def daemon(config: Path, *, roles: str | None = None) -> AsyncIterator[Running]:
    """`payoutd run` as a process of its own. Raises BenchFailed when it does not start."""
    log = config.with_name("log")
    process = _start(["run", "--config", str(config), *(["--roles", roles] if roles else [])], log)
    try:
        yield Running(process, await _port(process, log))
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(process.wait, STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _start(arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
    """The command payoutd of this checkout; its output goes to `log`."""
    with log.open("wb") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "daemon", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            preexec_fn=_die_with_parent(os.getpid()),  # noqa: PLW1509  # it only makes two system calls
        )


async def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    """The port of the API, once the log says that it listens."""
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        if (port := _port_in(log)) is not None:
            return port
        await asyncio.sleep(POLL_S)
    raise BenchFailed(f"the daemon did not start:\n{_tail(log)}")


def _port_in(log: Path) -> int | None:
    started = [line for line in log.read_text(errors="replace").splitlines() if '"daemon.started"' in line]
    return int(json.loads(started[-1])["api"]) if started else None


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]


def processor_s(pid: int) -> float:
    """Processor time of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def family_s(parent: int) -> float:
    """Processor time of a process and all of its children: PostgreSQL has one for each connection."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    total = processor_s(parent)
    for child in children:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # ended since: its time is its parent's
            total += processor_s(int(child))
    return total


def _status(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def _new_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    folder.chmod(0o711)  # as root, the server runs as another user
    return folder


def _new_key(path: Path) -> str:
    """A random key in a file; its address."""
    path.touch(mode=0o600)
    path.write_text(secrets.token_hex(32) + "\n")
    return load_key_file(path).address


def _die_with_parent(parent: int) -> Callable[[], None] | None:
    libc = _libc
    if libc is None:
        return None

    def ask() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before the request took effect
            os._exit(1)

    return ask


def _sweep() -> None:
    """Remove the folders of benches that were killed; a lock that nobody holds tells which."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        place, facts = Place(folder / "postgres"), folder.stat()
        if facts.st_uid != os.geteuid() or time.time() - facts.st_mtime < YOUNG_S or not place.root.is_dir():
            continue
        if (lock := place.take()) is not None:
            os.close(lock)
            shutil.rmtree(folder, ignore_errors=True)
