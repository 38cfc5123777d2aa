"""The folder of an embedded server: what lies where, who owns it, and who else is using it.

    <data_dir>/postgres/      ours, others may only pass through
        owner.lock            locked by the process whose server this is, for as long as it lives
        password              of the role, mode 0600
        server.log, .old      of this start and of the one before
        data/                 the cluster; data.new/ while it is being made
        run/                  the socket, unless the path is too long for one
        bin-<version>/        the programs, when the server's user cannot reach the installed ones

When we are root, only password, data and run belong to the server's user: what root writes
here, that user cannot swap for a link.
"""

import fcntl
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from daemon.local.postgres_errors import EmbeddedPostgresError, PlaceUnreachable
from daemon.local.postgres_user import ServerUser, blocked_at

SOCKET_PATH_BYTES_MAX = 103  # sun_path on macOS; Linux has 107
SOCKET_NAME = ".s.PGSQL.5432"
ROOT_DATA_DIR = Path("/var/lib/payoutd")


def data_dir_for(wanted: Path, *, instance: str) -> Path:
    """`wanted`, or /var/lib/payoutd/<instance> where we are root and `wanted` lies in a folder closed to others.

    The server of root runs as another user, who cannot pass a home folder of mode 0700.
    """
    existing = next(folder for folder in [wanted.absolute(), *wanted.absolute().parents] if folder.is_dir())
    nobody = ServerUser(uid=-1, gid=-1)
    if os.geteuid() != 0 or blocked_at(existing, nobody) is None:
        return wanted
    return ROOT_DATA_DIR / instance


@dataclass(frozen=True, slots=True)
class Place:
    """The paths of one embedded server."""

    root: Path

    @classmethod
    def in_data_dir(cls, data_dir: Path) -> "Place":
        """The place in `data_dir`; makes the folders, closed to others as far as the server's user allows."""
        mode = 0o711 if os.geteuid() == 0 else 0o700
        root = data_dir.resolve() / "postgres"
        for folder in reversed([root, *root.parents]):
            _make_folder(folder, mode)
        return cls(root)

    @property
    def data(self) -> Path:
        """The cluster."""
        return self.root / "data"

    @property
    def log(self) -> Path:
        """What the server and initdb print."""
        return self.root / "server.log"

    def take(self) -> int | None:
        """Become the owner; an open file that holds the lock, or None while another process is it."""
        lock = os.open(self.root / "owner.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock

    def check_reachable(self, user: ServerUser | None) -> None:
        """Raise PlaceUnreachable, naming the folder, when the server's user cannot get here."""
        if (folder := blocked_at(self.root, user)) is not None:
            raise PlaceUnreachable(
                f"{folder} is closed to the user that PostgreSQL runs as (uid {user.uid if user else -1}), because "
                f"payoutd runs as root: put data_dir below {ROOT_DATA_DIR}, or run payoutd as a normal user"
            )

    def password(self, user: ServerUser | None) -> str:
        """The role's password; made once, when there is no cluster yet."""
        path = self.root / "password"
        if not path.exists():
            if self.data.exists():
                raise EmbeddedPostgresError(f"{path} is missing, and {self.data} cannot be opened without it")
            self._write_password(path, user)
        return path.read_text()

    def known_password(self) -> str | None:
        """The role's password, or None before the owner made it."""
        path = self.root / "password"
        return path.read_text() if path.exists() else None

    def socket_dir(self, user: ServerUser | None) -> Path:
        """A folder for the socket, whose path is short enough for one: run/, else one below the temporary folder."""
        near = self.root / "run"
        if _fits(near):
            return _folder_of(near, user)
        note = self.root / "socket_dir"  # so that a start after a crash uses the same one
        if note.exists() and (known := Path(note.read_text())).is_dir() and not known.is_symlink():
            return _folder_of(known, user)
        parents = [Path(name) for name in (tempfile.gettempdir(), "/tmp")]  # noqa: S108  # mkdtemp makes it safe
        parent = next((folder for folder in parents if _fits(folder / "payoutd-12345678")), None)
        if parent is None:
            raise EmbeddedPostgresError(
                f"{near} is too long for a socket, and so is every temporary folder: set TMPDIR"
            )
        made = Path(tempfile.mkdtemp(prefix="payoutd-", dir=parent))
        note.write_text(str(made))
        return _folder_of(made, user)

    def forget_socket_dir(self, folder: Path) -> None:
        """Remove the folder of the socket after the server has ended, if it was a temporary one."""
        if folder != self.root / "run":
            shutil.rmtree(folder, ignore_errors=True)
            (self.root / "socket_dir").unlink(missing_ok=True)

    def fresh_log(self) -> int:
        """An open file for the output of this start; the one before is kept as .old."""
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.old"))
        return os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def _write_password(self, path: Path, user: ServerUser | None) -> None:
        half_made = path.with_suffix(".new")
        half_made.unlink(missing_ok=True)
        file = os.open(half_made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "w") as out:
            out.write(secrets.token_urlsafe(24))
        give(half_made, user)
        half_made.rename(path)


def give(path: Path, user: ServerUser | None) -> None:
    """Make the server's user the owner of `path`; nothing to do when it is us."""
    if user is not None:
        os.chown(path, user.uid, user.gid, follow_symlinks=False)


def _make_folder(folder: Path, mode: int) -> None:
    """Make a missing folder with exactly this mode, whatever the umask; leave an existing one as it is."""
    if folder.exists():
        return
    try:
        folder.mkdir()
    except FileExistsError:  # another process was faster
        return
    folder.chmod(mode)


def _fits(folder: Path) -> bool:
    return len(os.fsencode(folder / SOCKET_NAME)) <= SOCKET_PATH_BYTES_MAX


def _folder_of(path: Path, user: ServerUser | None) -> Path:
    path.mkdir(mode=0o700, exist_ok=True)
    give(path, user)
    return path
