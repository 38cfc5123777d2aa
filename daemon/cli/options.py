"""Options that several commands share."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from daemon.config.load import DEFAULT_CONFIG, load
from daemon.config.model import Config


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add `--config`."""
    parser.add_argument(
        "--config",
        type=Path,
        default=Path(DEFAULT_CONFIG),
        metavar="FILE",
        help=f"the configuration (default: {DEFAULT_CONFIG})",
    )


def config_of(args: argparse.Namespace, *, write: bool = True) -> Config:
    """The configuration that `--config` names, with this process's environment. Raises ConfigError."""
    return load(args.config, environ=os.environ, write=write)
