"""The shape of the sections: which one stands at a path. For messages and for the reference in docs/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo

from daemon.config.fields import Section, written_keys


def sections_in(annotation: Any) -> tuple[type[Section], ...]:
    """The sections that a field of this type may hold, through lists, mappings and unions."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return (annotation,) if issubclass(annotation, Section) else ()
    return tuple(section for argument in get_args(annotation) for section in sections_in(argument))


def is_collection(annotation: Any) -> bool:
    """Does a field of this type hold a list or a mapping of what stands below it?"""
    origin = get_origin(annotation)
    if isinstance(origin, type) and issubclass(origin, Mapping | Sequence):
        return True
    return any(is_collection(argument) for argument in get_args(annotation))


def field_at(section: type[Section], key: str) -> FieldInfo | None:
    """The field of `section` that is written under `key`."""
    return next(
        (field for name, field in section.model_fields.items() if key in {name, *written_keys(name, field)}), None
    )


def kind_of(section: type[Section]) -> str | None:
    """The one word that a section of several kinds has under `kind`."""
    field = section.model_fields.get("kind")
    words = get_args(field.annotation) if field is not None else ()
    return words[0] if len(words) == 1 else None


def section_at(root: type[Section], path: Sequence[str], values: object) -> type[Section] | None:
    """The section that the mapping at `path` of the written `values` is, or None where there is no telling."""
    section, depth = root, 0
    while depth < len(path):
        field = field_at(section, path[depth])
        if field is None:
            return None
        steps = 2 if is_collection(field.annotation) and sections_in(field.annotation) else 1
        for part in path[depth : depth + steps]:
            values = step(values, part)
        depth += steps
        written_kind = values.get("kind") if isinstance(values, dict) else None
        among = sections_in(field.annotation)
        section_or_none = among[0] if len(among) == 1 else _of_kind(among, written_kind)
        if section_or_none is None or depth > len(path):
            return None
        section = section_or_none
    return section


def _of_kind(among: Sequence[type[Section]], kind: object) -> type[Section] | None:
    return next((section for section in among if kind_of(section) == kind), None)


def step(values: object, part: str) -> object:
    """What stands under `part` of a written mapping or list; None where nothing does."""
    if isinstance(values, dict):
        return values.get(part)
    if isinstance(values, list) and part.isdecimal() and int(part) < len(values):
        return values[int(part)]
    return None
