"""Wait for something to become true: the one place in the tests where time passes on purpose."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

T = TypeVar("T")

POLL_S = 0.005


@overload
async def eventually(
    check: Callable[[], Awaitable[T | None]], *, timeout_s: float = 45.0, what: str | None = None
) -> T: ...


@overload
async def eventually(check: Callable[[], T | None], *, timeout_s: float = 45.0, what: str | None = None) -> T: ...


async def eventually(check: Callable[[], object], *, timeout_s: float = 45.0, what: str | None = None) -> object:
    """The first true value of `check()`, which may be async; AssertionError with `what` when none came in time."""
    until = time.monotonic() + timeout_s
    while True:
        answer = check()
        value = await answer if inspect.isawaitable(answer) else answer
        if value:
            return value
        if time.monotonic() > until:
            wanted = what or inspect.getsource(check).strip()
            raise AssertionError(f"not within {timeout_s:g} s: {wanted}; last: {value!r}")
        await asyncio.sleep(POLL_S)
