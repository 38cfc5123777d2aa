"""Small builders of JSON Schema (Draft 2020-12), so that the tables of objects can be read. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

NO_NUL = "^[^\\u0000]*$"  #: PostgreSQL stores every text but one with a NUL character
DECIMAL = "^-?(0|[1-9][0-9]*)(\\.[0-9]+)?$"
DIGITS = "^(0|[1-9][0-9]*)$"

TEXT: Schema = {"type": "string"}
UUID: Schema = {"type": "string", "format": "uuid"}
TIME: Schema = {"type": "string", "format": "date-time"}
DAY: Schema = {"type": "string", "format": "date"}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FROM_ONE: Schema = {"type": "integer", "minimum": 1}
AMOUNT: Schema = {"type": "string", "pattern": DECIMAL}
BASE_UNITS: Schema = {"type": "string", "pattern": DIGITS}
#: Ids that count upwards are texts: JSON readers lose the digits of large numbers.
NUMBERED: Schema = {"type": "string", "pattern": "^[1-9][0-9]*$"}
ANY_OBJECT: Schema = {"type": "object"}


def ref(name: str, *, kind: str = "schemas") -> Schema:
    """A reference to a component."""
    return {"$ref": f"#/components/{kind}/{name}"}


def said(schema: Schema, description: str) -> Schema:
    """The schema, with a sentence for people."""
    return {**schema, "description": description}


def one_of(words: Iterable[str]) -> Schema:
    """A text from a closed set."""
    return {"type": "string", "enum": list(words)}


def constant(value: object) -> Schema:
    """One value and no other."""
    return {"const": value}


def nullable(schema: Schema) -> Schema:
    """The same, or null: as an array of types, the way of OpenAPI 3.1."""
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    if isinstance(schema["type"], list):
        return schema
    more = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [schema["type"], "null"], **more}


def many(schema: Schema) -> Schema:
    """A list of these."""
    return {"type": "array", "items": schema}


def record(members: Mapping[str, Schema], *, description: str = "", optional: Collection[str] = ()) -> Schema:
    """An object with exactly these members, all of them there but the optional ones."""
    return {
        "type": "object",
        **({"description": description} if description else {}),
        "additionalProperties": False,
        "required": [name for name in members if name not in optional],
        "properties": dict(members),
    }


def page_of(name: str) -> Schema:
    """A page of a list of this component."""
    cursor = said(nullable(TEXT), "Give it back as `cursor`, with the same filters; null: there is no more.")
    return record({"data": many(ref(name)), "next_cursor": cursor}, description="A page, newest first.")
