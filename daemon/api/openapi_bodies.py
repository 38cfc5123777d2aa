"""The bodies that the API takes, as JSON Schema: made from the models that check them, so the two cannot differ. Pure.

pydantic knows what the models say; two rules lie outside of them and are added here: a member that need not
be there may be null, and no text holds a NUL character (`daemon.api.strict_json`).
"""

from __future__ import annotations

from typing import Any

from daemon.api.openapi_parts import NO_NUL, Schema, nullable
from daemon.api.schema import Body

_OF_PYTHON = frozenset({"title", "default", "description"})  #: said of a model's classes, of no use to a caller


def body_schema(model: type[Body]) -> Schema:
    """What a body of this model looks like."""
    whole = model.model_json_schema()
    plain: Schema = _plain(whole, whole.get("$defs", {}))
    needed = set(plain.get("required", ()))
    plain["properties"] = {
        name: member if name in needed else nullable(member) for name, member in plain["properties"].items()
    }
    return plain


def _plain(schema: Any, named: dict[str, Any]) -> Any:
    """The schema without pydantic's names, with what it refers to in place."""
    if isinstance(schema, list):
        return [_plain(one, named) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _plain(named[schema["$ref"].rpartition("/")[2]], named)
    kept = {word: value for word, value in schema.items() if word not in _OF_PYTHON and word != "$defs"}
    if "anyOf" in kept:
        # pydantic's way to say "or None"; what is left is one schema, which `nullable` marks.
        (only,) = [one for one in kept["anyOf"] if one != {"type": "null"}]
        return _plain(only, named)
    plain = {word: _deeper(word, value, named) for word, value in kept.items()}
    if plain.get("type") == "string" and not plain.keys() & {"enum", "const", "pattern", "format"}:
        plain["pattern"] = NO_NUL
    return plain


def _deeper(word: str, value: Any, named: dict[str, Any]) -> Any:
    """The value of a keyword. Names of members are no keywords."""
    if word == "properties":
        return {name: _plain(member, named) for name, member in value.items()}
    if word == "propertyNames":
        return _plain({"type": "string", **value}, named)
    return _plain(value, named) if isinstance(value, dict | list) else value
