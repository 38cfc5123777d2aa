"""Several questions at once, a bounded number in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from chains.errors import RpcError

Q = TypeVar("Q")
A = TypeVar("A")
IN_FLIGHT_MAX = 8  # per reading: quick against round trips, and polite to a provider's rate limit


async def each(
    ask: Callable[[Q], Awaitable[A]], questions: Sequence[Q], *, in_flight_max: int = IN_FLIGHT_MAX
) -> list[A]:
    """The answers in the order of the questions.

    Raises the first RpcError that any of them met; what was not yet asked is then not asked.
    """
    answers: dict[int, A] = {}
    failures: list[RpcError] = []
    queue = iter(enumerate(questions))

    async def work(mine: Iterator[tuple[int, Q]]) -> None:
        for index, question in mine:
            if failures:
                return
            try:
                answers[index] = await ask(question)
            except RpcError as error:
                failures.append(error)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(in_flight_max, len(questions))):
            tasks.create_task(work(queue))
    if failures:
        raise failures[0]
    return [answers[index] for index in range(len(questions))]
