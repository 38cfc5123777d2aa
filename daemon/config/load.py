"""Load a configuration: read, resolve, check, freeze."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from daemon.config.chains import DEVNET
from daemon.config.checks import cross_problems
from daemon.config.errors import ConfigError
from daemon.config.model import DEFAULT_DATA_DIR, Config
from daemon.config.problems import problems_of
from daemon.config.reading import read
from daemon.config.secrets import Sources

DEFAULT_CONFIG = "config.yaml"
TOKEN_FILE = "token"  # noqa: S105 -- the name of a file


def load(path: Path, *, environ: Mapping[str, str], write: bool = True) -> Config:
    """The configuration in the file at `path`, whole and checked.

    Paths in it are relative to its own folder and absolute in what comes back. Where all chains
    are devnets and PAYOUTD_TOKEN is not set, a token made once is kept in `<data_dir>/token`; with
    `write` False that file is not made, and a token that nobody knows stands in for it.

    Raises: ConfigUnreadable, when there is no such YAML file; ConfigError, when it cannot be run.
    """
    return from_values(read(path), base_dir=path.absolute().parent, environ=environ, write=write)


def from_values(
    written: Mapping[str, object], *, base_dir: Path, environ: Mapping[str, str], write: bool = True
) -> Config:
    """The configuration that plain values say, as if they stood in a file in `base_dir`. Raises: ConfigError."""
    sources = Sources(base_dir, environ, _devnet_token_file(written, base_dir), write)
    try:
        config = Config.model_validate(dict(written), context=sources)
    except ValidationError as error:
        # `from None`: pydantic's own message quotes what was found, and a key may be among it.
        raise ConfigError(problems_of(error, written, Config)) from None
    problems = cross_problems(config)
    if problems:
        raise ConfigError(problems)
    return config


def _devnet_token_file(written: Mapping[str, object], base_dir: Path) -> Path | None:
    """Where a purely local installation keeps its own token; None where any chain is not ours.

    Asked of the written values, for secrets are resolved while the rest is still being checked.
    """
    chains = written.get("chains")
    if not isinstance(chains, dict) or not chains:
        return None
    if not all(isinstance(chain, dict) and chain.get("nodes") == DEVNET for chain in chains.values()):
        return None
    database = written.get("database")
    data_dir = database.get("data_dir", DEFAULT_DATA_DIR) if isinstance(database, dict) else DEFAULT_DATA_DIR
    return base_dir / Path(data_dir).expanduser() / TOKEN_FILE if isinstance(data_dir, str) else None
