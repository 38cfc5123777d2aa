"""From pydantic's errors to problems that name the key, what was found, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from daemon.config.available import closest
from daemon.config.echo import LONGEST_SHOWN, describe, show_key
from daemon.config.errors import Problem
from daemon.config.fields import ADDED, Section, extra_of
from daemon.config.shape import field_at, section_at, step

#: pydantic's error types, in our words. `{…}` are the facts that pydantic gives with them.
_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "a mapping of names to settings",
    "finite_number": "a finite number",
    "float_type": "a number",
    "greater_than": "a number greater than {gt}",
    "greater_than_equal": "at least {ge}",
    "int_type": "a whole number",
    "less_than": "a number less than {lt}",
    "less_than_equal": "at most {le}",
    "literal_error": "one of: {expected}",
    "mapping_type": "a mapping of names to settings",
    "missing": "a value",
    "model_attributes_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "none_required": "null",
    "string_type": "a text",
    "too_short": "a list of at least {min_length}",
    "tuple_type": "a list",
}


def problems_of(error: ValidationError, written: Mapping[str, object], root: type[Section]) -> list[Problem]:
    """Every problem in `error`, in the order of the sections; `written` is what the file says."""
    details = error.errors(include_url=False, include_input=False)
    unique = dict.fromkeys(_problem(detail, dict(written), root) for detail in details)
    return list(unique)


def _problem(detail: Any, written: dict[str, object], root: type[Section]) -> Problem:
    path = _written_path(detail["loc"], written)
    facts = detail.get("ctx", {})
    if detail["type"] == "refused":
        if facts["key"] is not None:
            path = _with_key(path, facts["key"], written)
        return Problem(_show(path), facts["found"], facts["expected"], facts["fix"])
    if detail["type"] == "extra_forbidden":
        return _unknown_key(path, section_at(root, path[:-1], written))
    value: object = written
    for part in path:
        value = step(value, part)
    expected = _EXPECTED.get(detail["type"], detail["msg"]).format(**facts).replace("'", "")
    section = section_at(root, path[:-1], written) if path else None
    fix, unit = _advice(section, path[-1]) if section is not None else ("", "")
    if detail["type"] == "literal_error" and isinstance(value, str):
        words = tuple(expected.removeprefix("one of: ").replace(" or ", ", ").split(", "))
        fix = closest(value, words) or fix
    found = describe(value, _naming_key(path))
    return Problem(_show(path), found, f"{expected} ({unit})" if unit else expected, fix)


def _written_path(loc: Sequence[str | int], written: object) -> list[str]:
    """The location without what is not in the file: the tags of unions, `[key]`, what the loader adds."""
    parts = [str(part) for part in loc if part != "[key]" and not str(part).startswith(ADDED)]
    path: list[str] = []
    for index, part in enumerate(parts):
        inside = step(written, part)
        last = index == len(parts) - 1
        if inside is None and not last and not (isinstance(written, dict) and part in written):
            continue
        path.append(part)
        written = inside
    return path


def _with_key(path: list[str], key: str, written: object) -> list[str]:
    """The path with the key as it is written: `token_env` for the field `token`, `nodes` for its whole section."""
    value: object = written
    for part in path:
        value = step(value, part)
    return [*path, key] if isinstance(value, dict) and key != path[-1] else [*path[:-1], key]


def _naming_key(path: Sequence[str]) -> str:
    return next((part for part in reversed(path) if not part.isdecimal()), "")


def _show(path: Sequence[str]) -> str:
    return ".".join(show_key(part) for part in path)


def _unknown_key(path: list[str], section: type[Section] | None) -> Problem:
    keys = section.keys() if section is not None else ()
    word = path[-1]
    where = ".".join([*(show_key(part) for part in path[:-1]), show_key(word, LONGEST_SHOWN)])
    expected = f"one of: {', '.join(keys)}" if keys else "no such key here"
    return Problem(where, "an unknown key", expected, closest(word, keys))


def _advice(section: type[Section], key: str) -> tuple[str, str]:
    field = field_at(section, key)
    if field is None:
        return "", ""
    return field.description or "", extra_of(field).get("unit") or ""
