"""Which detectors there are, and which of them look at which facts.

A detector is a pure function in a file of this package. The type of its one parameter says what
facts it takes; the first line of its docstring is shown to people, so it must be true. Only this
package is searched: no foreign code comes into the process that holds keys.
"""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_type_hints

from detectors.records import (
    BooksFacts,
    CoverageFacts,
    Facts,
    Finding,
    LandedFacts,
    TransferFacts,
    TwinFacts,
    UseFacts,
    WaitingFacts,
)

FACTS = (TransferFacts, UseFacts, LandedFacts, TwinFacts, WaitingFacts, CoverageFacts, BooksFacts)

F = TypeVar("F", TransferFacts, UseFacts, LandedFacts, TwinFacts, WaitingFacts, CoverageFacts, BooksFacts)


class UnknownDetector(Exception):
    """The configuration names a detector that there is not."""


@dataclass(frozen=True, slots=True)
class Registered:
    """One detector as it was found."""

    kind: str
    facts: type[Facts]
    summary: str  #: First line of its docstring.
    run: Callable[[Any], Iterable[Finding]]


_found: dict[str, Registered] = {}


def detector(kind: str) -> Callable[[Callable[[F], Iterable[Finding]]], Callable[[F], Iterable[Finding]]]:
    """Registers a function as the detector of this incident kind. Raises ValueError for a kind taken twice."""

    def register(function: Callable[[F], Iterable[Finding]]) -> Callable[[F], Iterable[Finding]]:
        if kind in _found:
            raise ValueError(f"two detectors are called {kind!r}: the names of files and kinds are one to one")
        _found[kind] = Registered(kind, _facts_of(function), _summary_of(function), function)
        return function

    return register


def _facts_of(function: Callable[..., object]) -> type[Facts]:
    hints = [hint for name, hint in get_type_hints(function).items() if name != "return"]
    if len(hints) != 1 or hints[0] not in FACTS:
        names = ", ".join(facts.__name__ for facts in FACTS)
        raise ValueError(f"a detector takes one parameter of one of these types: {names}")
    facts: type[Facts] = hints[0]
    return facts


def _summary_of(function: Callable[..., object]) -> str:
    lines = (function.__doc__ or "").strip().splitlines()
    if not lines:
        raise ValueError("a detector's docstring is shown to people and cannot be empty")
    return lines[0]


@cache
def load_all() -> MappingProxyType[str, Registered]:
    """Every detector by kind. Imports the modules of this package, each once, and nothing else."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        import_module(f"detectors.{module.name}")
    return MappingProxyType(dict(sorted(_found.items())))


def require_known(kinds: Iterable[str]) -> None:
    """Raises UnknownDetector for the first kind that there is not, naming what may have been meant."""
    known = load_all()
    for kind in kinds:
        if kind not in known:
            near = difflib.get_close_matches(kind, known, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise UnknownDetector(f"no detector is called {kind!r}, there are: {', '.join(known)}{meant}")


def detectors_for(facts: type[Facts]) -> tuple[Registered, ...]:
    """The detectors that look at this type of facts, in order of kind."""
    return tuple(found for found in load_all().values() if found.facts is facts)


def findings(facts: Facts, *, disabled: Collection[str] = ()) -> tuple[Finding, ...]:
    """Everything that the detectors for these facts find, but for the kinds that are switched off."""
    return tuple(
        finding for found in detectors_for(type(facts)) if found.kind not in disabled for finding in found.run(facts)
    )
