"""Become an unprivileged child that ends with its parent, then the given program.

Run as a script of its own, before anything of ours is imported, because the usual place for
this (`preexec_fn`) runs Python between fork and exec of a process with threads and may hang:

    python -I -S postgres_child.py UID GID PARENT PROGRAM [ARGUMENT…]

UID -1 keeps the user. The order matters: Linux clears the death signal when the user changes.
Where there is no death signal (macOS) the next start of the embedded server ends a left one.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def become(uid: int, gid: int) -> None:
    """Give up root for good: no supplementary groups, then the group, then the user."""
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def end_with(parent: int) -> None:
    """Have the kernel send SIGINT, PostgreSQL's fast shutdown, when the thread that forked us ends."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) was refused")
    if os.getppid() != parent:  # it ended before the signal was asked for
        sys.exit(1)


def main() -> None:
    """Read the arguments and turn into the program."""
    uid, gid, parent = (int(word) for word in sys.argv[1:4])
    program = sys.argv[4:]
    if uid >= 0:
        become(uid, gid)
    end_with(parent)
    os.umask(0o077)
    os.execv(program[0], program)  # noqa: S606  # the caller built the argument list; no shell is meant


if __name__ == "__main__":
    main()
