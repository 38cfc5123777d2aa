"""A configuration is loaded whole, or refused with every problem by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chains.settings import ByDepth, ByTag, NodeSettings
from daemon.config.advice import warnings_of
from daemon.config.alerts import PagerDutyConfig, WebhookConfig
from daemon.config.errors import ConfigError
from daemon.config.fields import Listen
from daemon.config.load import from_values, load
from daemon.config.model import Config
from daemon.config.wallets import Keystore, NoSigner, PrivateKeyFile

DEFAULT = Path(__file__).parents[4] / "config.yaml"


class Loads(Protocol):
    """What these tests need of the fixture."""

    folder: Path
    environ: dict[str, str]

    def load(self, change: Any = ..., *, write: bool = True) -> Config: ...
    def load_text(self, text: str, *, write: bool = True) -> Config: ...


def put(path: str, value: object) -> Any:
    """A change of the written configuration: `value` at `path`."""

    def change(written: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        target: Any = written
        for part in parents:
            target = target[int(part)] if isinstance(target, list) else target.setdefault(part, {})
        target[int(last) if isinstance(target, list) else last] = value

    return change


def problems(setup: Loads, change: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        setup.load(change)
    return [str(problem) for problem in caught.value.problems]


def test_the_repositorys_own_configuration_runs_as_it_is() -> None:
    config = load(DEFAULT, environ={}, write=False)

    assert config.is_devnet
    assert config.database.is_embedded
    assert config.database.data_dir == DEFAULT.parent / ".payoutd"
    assert [wallet.generated for wallet in config.wallets.values()] == [True, True]
    assert warnings_of(config) == ["alerts: there is no receiver; incidents are stored and shown, and nobody is told."]


def test_the_repositorys_configuration_says_what_the_models_defaults_are(setup: Loads) -> None:
    shipped = load(DEFAULT, environ={}, write=False)

    bare = setup.load_text(
        "chains: {ethereum: {kind: evm, chain_id: 31337, nodes: devnet, finality: {confirmations: 12}}}"
    )

    for name in ("instance", "http", "ledger", "policy", "detectors", "alerts", "heartbeat", "storm_per_minute"):
        assert getattr(shipped, name) == getattr(bare, name), name
    for name in ("fees", "finality", "poll_s", "watch_from", "max_blind_blocks"):
        assert getattr(shipped.chains["ethereum"], name) == getattr(bare.chains["ethereum"], name), name


def test_a_full_configuration_becomes_typed_values(setup: Loads) -> None:
    config = setup.load()

    ethereum, base = config.chains["ethereum"], config.chains["base"]
    assert config.http.listen == Listen("127.0.0.1", 8080)
    assert config.database.data_dir == setup.folder / "state"
    assert (ethereum.finality.paid, ethereum.finality.dead.mark) == (ByDepth(12), ByTag("finalized"))
    assert (base.finality.paid, base.finality.dead.mark) == (ByTag("finalized"), ByTag("finalized"))
    assert ethereum.assets["USDC"].contract_id == "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"
    assert ethereum.assets["ETH"].decimals == 18
    assert isinstance(config.wallets["hot-1"].signer, Keystore)
    assert isinstance(config.wallets["hot-2"].signer, PrivateKeyFile)
    assert isinstance(config.wallets["cold"].signer, NoSigner)
    assert [wallet.name for wallet in config.wallets_of("ethereum")] == ["hot-1", "cold"]
    assert [wallet.signs for wallet in config.wallets.values()] == [True, True, False]
    assert config.wallets["hot-1"].known_address == "0x52908400098527886e0f7030069857d2e4169ee7"
    assert isinstance(config.alerts[0], PagerDutyConfig)
    assert isinstance(config.alerts[1], WebhookConfig)
    assert [alert.name for alert in config.alerts] == ["pagerduty", "ops"]
    assert config.ledger.mode == "off"
    assert config.policy.block == ("0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",)


def test_a_chain_becomes_the_settings_of_its_rail(setup: Loads) -> None:
    settings = setup.load().chains["ethereum"].rail_settings()

    assert settings.chain_id == 1
    assert settings.nodes[1] == NodeSettings("n2", "https://other.example.com", None, send_only=False)
    assert settings.contracts == ("0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48",)
    assert settings.fees.max_fee == 300 * 10**9
    assert settings.fees.max_share == 0.05


def test_a_fee_cap_in_gwei_becomes_exact_wei(setup: Loads) -> None:
    config = setup.load(put("chains.ethereum.fees.max_fee_gwei", 0.1))

    assert config.chains["ethereum"].fees.settings.max_fee == 10**8


def test_nothing_in_a_loaded_configuration_can_be_changed(setup: Loads) -> None:
    config: Any = setup.load()

    for change in (
        lambda: setattr(config, "instance", "x"),
        lambda: setattr(config.chains["base"], "chain_id", 1),
        lambda: config.wallets.__setitem__("x", None),
    ):
        with pytest.raises((ValueError, AttributeError, TypeError)):
            change()


def test_empty_sections_mean_their_defaults(setup: Loads) -> None:
    config = setup.load_text("database:\nhttp:\npolicy:\ndetectors:\n  near_duplicate:\nheartbeat:\n")

    assert config.http.listen == Listen("127.0.0.1", 8080)
    assert config.database.data_dir == setup.folder / ".payoutd"
    assert config.detectors.near_duplicate.window_s == 600


def test_paths_start_at_the_files_folder_whatever_the_working_directory(
    setup: Loads, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    here = setup.load().database.data_dir
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))

    assert setup.load().database.data_dir == here


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        ("storm_per_minut", 3, "storm_per_minut: found an unknown key; expected one of: instance, database,"),
        ("chains.ethereum.finality.confirmations", 0,
         "chains.ethereum.finality.confirmations: found 0; expected at least 1"),
        ("chains.ethereum.poll_s", "fast", "chains.ethereum.poll_s: found 'fast'; expected a number (seconds)"),
        ("chains.ethereum.chain_id", "1", "chains.ethereum.chain_id: found '1'; expected a whole number"),
        ("chains.ethereum.chain_id", True, "chains.ethereum.chain_id: found true; expected a whole number"),
        ("chains.ethereum.chain_id", 1.5, "chains.ethereum.chain_id: found 1.5; expected a whole number"),
        ("chains.ethereum.watch_from", "later",
         "chains.ethereum.watch_from: found 'later'; expected `now` or the number"),
        ("chains.ethereum.nodes", [], "chains.ethereum.nodes: found an empty list; expected `devnet` or at least one"),
        ("chains.ethereum.nodes", "local", "chains.ethereum.nodes: found a text of 5 characters (not shown)"),
        ("chains.ethereum.nodes.1.http", "ftp://x",
         "chains.ethereum.nodes.1.http: found something else (not shown); expected a URL"),
        ("chains.ethereum.name", "x", "chains.ethereum.name: found an unknown key"),
        ("chains.ethereum.is_devnet", True, "chains.ethereum.is_devnet: found an unknown key"),
        ("chains.ethereum.finality", {},
         "chains.ethereum.finality: found nothing that says when; expected exactly one of"),
        ("chains.ethereum.finality", {"confirmations": 1, "tag": "safe"}, "found confirmations and tag together"),
        ("chains.base.finality.preset", "bass",
         "chains.base.finality.preset: found 'bass'; expected one of: ethereum,"),
        ("chains.base.finality.dead", {"tag": "safe"},
         "chains.base.finality.dead.tag: found 'safe'; expected one of: finalized"),
        ("chains.ethereum.assets.USDC", {"contract": "0x" + "1" * 40},
         "chains.ethereum.assets.USDC: found a token without decimals"),
        ("chains.ethereum.assets.USDC.decimals", 37,
         "chains.ethereum.assets.USDC.decimals: found 37; expected at most 36"),
        ("chains.ethereum.assets.USDC.native", True, "found both native: true and a contract"),
        ("chains.ethereum.assets.ETH.decimals", 8, "chains.ethereum.assets.ETH.decimals: found 8; expected 18"),
        ("chains.ethereum.assets.ETH", {}, "found neither native: true nor a contract"),
        ("chains.ethereum.assets.bad name", {"native": True},
         "chains.ethereum.assets.bad name: found 'bad name'; expected 1 to 32"),
        ("chains.ethereum.max_blind_blocks", 0, "expected at least 1 (blocks)"),
        ("wallets.hot-1.address", "0x52908400098527886E0F7030069857D2E4169Ee7",
         "wallets.hot-1.address: found an address whose checksum"),
        ("wallets.hot-1.address", "0x1234",
         "wallets.hot-1.address: found '0x1234'; expected 0x and 40 hexadecimal digits"),
        ("wallets.hot-1.address", "0x" + "0" * 40, "wallets.hot-1.address: found the zero address"),
        ("wallets.hot-1.max_in_flight", 0, "wallets.hot-1.max_in_flight: found 0; expected at least 1 (payouts)"),
        ("wallets.hot-1.signer", {"kind": "keystor"},
         "wallets.hot-1.signer.kind: found 'keystor'; expected one of: private_key_file, keystore, none. Did "
         "you mean keystore?"),
        ("wallets.hot-1.signer", "nobody", "wallets.hot-1.signer: found 'nobody'; expected a mapping with a kind"),
        ("wallets.hot-2.signer.password_env", "X_Y",
         "wallets.hot-2.signer.password_env: found an unknown key; expected one of: kind, path"),
        ("wallets.hot-1.signer.path", "secrets/absent", "wallets.hot-1.signer.path: found no file there"),
        ("wallets.hot-1.chain", "etherum",
         "wallets.hot-1.chain: found unknown chain 'etherum'; expected one of: ethereum, base. Did you mean ethereum?"),
        ("wallets.hot-1", 5, "wallets.hot-1: found 5; expected a mapping of keys to values"),
        ("wallets", [], "wallets: found a list; expected a mapping of names to settings"),
        ("ledger.mode", False, "ledger.mode: found false; expected one of: enforce or off"),
        ("detectors.orphan_transfe", {}, "detectors.orphan_transfe: found an unknown key"),
        ("detectors.stuck_payout.pause_wallet", True, "detectors.stuck_payout.pause_wallet: found an unknown key"),
        ("detectors.near_duplicate.action", "page", "detectors.near_duplicate.action: found 'page'"),
        ("alerts.0.events", ["payout"], "alerts.0.events.0: found 'payout'; expected one of: incident"),
        ("alerts.0.events", [], "alerts.0.events: found a list; expected a list of at least 1"),
        ("alerts.0.min_severity", "info",
         "alerts.0.min_severity: found 'info'; expected one of: warning, error or critical"),
        ("api_tokens.0.roles", ["submitt"], "api_tokens.0.roles.0: found 'submitt'"),
        ("api_tokens.0.roles", [], "api_tokens.0.roles: found a list; expected a list of at least 1"),
        ("api_tokens.0.account", "house:gas", "api_tokens.0.account: found a name that begins with house:"),
        ("api_tokens.0.accounts", "all", "api_tokens.0.accounts: found 'all'; expected a list of accounts"),
        ("http.listen", "8080", "http.listen: found '8080'; expected host:port"),
        ("http.listen", "127.0.0.1:99999", "http.listen: found '127.0.0.1:99999'; expected host:port"),
        ("database.dsn_file", "secrets/root",
         "database.dsn: found something else (not shown); expected `embedded`, or a URL"),
        ("instance", "a/b", "instance: found 'a/b'; expected 1 to 32 letters"),
        ("policy.allow", ["0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"],
         "policy.block.0: found an address that policy.allow has too"),
    ],
)  # fmt: skip
def test_an_impossible_value_is_refused_with_path_found_and_expected(
    setup: Loads, path: str, value: object, line: str
) -> None:
    found = problems(setup, put(path, value))

    assert any(line in problem for problem in found), found


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        ("chains.solana", {"kind": "solana", "nodes": "devnet", "finality": {"commitment": "finalized"}},
         "chains.solana.kind: found kind of chain 'solana', which is not available in this version; "
         "expected one of: evm"),
        ("wallets.hot-1.signer", {"kind": "aws_kms", "key_id": "x"},
         "wallets.hot-1.signer.kind: found kind of signer 'aws_kms', which is not available in this version; "
         "expected one of: private_key_file, keystore, none"),
        ("alerts.0", {"kind": "slack", "url_file": "x"},
         "alerts.0.kind: found kind of receiver 'slack', which is not available in this version; "
         "expected one of: pagerduty, webhook"),
        ("detectors.nonce_gap", {"enabled": True},
         "detectors.nonce_gap: found detector 'nonce_gap', which is not available in this version"),
        ("providers", {"circle-main": {"kind": "circle"}}, "providers: found providers, which is not available"),
        ("wallets.circle-hot", {"provider": "circle-main", "id": "x"},
         "wallets.circle-hot: found wallets of a provider, which is not available"),
        ("heartbeat.url", "https://x.example", "heartbeat.url: found heartbeat.url, which is not available"),
    ],
)  # fmt: skip
def test_what_this_version_cannot_do_is_refused_by_name(setup: Loads, path: str, value: object, line: str) -> None:
    found = problems(setup, put(path, value))

    assert len(found) == 1
    assert found[0].startswith(line)


def test_all_problems_are_told_at_once(setup: Loads) -> None:
    def change(written: dict[str, Any]) -> None:
        put("storm_per_minute", 0)(written)
        put("chains.base.poll_s", -1)(written)
        put("wallets.cold.addres", "x")(written)

    found = problems(setup, change)

    assert [problem.split(":")[0] for problem in found] == [
        "chains.base.poll_s",
        "wallets.cold.addres",
        "storm_per_minute",
    ]
    assert "Did you mean address?" in found[1]


KEYS = sorted(
    {*Config.keys(), "ethereum", "kind", "nodes", "finality", "assets", "signer", "name", "address", "contract"}
)
WORDS = ["devnet", "evm", "none", "keystore", "webhook", "now", "finalized", "*", "0x" + "ab" * 20, "", "embedded"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.dictionaries(st.sampled_from(Config.keys()), VALUES, min_size=1, max_size=5))
def test_whatever_stands_in_the_file_is_loaded_or_refused_and_never_a_crash(
    values: dict[str, object], tmp_path: Path
) -> None:
    config: Config | None = None
    refusal: ConfigError | None = None
    try:
        config = from_values(values, base_dir=tmp_path, environ={}, write=False)
    except ConfigError as error:
        refusal = error

    assert (config is None) != (refusal is None)
    assert config is None or config.fingerprint()
    assert refusal is None or len(str(refusal).splitlines()) == len(refusal.problems)
