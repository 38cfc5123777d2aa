"""JSON read strictly: UTF-8, no key twice, no number that would lose digits, no text that cannot be stored.

Pure. Numbers come out as `Number`, which no field of ours takes: an amount as a JSON number has been
through somebody's floating point already.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

DEPTH_MOST = 16  #: levels of objects and lists; ours have four
PARTS_MOST = 150_000  #: texts, commas and brackets; a batch of 1000 orders, each with all that it may have, has 95,000
#: Possessive, and a text without an end goes to the end of all: else a body of quotes takes the square of its length.
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*+\\?(?:"|\Z)|[\[\]{},]', re.DOTALL)


class JsonMalformed(Exception):
    """The bytes are no JSON of ours; nothing in them can be trusted."""


@dataclass(frozen=True, slots=True)
class Number:
    """A JSON number as it was written."""

    text: str


def parse(body: bytes) -> Any:
    """The value that the bytes say. Raises JsonMalformed."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonMalformed(f"expected UTF-8: byte {error.start} is none") from error
    _check_size(body)
    try:
        return json.loads(
            text, object_pairs_hook=_object, parse_int=Number, parse_float=Number, parse_constant=_constant
        )
    except json.JSONDecodeError as error:
        raise JsonMalformed(f"{error.msg} at line {error.lineno}, column {error.colno}") from error


def unstorable(value: Any, pointer: str = "") -> Iterator[tuple[str, str]]:
    """Where texts hold what PostgreSQL cannot store: pairs of a JSON pointer and a detail."""
    match value:
        case str():
            trouble = text_problem(value)
            if trouble is not None:
                yield pointer, trouble
        case dict():
            for key, member in value.items():
                place = f"{pointer}/{escaped(key)}"
                trouble = text_problem(key)
                if trouble is not None:
                    yield place, f"the name: {trouble}"
                yield from unstorable(member, place)
        case list():
            for number, member in enumerate(value):
                yield from unstorable(member, f"{pointer}/{number}")
        case _:  # true, false, null and numbers
            return


def text_problem(text: str) -> str | None:
    """Why PostgreSQL could not store this text, or None."""
    if "\x00" in text:
        return "holds a NUL character"
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        return "holds half a surrogate pair, which is no character"
    return None


def escaped(key: str) -> str:
    """A member's name as a part of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def _check_size(body: bytes) -> None:
    """Refuse what would become more objects than any body of ours has, before it becomes them."""
    depth = 0
    for number, found in enumerate(_STRUCTURE.finditer(body)):
        if number >= PARTS_MOST:
            raise JsonMalformed(f"more than {PARTS_MOST} texts, commas and brackets")
        mark = found.group()
        if mark in (b"{", b"["):
            depth += 1
            if depth > DEPTH_MOST:
                raise JsonMalformed(f"nested deeper than {DEPTH_MOST} levels")
        elif mark in (b"}", b"]"):
            depth -= 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise JsonMalformed(f"the member {twice[:64]!r} is there twice")
    return members


def _constant(text: str) -> NoReturn:
    raise JsonMalformed(f"{text} is no JSON")
