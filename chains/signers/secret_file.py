"""Reading a small secret from a file, with errors that never quote it."""

from __future__ import annotations

import stat
from pathlib import Path

from chains.errors import SignerError

SECRET_BYTES_MAX = 64 << 10  # a keystore is about 500 bytes


def read_secret(path: Path) -> tuple[str, str | None]:
    """The text of the file, and a warning when everybody on the machine may read it.

    Raises: SignerError, naming the file, when it cannot be read, is too long or is not text.
    """
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(path.stat().st_mode)
            content = file.read(SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise SignerError(f"{path}: {error.strerror or 'cannot be read'}") from None
    if len(content) > SECRET_BYTES_MAX:
        raise SignerError(f"{path}: longer than {SECRET_BYTES_MAX} bytes, so it is no key file")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise SignerError(f"{path}: not UTF-8 text") from None
    warning = None
    if mode & stat.S_IROTH:
        warning = f"{path}: everybody on this machine may read it (mode {mode:04o}); use chmod 600"
    return text, warning
