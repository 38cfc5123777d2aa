"""The faults that `fault_proxy.FaultProxy` can be told to have, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Json = Any
ANY_METHOD = "*"


@dataclass(frozen=True)
class DropResponse:
    """The node gets the call, the caller gets a closed connection. `forward` False: the node gets nothing either."""

    forward: bool = True


@dataclass(frozen=True)
class Error:
    """An error object instead of the answer, with or without the node having got the call."""

    code: int
    text: str
    data: Json = None
    forward: bool = False


@dataclass(frozen=True)
class Result:
    """This result instead of the node's: a null receipt, a fake hash, another chain id."""

    value: Json
    forward: bool = True


@dataclass(frozen=True)
class Change:
    """The node's own result, changed: logs hidden or doubled, a block hash exchanged."""

    change: Callable[[Json], Json]


@dataclass(frozen=True)
class Raw:
    """This status and body instead of an answer: not JSON, empty, a batch, a page of a gateway."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    forward: bool = False


@dataclass(frozen=True)
class WrongId:
    """The node's answer under another id."""


@dataclass(frozen=True)
class Truncated:
    """The first half of the node's answer, then the end of the connection."""


@dataclass(frozen=True)
class Hang:
    """No answer until `release` is set (or the proxy stops). `forward` says whether the node gets it before."""

    release: asyncio.Event
    forward: bool = False


@dataclass(frozen=True)
class Delay:
    """The answer, later."""

    seconds: float


@dataclass(frozen=True)
class Stale:
    """A node that lags `blocks` behind, in everything that it is asked. Use it with ANY_METHOD."""

    blocks: int


@dataclass(frozen=True)
class MinBump:
    """Refuse a replacement that does not raise both fees by `percent`, rounded up, as reth does."""

    percent: int = 10


@dataclass(frozen=True)
class RangeLimit:
    """Refuse eth_getLogs over more than `blocks` blocks, with this error."""

    blocks: int
    code: int
    text: str


Fault = DropResponse | Error | Result | Change | Raw | WrongId | Truncated | Hang | Delay | Stale | MinBump | RangeLimit


@dataclass
class Rule:
    """A fault for a method. `hit` is set at its first use."""

    method: str
    fault: Fault
    times: int | None
    when: Callable[[Json], bool] | None
    used: int = 0
    hit: asyncio.Event = field(default_factory=asyncio.Event)

    def fits(self, method: str, params: Json) -> bool:
        """Whether it is to be applied to this call."""
        if self.method not in (method, ANY_METHOD) or (self.times is not None and self.used >= self.times):
            return False
        return self.when is None or self.when(params)
