"""Whom the embedded server runs as, and what that user can reach.

PostgreSQL refuses to run as root. When we are root, the server gets a system user of its own;
when we are not, it runs as we do. No permission of a folder that we did not make is changed.
"""

import os
import pwd
import shutil
import stat
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from daemon.local.postgres_errors import EmbeddedPostgresError

USER_NAME = "payoutd-postgres"
SHARED_USERS = ("postgres", "nobody")  # initdb wants a name for its user, so a free number is not enough
USERADD_TRIES = 5  # another process may hold the lock on /etc/passwd


@dataclass(frozen=True, slots=True)
class ServerUser:
    """An unprivileged user, by number."""

    uid: int
    gid: int


def server_user(data: Path) -> ServerUser | None:
    """The user for the server whose data is (or will be) in `data`; None means the one that we are.

    Existing data decides, so that a restart never meets files of another user.
    May create the system user `payoutd-postgres`.
    """
    if os.geteuid() != 0:
        return None
    if data.is_dir() and data.stat().st_uid != 0:
        return ServerUser(data.stat().st_uid, data.stat().st_gid)
    found = _named(USER_NAME) or _created() or next(filter(None, map(_named, SHARED_USERS)), None)
    if found is None:
        raise EmbeddedPostgresError(
            f"running as root, and PostgreSQL must not; no user could be made for it. "
            f"Create a system user named {USER_NAME}, or run payoutd as a normal user"
        )
    return found


def blocked_at(path: Path, user: ServerUser | None) -> Path | None:
    """The first folder from the root down to `path` that `user` cannot enter, or None.

    Looks at mode bits only; access lists are not read.
    """
    if user is None:
        return None
    folders = [path, *path.parents] if path.is_dir() else list(path.parents)
    return next((folder for folder in reversed(folders) if not _may_enter(folder, user)), None)


def _may_enter(folder: Path, user: ServerUser) -> bool:
    facts = folder.stat()
    if facts.st_uid == user.uid:
        return bool(facts.st_mode & stat.S_IXUSR)
    if facts.st_gid == user.gid:
        return bool(facts.st_mode & stat.S_IXGRP)
    return bool(facts.st_mode & stat.S_IXOTH)


def _named(name: str) -> ServerUser | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return ServerUser(entry.pw_uid, entry.pw_gid) if entry.pw_uid != 0 else None


def _created() -> ServerUser | None:
    """The system user, made with what the machine has for it, or None."""
    for program, options in (
        ("useradd", ["--system", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]),
        ("adduser", ["-S", "-D", "-H"]),  # BusyBox
    ):
        path = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
        for _ in range(USERADD_TRIES if path else 0):
            subprocess.run([str(path), *options, USER_NAME], capture_output=True, check=False)
            if (user := _named(USER_NAME)) is not None:
                return user
            time.sleep(0.1)
    return None
