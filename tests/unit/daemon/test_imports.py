"""Who starts the daemon loads only the rails that the config names."""

from __future__ import annotations

import subprocess
import sys


def test_putting_a_daemon_together_imports_no_rail_and_no_chain_library() -> None:
    code = (
        "import sys, daemon.app, daemon.serve, daemon.cli.run\n"
        "heavy = {'web3', 'solana', 'solders', 'eth_account', 'chains.evm.rail', 'chains.evm.devnet'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
