"""The reference of the configuration, docs/configuration.md, written from the sections themselves.

`python -m daemon.config.document > docs/configuration.md` brings it up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from chains.settings import ByDepth
from daemon.config.available import AVAILABLE, PLANNED
from daemon.config.fields import Listen, Section, extra_of, written_keys
from daemon.config.finality import PRESETS
from daemon.config.model import DEFAULT_DATA_DIR, HIGH_WATER_FILE, Config
from daemon.config.secrets import Secret
from daemon.config.shape import is_collection, kind_of, sections_in

_HEAD = """# Configuration

<!-- Written by `python -m daemon.config.document`; change the sections in daemon/config, not this file. -->

One YAML file, `config.yaml` unless `--config` names another. It is checked whole at every start: an unknown key,
a wrong type, a missing file or an impossible value stops the start with a line that names the key, what was found,
what was expected and what to do. `payoutd check-config` does the same without starting anything, and prints what
would run. The commented default is the repository's own `config.yaml`.

- **Secrets never stand in the file.** A key `x` that is one is written as `x_env: NAME` (an environment variable) or
  `x_file: path`. Keys that merely may hold one, such as the URL of a node, can also be written plainly.
- **Paths** are relative to the folder of the file.
- **Values** are taken as they are written: `"5"` is no number and `off` is a text. Addresses are in quotes, all lower
  case or with the right checksum. Anchors, aliases, tags and a key twice are refused.
- **Names** have 1 to 32 letters, digits and `. _ + -`. They are labels: a wallet *is* its chain and address, an asset
  its chain, contract and decimals.
- **Messages** never repeat a value that is long, or that stands under a name that sounds like a secret or a URL.
- **Devnet.** On a chain with `nodes: devnet` a token may have `contract: devnet` and a wallet `address: devnet`; while
  *all* chains are devnets and `PAYOUTD_TOKEN` is not set, a token is made once and kept in `<data_dir>/token`.
"""


def document() -> str:
    """The whole page as Markdown."""
    blocks = [_HEAD, _availability(), *_sections("the file itself", Config, ""), _presets()]
    return "\n".join(block.rstrip() + "\n" for block in blocks)


def _availability() -> str:
    rows = [
        (
            sort,
            ", ".join(f"`{word}`" for word in AVAILABLE[sort]) or "–",
            ", ".join(f"`{word}`" for word in words) or "–",
        )
        for sort, words in PLANNED.items()
    ]
    title = "## What this version can do\n\nWords of the third column are known and refused by name."
    return f"{title}\n\n{_table(('what', 'available', 'not in this version'), rows)}"


def _sections(title: str, section: type[Section], path: str, summary: str = "") -> Iterator[str]:
    """This section's block, then those of the sections in it."""
    rows = [_row(name, field) for name, field in section.model_fields.items() if written_keys(name, field)]
    summary = summary or (section.__doc__ or "").strip().split("\n")[0]
    yield f"## {title}\n\n{summary}\n\n{_table(('key', 'value', 'unit', 'default', 'what and why'), rows)}"
    for name, field in section.model_fields.items():
        inside = sections_in(field.annotation)
        for child in inside:
            below = f"{path}{name}"
            if is_collection(field.annotation):
                below += ".<name>" if _is_mapping(field.annotation) else "[]"
            kind = f" of kind {kind_of(child)}" if len(inside) > 1 else ""
            shared = _is_shared(child, section)
            yield from _sections(f"`{below}`{kind}", child, f"{below}.", (field.description or "") if shared else "")


def _is_shared(child: type[Section], parent: type[Section]) -> bool:
    """Do several keys of `parent` hold a `child`, so that only the key can say what each one is?"""
    return [field.annotation for field in parent.model_fields.values()].count(child) > 1


def _is_mapping(annotation: Any) -> bool:
    origin = get_origin(annotation)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return True
    return any(_is_mapping(argument) for argument in get_args(annotation))


def _row(name: str, field: FieldInfo) -> tuple[str, ...]:
    keys = " or ".join(f"`{key}`" for key in written_keys(name, field))
    unit = extra_of(field).get("unit") or ""
    return keys, _value(field.annotation), unit, _default(name, field), field.description or ""


def _value(annotation: Any) -> str:
    """A type in the words of somebody who writes YAML."""
    if annotation in _WORDS:
        return _WORDS[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _value(arguments[0])
    if origin is Literal:
        return " or ".join(f"`{word}`" for word in arguments)
    sections = sections_in(annotation)
    if is_collection(annotation):
        if _is_mapping(annotation):
            return "mapping of names to sections" if sections else "mapping"
        return "list of sections" if sections else "list"
    if sections:
        return "section"
    return " or ".join(dict.fromkeys(_value(argument) for argument in arguments))


_WORDS: Mapping[Any, str] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    Secret: "text (never shown)",
    Listen: "host:port",
    type(None): "null",
}


#: Made relative to the file, so they are no defaults that pydantic knows.
_BESIDE_THE_FILE = {"data_dir": DEFAULT_DATA_DIR, "high_water": f"<data_dir>/{HIGH_WATER_FILE}"}


def _default(name: str, field: FieldInfo) -> str:
    if name in _BESIDE_THE_FILE:
        return f"`{_BESIDE_THE_FILE[name]}`"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined:
        return "as below" if name == "database" else "**needed**"
    if isinstance(value, Section):
        return "as below"
    if name == "name":
        return "its kind"
    if isinstance(value, Secret):
        return f"`{value.reveal()}`"  # a default is public
    return f"`{_plain(value)}`"


def _plain(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Listen):
        return str(value)
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, tuple):
        return f"[{', '.join(str(item) for item in value)}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _presets() -> str:
    rows = []
    for name, preset in PRESETS.items():
        paid = preset.paid
        shown = f"{paid.confirmations} confirmations" if isinstance(paid, ByDepth) else f"`{paid.tag}`"
        rows.append((f"`{name}`", str(preset.chain_id), shown, preset.typical, f"{preset.block_s:g} s"))
    text = (
        "## Presets of finality\n\nTimes are usual ones, as of 2026. `dead` is the finalized tag unless it is set. "
        "The time of a block gives the default of `max_blind_blocks`."
    )
    return f"{text}\n\n{_table(('preset', 'chain id', 'paid at', 'usually after', 'a block every'), rows)}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(document())
