"""What no section can see alone is refused, or warned about."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, get_args

import pytest

from chains.settings import ByDepth, ByTag, NodeSettings
from daemon.config.advice import warnings_of
from daemon.config.alerts import AlertConfig
from daemon.config.available import AVAILABLE, PLANNED
from daemon.config.chains import ChainConfig
from daemon.config.detectors import DetectorsConfig
from daemon.config.errors import ConfigError
from daemon.config.finality import PRESETS, PresetName
from daemon.config.model import Config
from daemon.config.shape import kind_of, sections_in
from daemon.config.wallets import SignerConfig
from detectors.registry import load_all

ANVIL = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
HOT = "0x52908400098527886E0F7030069857D2E4169EE7"
Written = dict[str, Any]
Change = Callable[[Written], object]
DEVNET = """
chains:
  ethereum:
    kind: evm
    chain_id: 31337
    nodes: devnet
    finality: {confirmations: 2}
    assets: {ETH: {native: true}, USDC: {contract: devnet, decimals: 6}}
wallets:
  hot: {chain: ethereum, address: devnet, signer: {kind: private_key_file, path: .payoutd/keys/hot.key}}
"""


class Loads(Protocol):
    """What these tests need of the fixture."""

    folder: Path

    def load(self, change: Change = ..., *, write: bool = True) -> Config: ...
    def load_text(self, text: str, *, write: bool = True) -> Config: ...


def same_chain_twice(written: Written) -> None:
    written["chains"]["other"] = {**written["chains"]["base"], "chain_id": 1, "finality": {"tag": "finalized"}}


def token_on_base(**asset: Any) -> Change:
    name = asset.pop("name", "USDC")

    def change(written: Written) -> None:
        written["chains"]["base"]["assets"][name] = {"contract": "0x" + "12" * 20, "decimals": 6, **asset}

    return change


def wallet(**settings: Any) -> Change:
    name = settings.pop("name", "more")

    def change(written: Written) -> None:
        written["wallets"][name] = {"chain": "ethereum", "signer": "none", **settings}

    return change


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (same_chain_twice, "chains.other.chain_id: found 1, which is chains.ethereum already"),
        (lambda w: w["chains"].update(Base={**w["chains"]["base"], "chain_id": 5}),
         "chains.Base: found the name of chains.base once more"),
        (lambda w: w["chains"]["base"].update(finality={"preset": "polygon"}),
         "chains.base.finality.preset: found polygon on chain id 8453, which is base; expected preset: base"),
        (lambda w: w["chains"]["ethereum"]["nodes"][1].update(name="n1"),
         "chains.ethereum.nodes.1.name: found the name of"),
        (lambda w: w["chains"]["base"]["nodes"][0].update(send_only=True),
         "chains.base.nodes: found only send_only nodes"),
        (token_on_base(decimals=18),
         "chains.base.assets.USDC.decimals: found 18; expected 6 as in chains.ethereum.assets.USDC"),
        (token_on_base(name="usdc"), "chains.base.assets.usdc: found chains.ethereum.assets.USDC in another spelling"),
        (token_on_base(contract="devnet"), "chains.base.assets.USDC.contract: found devnet; expected an address"),
        (lambda w: w["chains"]["base"]["assets"].update(WETH={"native": True}),
         "found the same coin or contract as ETH"),
        (wallet(address=HOT.lower()),
         "wallets.more.address: found the address or key file of wallets.hot-1 on the same chain"),
        (wallet(address=ANVIL), "wallets.more.address: found a development key that everybody knows, on chain id 1"),
        (wallet(address="0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"), "found the contract of a configured asset"),
        (wallet(address="devnet"), "wallets.more.address: found devnet; expected an address: only a devnet makes keys"),
        (wallet(name="COLD", address="0x" + "34" * 20), "wallets.COLD: found the name of wallets.cold once more"),
        (lambda w: w["alerts"][1].update(name="pagerduty"), "alerts.1.name: found the name of alerts.0.name once more"),
        (lambda w: w["api_tokens"][1].update(name="backend"), "api_tokens.1.name: found the name of api_tokens.0.name"),
        (lambda w: w["api_tokens"].append({**w["api_tokens"][1], "name": "b"}),
         "api_tokens.2.token: found the token of api_tokens.1"),
        (lambda w: w["http"].update(metrics_listen="127.0.0.1:8080"),
         "http.metrics_listen: found the address of http.listen"),
    ],
)  # fmt: skip
def test_sections_that_do_not_fit_together_are_refused(setup: Loads, change: Change, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        setup.load(change)

    assert line in str(caught.value)


def test_one_address_may_pay_on_two_chains(setup: Loads) -> None:
    config = setup.load(wallet(chain="base", address=HOT))

    assert config.wallets["more"].address == config.wallets["hot-1"].address


def test_a_development_key_is_fine_on_a_development_chain(setup: Loads) -> None:
    config = setup.load_text(DEVNET + f'  dev: {{chain: ethereum, address: "{ANVIL}", signer: none}}\n')

    assert config.wallets["dev"].known_address == ANVIL.lower()


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("31337", "1", "chains.ethereum.chain_id: found 1, the id of ethereum; expected another one for a devnet"),
        ("{kind: private_key_file, path: .payoutd/keys/hot.key}", "none",
         "wallets.hot.signer: found none with address: devnet"),
        ("wallets:", "wallets:\n"
         "  two: {chain: ethereum, address: devnet, signer: {kind: private_key_file, path: .payoutd/keys/hot.key}}",
         "wallets.hot.address: found the address or key file of wallets.two"),
    ],
)  # fmt: skip
def test_a_devnet_that_could_do_harm_is_refused(setup: Loads, old: str, new: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        setup.load_text(DEVNET.replace(old, new))

    assert line in str(caught.value)


def test_a_devnet_fills_in_what_the_file_left_to_it(setup: Loads) -> None:
    written = setup.load_text(DEVNET)
    address, contract = "0x" + "ab" * 20, "0x" + "cd" * 20

    config = written.with_devnet(addresses={"hot": address}, contracts={("ethereum", "USDC"): contract})

    node = NodeSettings("devnet", "http://127.0.0.1:1")
    assert config.wallets["hot"].known_address == address
    assert config.wallets["hot"].generated
    assert config.chains["ethereum"].rail_settings((node,)).contracts == (contract,)
    assert config.chains["ethereum"].rail_settings((node,)).nodes == (node,)
    assert written.wallets["hot"].address is None


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        (lambda w: w.update(database={"dsn": "embedded"}), "database.dsn: the embedded PostgreSQL is for trying out"),
        (lambda w: w.update(database={"dsn": "postgresql://u:pw@h/d"}), "database.dsn: a password stands in"),
        (lambda w: w["http"].update(listen="0.0.0.0:80"), "http.listen: 0.0.0.0:80 can be reached from other machines"),
        (lambda w: w.update(api_tokens=[]), "api_tokens: there is none"),
        (lambda w: w["api_tokens"][0].update(roles=["operate", "read"]),
         "api_tokens.backend.accounts: it may act on incidents and misses"),
        (lambda w: w["chains"]["base"]["finality"].update(dead={"confirmations": 64}),
         "chains.base.finality.dead: a depth"),
        (lambda w: w["chains"]["base"].update(finality={"tag": "safe"}), "chains.base.finality.tag: what `safe` means"),
        (lambda w: None, "chains.base.nodes: with a single node, whatever it says is believed"),
        (lambda w: w["chains"]["ethereum"]["nodes"][1].update(http="http://10.0.0.1"),
         "chains.ethereum.nodes.n2: unencrypted"),
        (lambda w: w["wallets"].pop("hot-2"), "chains.base: no wallet is on it"),
        (lambda w: w["detectors"].update(late_success={"enabled": False}), "detectors.late_success: switched off"),
        (lambda w: w.update(alerts=[]), "alerts: there is no receiver"),
        (lambda w: w["alerts"][1].update(url="http://ops.example.com"), "alerts.ops.url: unencrypted"),
    ],
)  # fmt: skip
def test_what_may_run_and_should_be_known_is_a_warning(setup: Loads, change: Change, warning: str) -> None:
    warnings = warnings_of(setup.load(change))

    assert any(line.startswith(warning) for line in warnings), warnings
    assert not any(secret in line for line in warnings for secret in ("pw", "10.0.0.1", "ops.example.com"))


def test_a_key_file_that_others_can_read_is_a_warning(setup: Loads) -> None:
    (setup.folder / "secrets/hot.key").chmod(0o640)

    warnings = warnings_of(setup.load())

    assert "wallets.hot-2.signer.path: other users of this machine can read the key file; chmod 600." in warnings


def test_nodes_on_this_machine_may_speak_plainly(setup: Loads) -> None:
    hosts = ("127.0.0.1", "localhost", "[::1]")
    here = [{"name": f"n{index}", "http": f"http://{host}:8545"} for index, host in enumerate(hosts)]

    config = setup.load(lambda w: w["chains"]["ethereum"].update(nodes=here))

    assert not any("unencrypted" in line for line in warnings_of(config))


def test_the_table_of_what_is_available_says_what_the_sections_can_do() -> None:
    assert {kind_of(section) for section in get_args(SignerConfig)} == set(AVAILABLE["kind of signer"])
    assert {kind_of(section) for section in get_args(AlertConfig)} == set(AVAILABLE["kind of receiver"])
    assert {kind_of(section) for section in sections_in(ChainConfig)} == set(AVAILABLE["kind of chain"])
    assert set(DetectorsConfig.model_fields) == set(AVAILABLE["detector"])
    assert set(get_args(PresetName)) == set(PRESETS)


def test_every_incident_kind_is_either_available_or_planned() -> None:
    words = AVAILABLE["detector"] + PLANNED["detector"]

    assert len(words) == len(set(words)) == 20
    assert set(load_all()) <= set(AVAILABLE["detector"])


@pytest.mark.parametrize(
    ("finality", "paid", "dead"),
    [
        ({"confirmations": 12}, ByDepth(12), ByTag("finalized")),
        ({"tag": "finalized"}, ByTag("finalized"), ByTag("finalized")),
        ({"preset": "base"}, ByTag("finalized"), ByTag("finalized")),
        ({"confirmations": 3, "dead": {"confirmations": 64}}, ByDepth(3), ByDepth(64)),
    ],
)
def test_dead_is_the_finalized_tag_unless_it_is_written(
    setup: Loads, finality: dict[str, Any], paid: object, dead: object
) -> None:
    config = setup.load(lambda w: w["chains"]["base"].update(finality=finality))

    assert config.chains["base"].finality.paid == paid
    assert config.chains["base"].finality.dead.mark == dead


@pytest.mark.parametrize(
    ("chain_id", "finality", "blocks"),
    [
        (8453, {"preset": "base"}, 2),
        (42161, {"tag": "finalized"}, 40),
        (56, {"preset": "bsc"}, 23),
        (99, {"tag": "finalized"}, 2),
    ],
)
def test_quick_chains_may_be_read_ten_seconds_late(
    setup: Loads, chain_id: int, finality: dict[str, Any], blocks: int
) -> None:
    config = setup.load(lambda w: w["chains"]["base"].update(chain_id=chain_id, finality=finality))

    assert config.chains["base"].blind_blocks == blocks


def test_grace_for_orphans_depends_on_who_holds_the_key(setup: Loads) -> None:
    written = setup.load().detectors.orphan_transfer
    default = DetectorsConfig().orphan_transfer

    assert (written.grace_for(signs=True), written.grace_for(signs=False)) == (5.0, 5.0)
    assert (default.grace_for(signs=True), default.grace_for(signs=False)) == (0.0, 120.0)


def test_the_kinds_that_pause_are_those_of_the_promise() -> None:
    detectors = DetectorsConfig()

    pausing = {kind for kind in AVAILABLE["detector"] if detectors.of(kind).pauses}

    assert pausing == {"orphan_transfer", "duplicate_transfer", "foreign_nonce", "db_behind_chain"}


def test_a_token_acts_for_its_own_account_unless_more_is_written(setup: Loads) -> None:
    backend, root = setup.load().api_tokens
    admin = backend.model_copy(update={"roles": ("admin",)})

    assert [backend.may_use(account) for account in ("default", "other")] == [True, False]
    assert root.may_use("anything")
    assert admin.may_use("anything")
    assert [backend.has("submit"), backend.has("treasury"), root.has("treasury")] == [True, False, True]


def test_the_fingerprint_changes_with_what_is_decided_and_with_nothing_else(setup: Loads, full: Written) -> None:
    first = setup.load().fingerprint()
    elsewhere = setup.load(lambda w: w["http"].update(listen="0.0.0.0:1")).fingerprint()
    (setup.folder / "secrets/root").write_text("yet-another-long-token")
    other_secret = setup.load().fingerprint()
    reordered = setup.load(
        lambda w: w.update(chains=dict(reversed(copy.deepcopy(full["chains"]).items())))
    ).fingerprint()
    other_decision = setup.load(lambda w: w["detectors"]["near_duplicate"].update(action="alert")).fingerprint()

    assert first == elsewhere == other_secret == reordered
    assert other_decision != first
