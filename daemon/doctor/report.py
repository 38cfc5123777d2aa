"""What the doctor says: one line a check, what is wrong, and how to mend it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How a check came out."""

    OK = "ok"
    NOTE = "note"  #: Nothing is broken; worth knowing.
    BAD = "bad"  #: Something is wrong, and somebody has to mend it.


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `mend` says what to do about it; a BAD one has it.

    `value` is what a program would keep of it: the newest seal.
    """

    about: str
    state: State
    said: str
    mend: str | None = None
    value: str | None = None

    @property
    def line(self) -> str:
        """For people."""
        mended = f"; {self.mend}" if self.mend else ""
        return f"{self.state.value:<4}  {self.about}: {self.said}{mended}"

    @property
    def entry(self) -> dict[str, str | None]:
        """For programs."""
        return {
            "check": self.about, "state": self.state.value, "said": self.said, "mend": self.mend, "value": self.value,
        }  # fmt: skip


def ok(about: str, said: str) -> Check:
    """It is as it should be."""
    return Check(about, State.OK, said)


def note(about: str, said: str, mend: str | None = None) -> Check:
    """It works, and there is something to know."""
    return Check(about, State.NOTE, said, mend)


def bad(about: str, said: str, mend: str) -> Check:
    """It is wrong."""
    return Check(about, State.BAD, said, mend)
