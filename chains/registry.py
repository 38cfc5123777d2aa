"""From the configuration's `kind: evm` to a rail. Imports only the rail that is asked for.

A rail is a folder of this package with a module `rail` that has
`make_rail(settings: RailSettings, *, clock: Clock) -> Rail`.
"""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Callable
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from chains.base import Rail
from chains.errors import UnknownRail
from chains.settings import RailSettings

HERE = Path(__file__).parent

Clock = Callable[[], datetime]
OnTrouble = Callable[[str, str], None]  #: told the node and what was wrong with its answer, or with its subscription


class MakeRail(Protocol):
    """What every rail's module offers under the name `make_rail`."""

    def __call__(
        self,
        settings: RailSettings,
        *,
        clock: Clock,
        on_bad_answer: OnTrouble | None = None,
        on_hints_down: OnTrouble | None = None,
    ) -> Rail:
        """A rail that is not started yet. Opens no connection."""
        ...


def available_kinds() -> tuple[str, ...]:
    """The kinds that `kind:` may name, sorted. Imports none of them."""
    folders = (module.name for module in pkgutil.iter_modules([str(HERE)]) if module.ispkg)
    return tuple(sorted(name for name in folders if (HERE / name / "rail.py").is_file()))


def require_kind(kind: str) -> None:
    """Raises UnknownRail, naming what there is and what may have been meant."""
    kinds = available_kinds()
    if kind in kinds:
        return
    near = difflib.get_close_matches(kind.lower(), kinds, n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    raise UnknownRail(f"no kind of chain is called {kind!r}, there are: {', '.join(kinds)}{meant}")


def build_rail(
    kind: str,
    settings: RailSettings,
    *,
    clock: Clock,
    on_bad_answer: OnTrouble | None = None,
    on_hints_down: OnTrouble | None = None,
) -> Rail:
    """The rail of one configured chain, not started. Raises UnknownRail."""
    require_kind(kind)
    module = import_module(f"chains.{kind}.rail")
    make = cast(MakeRail, module.make_rail)
    return make(settings, clock=clock, on_bad_answer=on_bad_answer, on_hints_down=on_hints_down)
