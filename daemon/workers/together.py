"""Several waits at once that end together: nothing of a round goes on after the round."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def all_of(works: Iterable[Awaitable[T]]) -> list[T]:
    """The results in order, once every one has ended. Raises the first error, in order, after that.

    A bare `gather` raises at the first error and leaves the others running: their answers would
    be written, and their messages sent, beside those of the next round.
    """
    results = await asyncio.gather(*(_boxed(work) for work in works), return_exceptions=True)
    done: list[T] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        done.append(result[0])
    return done


async def _boxed(work: Awaitable[T]) -> tuple[T]:
    """The result in a box: an error that somebody returns as a value is not one that was raised."""
    return (await work,)
