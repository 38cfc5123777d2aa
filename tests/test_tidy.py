"""The house stays tidy: what house-style asks and no linter knows."""

import ast
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest
from eth_account import Account

from chains.evm.dev_keys import WELL_KNOWN_DEV_ADDRESSES

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("chains", "detectors", "daemon", "launcher", "tests", "bench")
LINES_MAX = 400
FUNCTION_LINES_MAX = 60
MAY_SLEEP = (
    ROOT / "tests" / "waiting.py",  # the one place where tests let time pass
)

TASK_STARTERS = ("create_task", "ensure_future")
SLEEPERS = ("time.sleep", "asyncio.sleep")
PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
NAMED_KEY = re.compile(r"(?:private|secret|signing)[_ -]?key\W[^\n]{0,60}?\b(?:0x)?([0-9a-f]{64})\b", re.IGNORECASE)

PYTHON = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
TEXTS = sorted(
    path
    for folder in (*FOLDERS, "docs", "scripts", "dashboards")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".md", ".yaml", ".yml", ".json", ".sql", ".toml", ""} and path.is_file()
) + sorted(path for path in ROOT.iterdir() if path.suffix in {".md", ".yaml", ".toml"})


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=named(path))


def calls(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and dotted name of each call, as in (12, "asyncio.create_task")."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node.lineno, ast.unparse(node.func)


@pytest.mark.parametrize("path", PYTHON, ids=named)
def test_a_file_says_what_it_is_and_is_short(path: Path) -> None:
    lines = len(path.read_text().splitlines())

    assert ast.get_docstring(parsed(path)), "no module docstring"
    assert lines <= LINES_MAX, f"{lines} lines, at most {LINES_MAX}"


@pytest.mark.parametrize("path", PYTHON, ids=named)
def test_functions_are_short(path: Path) -> None:
    functions = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = [
        f"{node.name}, line {node.lineno}: {lines} lines"
        for node in functions
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]

    assert not long


@pytest.mark.parametrize("path", PYTHON, ids=named)
def test_tasks_are_started_in_a_task_group_only(path: Path) -> None:
    bare = [
        f"line {line}: {name}"
        for line, name in calls(parsed(path))
        if name.rpartition(".")[2] in TASK_STARTERS and re.match(r"(asyncio|loop|\w*\.get_\w*loop\(\))\.", name)
    ]

    assert not bare


@pytest.mark.parametrize("path", [path for path in PYTHON if path.name == "__init__.py"], ids=named)
def test_an_init_file_holds_a_docstring_only(path: Path) -> None:
    assert len(parsed(path).body) == 1


@pytest.mark.parametrize("path", [path for path in PYTHON if (ROOT / "tests") in path.parents], ids=named)
def test_tests_wait_for_events_and_do_not_sleep(path: Path) -> None:
    sleeps = [f"line {line}: {name}" for line, name in calls(parsed(path)) if name in SLEEPERS]

    assert path in MAY_SLEEP or not sleeps


def test_no_private_key_but_the_well_known_ones_is_in_the_repository() -> None:
    found = [
        named(path)
        for path in TEXTS
        if PEM.search(text := path.read_text(errors="replace"))
        or any(not harmless(key) for key in NAMED_KEY.findall(text))
    ]

    assert not found


def harmless(key: str) -> bool:
    """Whether a key of 64 hex digits is a development tool's, or one byte over and over."""
    return len(set(re.findall("..", key))) == 1 or Account.from_key(key).address.lower() in WELL_KNOWN_DEV_ADDRESSES


def test_the_median_file_is_small(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = [len(path.read_text().splitlines()) for path in PYTHON if path.name != "__init__.py"]
    median = statistics.median(sizes)

    with capsys.disabled():
        print(f"\n{len(sizes)} Python files, {sum(sizes)} lines, median {median:g}, longest {max(sizes)}")
    assert median <= 200
