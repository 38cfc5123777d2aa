"""The list of cases is true: every row that belongs here is there once, and every test that it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INDEX = Path(__file__).parent / "README.md"
ROWS = (
    1, 2, 4, 6, 7, 8, 9, 10, 13, 21, 23, 24, 25, 26, 28, 29, 31, 32, 33, 34, 36, 37, 39, 56, 58, 59, 61, 62, 66, 68,
)  # fmt: skip
ELSEWHERE = frozenset({11, 14, 16, 17, 19, 20, 64})
ROW = re.compile(r"^\| (\d+) \| .+ \| (.+) \|$", re.MULTILINE)
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
TABLE = ROW.findall(INDEX.read_text())


def test_every_row_that_belongs_here_is_listed_once_and_the_others_are_named_as_missing() -> None:
    missing = INDEX.read_text().partition("\nNot shown here: ")[2].partition("\n\n")[0]

    assert tuple(int(row) for row, _ in TABLE) == ROWS
    assert {int(found) for found in re.findall(r"\b\d+\b", missing)} == ELSEWHERE


@pytest.mark.parametrize(("row", "shown_by"), TABLE, ids=[row for row, _ in TABLE])
def test_the_tests_that_a_row_names_are_there(row: str, shown_by: str) -> None:
    named = NAMED.findall(shown_by)

    assert named, f"row {row} names no test"
    assert NAMED.sub("", shown_by).strip(", ") == "", "something else stands beside the tests"
    for file, test in named:
        tree = ast.parse((ROOT / file).read_text())
        found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert test in found, f"row {row}: {file} has no {test}"


def test_the_files_beside_the_rows_are_there() -> None:
    beside = re.findall(r"^\| `(test_\w+\.py)` \|", INDEX.read_text(), re.MULTILINE)

    assert beside
    assert not [name for name in beside if not (INDEX.parent / name).is_file()]
