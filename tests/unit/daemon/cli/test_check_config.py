"""`payoutd check-config` says what would run, or what is wrong, by its exit code too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from daemon.__main__ import main
from detectors.registry import load_all

DEFAULT = Path(__file__).parents[4] / "config.yaml"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the default configuration, in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PAYOUTD_TOKEN", raising=False)
    file = tmp_path / "config.yaml"
    file.write_text(DEFAULT.read_text())
    return file


def test_it_prints_what_would_run(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["check-config"])

    out = capsys.readouterr().out
    assert code == 0
    for line in (
        "payoutd-local can be run",
        "  roles     api, sign, send, watch, detect, alert",
        "  ethereum: evm 31337, nodes devnet, paid at 12 confirmations, dead at tag finalized, at most 10 blocks blind",
        "  hot-eth-1: an address made at the first start on ethereum, signed by private_key_file, 16 in flight",
        "  local: admin, accounts *",
        "  alerts: there is no receiver",
    ):
        assert line in out
    assert [entry.name for entry in path.parent.iterdir()] == ["config.yaml"], "a check leaves nothing behind"


def test_as_json_it_is_one_object(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["check-config", "--json", "--config", str(path)])

    report = json.loads(capsys.readouterr().out)
    assert code == 0
    assert report["valid"] is True
    assert report["chains"][0]["assets"]["USDC"] == {"contract": "devnet", "decimals": 6}
    assert {detector["kind"]: detector["pause_wallet"] for detector in report["detectors"]}["orphan_transfer"] is True
    assert all(detector["finds"] for detector in report["detectors"])


def test_the_examples_of_the_policy_can_be_run_and_are_told_in_words(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = path.read_text().replace("limits: []", "limits:").replace("approval: []", "approval:")
    path.write_text(text.replace("  # - {scope:", "  - {scope:").replace("  # - {asset:", "  - {asset:"))

    code = main(["check-config"])

    assert code == 0
    assert capsys.readouterr().out.partition("\npolicy\n")[2].partition("\n\n")[0].splitlines() == [
        "  at most 10000 USDC to one destination within 3600 s; what is above is refused",
        "  at most 250000 USDC and 500 payouts of USDC in all within 86400 s; what is above waits",
        "  more than 50000 USDC to one destination within 86400 s needs a second person",
    ]


def test_an_address_is_shown_as_people_write_it(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    address = "0x52908400098527886E0F7030069857D2E4169EE7"
    path.write_text(
        path.read_text().replace(
            "address: devnet\n    signer: {kind: private_key_file, path: .payoutd/keys/hot-eth-2.key}",
            f'address: "{address}"\n    signer: none',
        )
    )

    code = main(["check-config"])

    assert code == 0
    assert f"  hot-eth-2: {address} on ethereum, watch-only, 16 in flight" in capsys.readouterr().out


def test_problems_are_one_line_each_on_stderr_and_code_1(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text(path.read_text().replace("storm_per_minute: 20", "storm_per_minute: 0\nstorms: 1"))

    code = main(["check-config"])

    out, err = capsys.readouterr()
    assert (code, out) == (1, "")
    assert [line.split(";")[0] for line in err.splitlines()] == [
        "payoutd: config.yaml: storm_per_minute: found 0",
        "payoutd: config.yaml: storms: found an unknown key",
    ]


def test_problems_as_json_keep_path_found_expected_and_fix(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text(path.read_text().replace("chain_id: 31337", "chain_id: none"))

    code = main(["check-config", "--json"])

    assert code == 1
    assert json.loads(capsys.readouterr().out) == {
        "valid": False,
        "problems": [
            {
                "path": "chains.ethereum.chain_id",
                "found": "'none'",
                "expected": "a whole number",
                "fix": "Checked on every node at start: signatures count on this chain alone.",
            }
        ],
    }


def test_a_file_that_is_not_there_is_misuse(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["check-config", "--config", "absent.yaml"])

    assert code == 2
    assert capsys.readouterr().err.startswith(
        "payoutd: absent.yaml: found no readable file (No such file or directory)"
    )


def test_each_detector_is_described_by_the_first_line_of_its_docstring(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["check-config"])

    out = capsys.readouterr().out
    for kind, registered in load_all().items():
        assert f"  {kind}: {registered.summary}" in out
