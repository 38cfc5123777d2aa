"""Only the rail that the configuration names is imported, and a mistyped name is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chains.errors import UnknownRail
from chains.registry import available_kinds, require_kind

ROOT = Path(__file__).resolve().parents[3]


def test_importing_the_registry_and_listing_the_kinds_imports_no_rail() -> None:
    code = (
        "import sys, chains.registry\n"
        "chains.registry.available_kinds()\n"
        "heavy = {'web3', 'aiohttp', 'websockets', 'solana', 'eth_account', 'coincurve', 'chains.evm', 'chains.fake'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_the_evm_is_a_kind_and_the_fake_chain_is_not() -> None:
    kinds = available_kinds()

    assert "evm" in kinds
    assert "fake" not in kinds
    assert "signers" not in kinds


def test_an_unknown_kind_is_refused_with_what_was_meant() -> None:
    require_kind("evm")

    with pytest.raises(UnknownRail, match=r"no kind of chain is called 'EVMs'.*did you mean 'evm'"):
        require_kind("EVMs")


@pytest.mark.parametrize("kind", ["", "evm.rail", "../evm", "signers", "fake"])
def test_nothing_but_a_kind_is_ever_imported(kind: str) -> None:
    with pytest.raises(UnknownRail):
        require_kind(kind)
