"""The documents are true: their links, commands, routes, configuration keys and incident kinds are real."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from daemon.__main__ import parser_of
from daemon.api.openapi_operations import operations
from daemon.metrics import FIXED_SETS
from detectors.registry import load_all

ROOT = Path(__file__).resolve().parents[1]
DOCS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("*/README.md")])
README = ROOT / "README.md"
RUNBOOK = ROOT / "docs" / "runbook.md"
OPERATING = ROOT / "docs" / "operating.md"
NEEDED = (
    "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "docs/architecture.md", "docs/states.md",
    "docs/glossary.md", "docs/runbook.md", "docs/testing.md", "docs/dependencies.md", "docs/adding-a-chain.md",
    "docs/adding-a-detector.md", "docs/threat-model.md", "docs/operating.md", "docs/configuration.md", "docs/api.md",
)  # fmt: skip

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^[ ]*```(\w*)\n(.*?)^[ ]*```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
ROUTE = re.compile(r"(GET|POST) (/[^\s`?]*)")
KEYED = re.compile(r"([a-z_]+): .+|([a-z_]+(?:\.[a-z_]+)+)")
FILE_NAME = re.compile(r".+\.(?:md|yaml|yml|toml|json|sql|py|sh)")
#: Places on one machine, and hosts of package registries: nobody else has them.
OF_ONE_MACHINE = re.compile(
    r"(?<![\w.$}>-])/(?:work|root|home|tmp|Users)/"
    r"|\b(?:pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|ghcr\.io|docker\.io)\b"
)
A_DAY = re.compile(r"\b20\d\d-\d\d-\d\d\b")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose(text: str) -> str:
    """A document without its fenced blocks."""
    return FENCE.sub("", text)


def section(text: str, title: str) -> str:
    """What stands under the heading `## title`, up to the next one of its level."""
    _, found, rest = text.partition(f"\n## {title}\n")
    assert found, f"no heading {title!r}"
    return rest.partition("\n## ")[0]


def anchors(path: Path) -> set[str]:
    """The names that a browser gives to a document's headings."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(prose(path.read_text())))
    return {heading.strip().replace(" ", "-") for heading in plain}


# ------------------------------------------------------------------------------------------ the documents


@pytest.mark.parametrize("name", NEEDED)
def test_every_document_that_is_promised_is_there(name: str) -> None:
    assert (ROOT / name).is_file()


@pytest.mark.parametrize("path", DOCS, ids=named)
def test_links_lead_somewhere(path: Path) -> None:
    dead = []
    for target in LINK.findall(prose(path.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        file = (path.parent / place).resolve() if place else path
        if not file.exists() or (anchor and anchor not in anchors(file)):
            dead.append(target)

    assert not dead


@pytest.mark.parametrize("path", DOCS, ids=named)
def test_documents_name_no_place_of_one_machine_and_no_day(path: Path) -> None:
    text = path.read_text()

    assert not [found.group() for found in OF_ONE_MACHINE.finditer(text)]
    assert not A_DAY.findall(text)


# ------------------------------------------------------------------------------------------ incidents


def opened_kinds() -> set[str]:
    """Every kind of incident that a detector or the daemon can open."""
    kinds = set(load_all())
    for path in (ROOT / "daemon").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Finding":
                kinds |= {ast.literal_eval(word.value) for word in node.keywords if word.arg == "kind"}
    return kinds


def test_the_runbook_has_a_section_for_every_kind_that_can_open_and_for_no_other() -> None:
    written = re.findall(r"^### `(\w+)`$", section(RUNBOOK.read_text(), "Incidents"), re.MULTILINE)

    assert len(written) == len(set(written))
    assert set(written) == opened_kinds()


def test_kinds_that_nothing_opens_yet_are_called_so() -> None:
    listed = set(INLINE.findall(section(RUNBOOK.read_text(), "Kinds that nothing opens yet")))

    assert listed == set(FIXED_SETS["incident"]) - opened_kinds()


@pytest.mark.parametrize("kind", sorted(opened_kinds()))
def test_the_runbook_says_what_it_means_what_to_check_how_to_resolve_and_what_never_to_do(kind: str) -> None:
    text = section(RUNBOOK.read_text(), "Incidents").partition(f"### `{kind}`\n")[2].partition("\n### ")[0]

    assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == ["Means", "Check", "Resolve", "Never"]


@pytest.mark.parametrize("word", [*FIXED_SETS["review"], *FIXED_SETS["waiting"]])
def test_the_runbook_explains_every_reason_to_wait_for_a_person_or_for_something(word: str) -> None:
    assert f"`{word}`" in RUNBOOK.read_text()


# ------------------------------------------------------------------------------------------ commands


def commands_in(text: str) -> Iterator[str]:
    """What documents tell people to type after `payoutd`."""
    for code in INLINE.findall(prose(text)):
        if code.startswith("payoutd "):
            yield code.removeprefix("payoutd ")
    for _, block in FENCE.findall(text):
        for line in block.splitlines():
            typed = re.match(r"\s*(?:\S*/)?payoutd ([a-z].*)", line)
            if typed:
                yield typed[1].partition(" #")[0].strip()


def groups_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands below a parser."""
    # argparse has no public way to ask for them.
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(actions[0].choices) if actions else {}


def unknown_part(command: str) -> str | None:
    """What of a command the parser does not have, or None."""
    parser, words = parser_of(), shlex.split(command.replace("…", ""))
    while words and (groups := groups_of(parser)):
        if words[0] not in groups:
            return words[0]
        parser = groups[words.pop(0)]
    options = {option for action in parser._actions for option in action.option_strings}
    return next((word for word in words if word.startswith("--") and word.partition("=")[0] not in options), None)


def not_there_yet() -> list[str]:
    """The commands that the documents call not there yet."""
    text = section(OPERATING.read_text(), "Not there yet").partition("**Commands:**")[2].partition("\n\n")[0]
    return list(commands_in(text))


@pytest.mark.parametrize("path", DOCS, ids=named)
def test_commands_in_documents_can_be_typed_or_are_called_not_there_yet(path: Path) -> None:
    planned = not_there_yet()
    wrong = [
        command
        for command in commands_in(path.read_text())
        if unknown_part(command) and not any(f"{command} ".startswith(f"{one} ") for one in planned)
    ]

    assert not wrong


def test_commands_that_are_called_not_there_yet_are_not_there() -> None:
    planned = not_there_yet()

    assert planned
    assert not [command for command in planned if unknown_part(command) is None]


# ------------------------------------------------------------------------------------------ routes


def served() -> set[tuple[str, str]]:
    """Method and path of every route, names in braces left out; tests/http/test_openapi.py proves them complete."""
    return {(operation.method.upper(), bare(operation.path)) for operation in operations()}


def bare(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path).rstrip("/") or "/"


def planned_routes() -> set[tuple[str, str]]:
    text = section(OPERATING.read_text(), "Not there yet").partition("**Routes:**")[2].partition("\n\n")[0]
    return {(method, bare(path)) for method, path in ROUTE.findall(text)}


@pytest.mark.parametrize("path", DOCS, ids=named)
def test_routes_in_documents_are_served_or_are_called_not_there_yet(path: Path) -> None:
    known = served() | planned_routes()
    code = " ".join(INLINE.findall(prose(path.read_text())))

    assert not [found for found in ((m, bare(p)) for m, p in ROUTE.findall(code)) if found not in known]


def test_routes_that_are_called_not_there_yet_are_not_served() -> None:
    assert planned_routes()
    assert not planned_routes() & served()


# ------------------------------------------------------------------------------------------ configuration


def configuration_keys() -> set[str]:
    """Every key of the configuration, by its reference; that this is current is another test's matter."""
    text = (ROOT / "docs" / "configuration.md").read_text()
    cells = re.findall(r"^\| (`.+?) \|", text, re.MULTILINE)
    titles = [heading for heading in HEADING.findall(text) if "`" in heading]
    return set(re.findall(r"[a-z_]+", " ".join(INLINE.findall(" ".join([*cells, *titles])))))


def test_configuration_keys_in_the_readme_exist() -> None:
    keys, wrong = configuration_keys(), []
    for code in INLINE.findall(prose(README.read_text())):
        found = KEYED.fullmatch(code)
        if found is None or FILE_NAME.fullmatch(code):
            continue
        wrong += [key for key in (found[1] or found[2]).split(".") if key not in keys]

    assert not wrong


def test_yaml_in_documents_can_be_read() -> None:
    for path in DOCS:
        for language, block in FENCE.findall(path.read_text()):
            if language == "yaml":
                assert yaml.safe_load(block) is not None, named(path)
