"""A temporary folder that goes away with the process that made it, also after kill -9."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from daemon.local.demo import janitor
from daemon.local.postgres_place import data_dir_for

PREFIX = "payoutd-demo-"


@asynccontextmanager
async def fleeting_folder() -> AsyncIterator[Path]:
    """A fresh folder in which a server that root starts as another user can work; removed at the end."""
    parent = data_dir_for(Path(tempfile.gettempdir()), instance="demo")
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    folder.chmod(0o711)  # noqa: ASYNC240  # the name is no secret; everything in it has modes of its own
    remover = subprocess.Popen(  # noqa: ASYNC220  # it only forks, and must exist before anything is put there
        [sys.executable, "-I", "-S", janitor.__file__, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
    assert remover.stdin is not None
    try:
        yield folder
    finally:
        remover.stdin.close()
        await asyncio.to_thread(remover.wait)
