"""What can go wrong with the embedded PostgreSQL.

EmbeddedPostgresError
├── NoServerPrograms     no usable PostgreSQL programs on this machine
├── PlaceUnreachable     root's server user cannot get at the data folder
└── ServerFailed         initdb or the server ended, or did not answer in time
"""

from pathlib import Path


class EmbeddedPostgresError(Exception):
    """The embedded PostgreSQL cannot be had; the message says what to do."""


class NoServerPrograms(EmbeddedPostgresError):
    """No PostgreSQL programs were found that can serve the data folder."""


class PlaceUnreachable(EmbeddedPostgresError):
    """A folder on the way to the data cannot be entered by the user that the server runs as."""


class ServerFailed(EmbeddedPostgresError):
    """A program of PostgreSQL failed; `log` is where it says why."""

    def __init__(self, what: str, log: Path) -> None:
        lines = log.read_text(errors="replace").splitlines()[-8:] if log.exists() else []
        super().__init__("\n".join([f"{what}; the last lines of {log}:", *(f"  {line}" for line in lines)]))
        self.log = log
