"""Remove a folder when the process that made it has ended, however it ended.

    python -I -S janitor.py FOLDER < pipe

The pipe's other end is the maker's: it closes when the maker closes it or dies, also after kill -9.
Only the standard library, for it runs without ours. A session of its own keeps Ctrl-C from it.
"""

import shutil
import sys
import time
from pathlib import Path

PATIENCE_S = 30.0  # processes that end with the maker may still be writing
POLL_S = 0.05


def main() -> None:
    """Wait for the end of stdin, then remove the folder that the command line names."""
    folder = Path(sys.argv[1])
    sys.stdin.buffer.read()
    note = folder / "postgres" / "socket_dir"  # where PostgreSQL's socket went when our path was too long for one
    beside = [Path(note.read_text())] if note.is_file() else []
    until = time.monotonic() + PATIENCE_S
    for one in (*beside, folder):
        while one.exists() and time.monotonic() < until:
            shutil.rmtree(one, ignore_errors=True)
            if one.exists():
                time.sleep(POLL_S)


if __name__ == "__main__":
    main()
