"""Secrets come from outside, and nothing shows them."""

from __future__ import annotations

import copy
import pickle
import stat
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import pytest

from daemon.config.echo import describe, mask_dsn
from daemon.config.errors import ConfigError
from daemon.config.load import from_values, load
from daemon.config.model import Config
from daemon.config.secrets import Secret

LONG = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
SHORT = "s3cr3t-pw"

DEVNET = """
api_tokens: [{name: local, token_env: PAYOUTD_TOKEN, account: default, roles: [admin]}]
chains:
  ethereum: {kind: evm, chain_id: 31337, nodes: devnet, finality: {confirmations: 2}}
"""


class Loads(Protocol):
    """What these tests need of the fixture."""

    folder: Path
    path: Path
    environ: dict[str, str]

    def load(self, change: Any = ..., *, write: bool = True) -> Config: ...
    def load_text(self, text: str, *, write: bool = True) -> Config: ...


def test_a_secret_shows_as_stars_everywhere_but_in_reveal() -> None:
    secret = Secret(LONG)

    shown = f"{secret} {secret!r} {[secret]} {copy.deepcopy(secret)!r}"

    assert LONG not in shown
    assert "***" in shown
    assert secret.reveal() == LONG
    assert secret == Secret(LONG) != Secret(SHORT)
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_no_repr_of_a_whole_configuration_holds_a_secret(setup: Loads) -> None:
    config = setup.load()

    shown = repr(config) + str(config) + repr(config.model_dump(warnings=False))

    for secret in ("hunter2", "correct-horse", "another-long", "5f0c8d", "open sesame", "R0123456789", "whsec_"):
        assert secret not in shown


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if path:
        yield path
    for key, item in items:
        yield from leaves(item, (*path, key))


def loading_error(setup: Loads, written: Any) -> str:
    """What a person would see if `written` cannot be loaded, with the traceback of a careless caller."""
    try:
        from_values(written, base_dir=setup.folder, environ=setup.environ)
    except ConfigError as error:
        return str(error) + "".join(traceback.format_exception(error))
    return ""


def test_a_key_pasted_at_any_place_of_the_file_is_never_echoed(setup: Loads, full: dict[str, Any]) -> None:
    refused = 0
    for path in list(leaves(full)):
        for pasted in (LONG, {LONG: "x"}, [LONG], int(LONG, 16), {"kind": LONG}, {"name": LONG, "chain": LONG}):
            written = copy.deepcopy(full)
            parent: Any = written
            for key in path[:-1]:
                parent = parent[key]
            parent[path[-1]] = pasted

            shown = loading_error(setup, written)

            refused += bool(shown)
            assert LONG not in shown, path
            assert LONG[2:] not in shown, path
            assert str(int(LONG, 16)) not in shown, path
    assert refused > 300


def test_a_key_pasted_as_a_name_is_never_echoed(setup: Loads, full: dict[str, Any]) -> None:
    for path in [path for path in leaves(full) if isinstance(path[-1], str)]:
        written = copy.deepcopy(full)
        parent: Any = written
        for key in path[:-1]:
            parent = parent[key]
        parent[LONG] = parent.pop(path[-1])

        shown = loading_error(setup, written)

        assert LONG in str(written)
        assert shown, path
        assert LONG not in shown, path


@pytest.mark.parametrize(
    "key", ["token", "tokens", "api_key", "password_file", "dsn", "secret_env", "url", "private_key", "http", "ws"]
)
def test_a_short_value_under_a_secret_name_is_not_shown(key: str) -> None:
    assert describe(SHORT, key) == "a text of 9 characters (not shown)"
    assert describe(12345, key) == "a number of 5 characters (not shown)"


@pytest.mark.parametrize(("value", "shown"), [("fast", "'fast'"), (0, "0"), (None, "nothing"), ("", "an empty text")])
def test_a_short_value_under_a_plain_name_is_shown(value: object, shown: str) -> None:
    assert describe(value, "poll_s") == shown


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("postgresql://u:pw@h1:5432,h2/db", "postgresql://u:***@h1:5432,h2/db"),
        ("postgresql://u:p@ss:w@h/db", "postgresql://u:***@h/db"),
        ("postgresql://u@h/db?password=pw&sslmode=require", "postgresql://u@h/db?password=***&sslmode=require"),
        ("postgresql://u@h:5432/db", "postgresql://u@h:5432/db"),
    ],
)
def test_a_dsn_is_shown_with_its_password_masked(dsn: str, shown: str) -> None:
    assert mask_dsn(dsn) == shown


def test_secrets_are_taken_from_files_beside_the_configuration_and_from_the_environment(setup: Loads) -> None:
    config = setup.load()

    assert config.database.dsn.reveal() == "postgresql://payoutd:hunter2@db1,db2/payoutd"
    assert config.database.shown == "postgresql://payoutd:***@db1,db2/payoutd"
    assert config.api_tokens[0].token.reveal() == "correct-horse-battery"
    assert config.api_tokens[1].token.reveal() == "another-long-enough-token"
    assert config.chains["ethereum"].nodes[0].settings.http == "https://node.example.com/v3/5f0c8d"


def test_a_missing_or_empty_environment_variable_is_named(setup: Loads) -> None:
    del setup.environ["BACKEND_TOKEN"]
    setup.environ["HOOK_SECRET"] = " "

    with pytest.raises(ConfigError) as caught:
        setup.load()

    assert [str(problem) for problem in caught.value.problems] == [
        "api_tokens.0.token_env: found environment variable BACKEND_TOKEN, which is not set; expected it to hold the "
        "secret. Set BACKEND_TOKEN before the start.",
        "alerts.1.secret_env: found environment variable HOOK_SECRET, which is empty; expected it to hold the secret. "
        "Set HOOK_SECRET before the start.",
    ]


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ({"token": LONG}, "api_tokens.0.token: found a secret in the configuration file"),
        ({"token_env": "BACKEND_TOKEN", "token_file": "secrets/root"}, "found token_env and token_file together"),
        ({}, "api_tokens.0.token: found nothing; expected a value"),
        ({"token_file": "secrets/absent"}, "api_tokens.0.token_file: found no readable file there"),
        ({"token_file": "secrets"}, "api_tokens.0.token_file: found no readable file there (Is a directory)"),
        ({"token_file": "secrets/empty"}, "api_tokens.0.token_file: found an empty file"),
        ({"token_file": "secrets/short"}, "api_tokens.0.token: found a shorter token; expected at least 16 characters"),
        ({"token_file": "secrets/two-lines"}, "found a value with control characters"),
        ({"token_file": 5}, "expected the name of a file"),
    ],
)
def test_a_token_that_cannot_be_one_is_refused(setup: Loads, token: dict[str, Any], message: str) -> None:
    (setup.folder / "secrets/empty").write_text("\n")
    (setup.folder / "secrets/short").write_text("fifteen-letters")
    (setup.folder / "secrets/two-lines").write_text("sixteen-letters-and\nmore")

    with pytest.raises(ConfigError) as caught:
        setup.load(lambda written: written["api_tokens"].__setitem__(0, {"name": "a", "roles": ["read"], **token}))

    assert message in str(caught.value)


def test_a_local_installation_makes_one_token_that_only_its_owner_reads(setup: Loads) -> None:
    first = setup.load_text(DEVNET).api_tokens[0].token
    second = setup.load_text(DEVNET).api_tokens[0].token

    file = setup.folder / ".payoutd/token"
    assert first == second
    assert file.read_text().strip() == first.reveal()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [entry.name for entry in file.parent.iterdir()] == ["token"]


def test_starts_at_one_time_agree_on_the_made_token(setup: Loads) -> None:
    setup.path.write_text(DEVNET)

    with ThreadPoolExecutor(8) as pool:
        configs = list(pool.map(lambda _: load(setup.path, environ={}), range(8)))

    assert len({config.api_tokens[0].token for config in configs}) == 1


def test_the_environment_goes_before_the_made_token(setup: Loads) -> None:
    setup.environ["PAYOUTD_TOKEN"] = "a-token-from-outside"

    config = setup.load_text(DEVNET)

    assert config.api_tokens[0].token.reveal() == "a-token-from-outside"
    assert not (setup.folder / ".payoutd").exists()


def test_checking_makes_no_token_file(setup: Loads) -> None:
    setup.load_text(DEVNET, write=False)

    assert not (setup.folder / ".payoutd").exists()


def test_no_token_is_made_once_a_single_chain_is_real(setup: Loads) -> None:
    real = "  base: {kind: evm, chain_id: 8453, nodes: [{name: b, http: 'https://b'}], finality: {preset: base}}\n"

    with pytest.raises(ConfigError, match="PAYOUTD_TOKEN, which is not set"):
        setup.load_text(DEVNET + real)

    assert not (setup.folder / ".payoutd").exists()
