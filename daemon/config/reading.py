"""From a file to plain values: YAML with everything left out that surprises people or machines.

Kept of YAML: mappings with text keys, lists, texts, numbers, true/false, null. Refused: a key twice,
anchors and aliases (a few lines of them can grow to gigabytes), tags, deep nesting, large files.
Read as text, not as YAML 1.1 would: `off`, `no`, `010`, `12:30`, dates, and hexadecimal numbers of more
than 16 digits, so that an address without quotes stays what was typed.
"""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from daemon.config.echo import LONGEST_SHOWN, show_key
from daemon.config.errors import ConfigUnreadable, Problem

LARGEST_FILE = 256 * 1024  #: bytes; a configuration of fifty chains has some thirty thousand
DEEPEST = 16  #: levels; the deepest key of ours is on level 6


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the scalars of JSON instead of those of YAML 1.1."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 -- PyYAML's own type


_SCALARS = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?(0|[1-9][0-9]{0,18})|0x[0-9a-fA-F]{1,16}", list("-+0123456789")),
    "float": (r"[-+]?(0|[1-9][0-9]*)(\.[0-9]+([eE][-+]?[0-9]{1,2})?|[eE][-+]?[0-9]{1,2})", list("-+0123456789")),
}
for _name, (_pattern, _first) in _SCALARS.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(rf"^(?:{_pattern})$"), _first)


def read(path: Path) -> dict[str, object]:
    """The file's mapping as plain values.

    Raises: ConfigUnreadable, when the file cannot be read or is not such a mapping.
    """
    text = _text_of(path)
    try:
        _check_events(text)
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        # `from None`: PyYAML's own message quotes the line, and a key may stand in it.
        raise ConfigUnreadable([_not_yaml(error)]) from None
    if not isinstance(node, yaml.MappingNode):
        found = "an empty file" if node is None else "a list or a single value"
        raise ConfigUnreadable([Problem("", found, "sections such as `database:` and `chains:`")])
    value = _value_of(node, ())
    assert isinstance(value, dict)
    return value


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
    except OSError as error:
        fix = "Name it with --config, or copy the commented default config.yaml there."
        found = f"no readable file ({error.strerror})"
        raise ConfigUnreadable([Problem("", found, "a configuration file", fix)]) from error
    if len(raw) > LARGEST_FILE:
        raise ConfigUnreadable([Problem("", "a larger file", f"at most {LARGEST_FILE} bytes")])
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"a byte that is no UTF-8 at offset {error.start}"
        raise ConfigUnreadable([Problem("", found, "a text file in UTF-8")]) from None


def _check_events(text: str) -> None:
    """Refuse what would make building the values expensive, before any value is built."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        assert event.start_mark is not None, "the parser marks every event"
        line = f"line {event.start_mark.line + 1}"
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise ConfigUnreadable([Problem("", f"an anchor or alias on {line}", "each value written out")])
        if getattr(event, "tag", None) is not None:
            raise ConfigUnreadable([Problem("", f"a tag (!) on {line}", "plain values without tags")])
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ConfigUnreadable([Problem("", f"deeper nesting on {line}", f"at most {DEEPEST} levels")])


def _not_yaml(error: yaml.YAMLError) -> Problem:
    """What the parser stumbled over and where, without a word of the line itself."""
    mark = getattr(error, "problem_mark", None)
    where = f" on line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
    reason = getattr(error, "problem", None) or "a character that YAML does not allow"
    reason = re.sub(rf"(['\"`]).{{{LONGEST_SHOWN + 1},}}\1", "a long text", str(reason))
    fix = "Often a missing space after a colon, a tab, or a text that needs quotes."
    return Problem("", f"no YAML{where} ({reason})", "YAML", fix)


def _value_of(node: yaml.Node, path: tuple[str, ...]) -> object:
    if isinstance(node, yaml.MappingNode):
        return _mapping_of(node, path)
    if isinstance(node, yaml.SequenceNode):
        return [_value_of(item, (*path, str(index))) for index, item in enumerate(node.value)]
    value: object = _Loader("").construct_object(node)
    return value


def _mapping_of(node: yaml.MappingNode, path: tuple[str, ...]) -> dict[str, object]:
    mapping: dict[str, object] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else ""
        if not key or not key.isprintable():
            raise ConfigUnreadable([Problem(".".join(path), f"a key on line {line} that is no name", "a plain name")])
        if key in mapping:
            where = ".".join((*path, show_key(key)))
            raise ConfigUnreadable([Problem(where, f"the key a second time on line {line}", "each key once")])
        mapping[key] = _value_of(value_node, (*path, show_key(key)))
    return mapping
