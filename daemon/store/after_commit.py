"""What is done once a transaction was committed: log lines and counters, which no rollback takes back.

Guarantees: nothing is done of a transaction that was rolled back; of one whose commit has no answer it is
done too, and told that the commit is not certain. Does not guarantee: a process that ends between the
commit and the call does it never. So it is for what is counted and logged, not for facts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Then: TypeAlias = Callable[[bool], None]  #: is told whether the commit is certain

_waiting: dict[int, list[Then]] = {}  #: by connection, while its transaction is open


def bare(connection: Any) -> Any:
    """The connection itself behind a pool's proxy; None once the proxy has lost it."""
    return getattr(connection, "_con", connection)


def begin(held: Any) -> None:
    """A transaction of this bare connection has begun."""
    _waiting[id(held)] = []


def call(connection: Any, then: Then) -> None:
    """Do `then` once the open transaction of this connection was committed."""
    held = bare(connection)
    if held is not None:  # else the connection is lost, and the transaction with it
        assert id(held) in _waiting, "only a transaction of Database says when it was committed"
        _waiting[id(held)].append(then)


def committed(held: Any, *, certain: bool) -> None:
    """Do what waited for the commit, in the order in which it was asked for."""
    for then in _waiting.pop(id(held), ()):
        then(certain)


def forget(held: Any) -> None:
    """The transaction has ended: what still waits for its commit is not done."""
    _waiting.pop(id(held), None)
