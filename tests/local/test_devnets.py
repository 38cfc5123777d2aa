"""A local chain belongs to one process, and a start that cannot go on says so in one line."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from chains.errors import DevnetError
from daemon.config.load import from_values
from daemon.config.model import Config
from daemon.local.devnets import bring_up

CHAINS = {"ethereum": {"kind": "evm", "chain_id": 31337, "nodes": "devnet", "finality": {"confirmations": 2}}}


def local(folder: Path) -> Config:
    return from_values({"database": {"data_dir": str(folder)}, "chains": CHAINS}, base_dir=folder, environ={})


async def test_a_second_process_on_one_local_chain_is_refused_and_the_next_one_is_not(tmp_path: Path) -> None:
    """Two nodes on one state file would each forget what the other wrote."""
    async with AsyncExitStack() as first:
        await bring_up(local(tmp_path), first)
        async with AsyncExitStack() as second:
            with pytest.raises(DevnetError, match="another payoutd runs this local chain"):
                await bring_up(local(tmp_path), second)

    async with AsyncExitStack() as third:
        _, chains = await bring_up(local(tmp_path), third)
        assert list(chains) == ["ethereum"]


def test_a_port_that_is_taken_ends_the_start_with_one_line(database_dsn: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (tmp_path / "config.yaml").write_text(
            f"database: {{dsn: '{database_dsn}'}}\nhttp: {{listen: '127.0.0.1:{port}'}}\n"
        )
        command = [sys.executable, "-m", "daemon", "run", "--config", str(tmp_path / "config.yaml")]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2], timeout=60
        )

    assert done.returncode == 1
    assert done.stderr.startswith(f"payoutd: http: cannot listen on 127.0.0.1:{port}")
    assert done.stderr.count("\n") == 1
