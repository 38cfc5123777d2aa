"""YAML is read without its surprises."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.config.errors import ConfigUnreadable
from daemon.config.reading import DEEPEST, LARGEST_FILE, read

SECRET = "sk_live_51H8abcdefghijklmnopqrstuv"


def read_text(tmp_path: Path, text: str) -> dict[str, object]:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return read(path)


def test_scalars_are_those_of_json_and_all_else_is_a_text(tmp_path: Path) -> None:
    text = "a: off\nb: no\nc: 010\nd: 12:30\ne: 2026-01-02\nf: 1e3\ng: 0x10\nh: ~\ni: true\nj: .inf\nk: 1_000\nl: <<\n"

    values = read_text(tmp_path, text)

    assert values == {
        "a": "off", "b": "no", "c": "010", "d": "12:30", "e": "2026-01-02", "f": 1000.0, "g": 16, "h": None, "i": True,
        "j": ".inf", "k": "1_000", "l": "<<",
    }  # fmt: skip


def test_an_address_without_quotes_stays_what_was_typed(tmp_path: Path) -> None:
    address = "0x" + "12" * 20

    values = read_text(tmp_path, f"address: {address}\n")

    assert values == {"address": address}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a: 1\nb: {c: 1, c: 2}\n", "b.c: found the key a second time on line 2"),
        ("a: &x 1\nb: *x\n", "an anchor or alias on line 1"),
        ("a: !!python/object/apply:os.system [ls]\n", "a tag (!) on line 1"),
        ("a: " + "[" * 200 + "]" * 200, "deeper nesting"),
        ("a: [1\n", "no YAML on line 2"),
        ("", "an empty file"),
        ("- a\n- b\n", "a list or a single value"),
        ("? [a, b]\n: 1\n", "a key on line 1 that is no name"),
        ('"\\0name": 1\n', "a key on line 1 that is no name"),
        ("a: 1\n---\nb: 1\n", "no YAML"),
        ("a: \x07\n", "no YAML"),
        ("# " + "x" * LARGEST_FILE, "a larger file"),
    ],
)
def test_what_cannot_be_a_configuration_is_refused_with_its_line(tmp_path: Path, text: str, found: str) -> None:
    with pytest.raises(ConfigUnreadable) as caught:
        read_text(tmp_path, text)

    assert found in str(caught.value)


def test_an_alias_bomb_is_refused_before_it_grows(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]

    with pytest.raises(ConfigUnreadable, match="alias"):
        read_text(tmp_path, "\n".join(lines))


def test_nesting_up_to_the_limit_is_read(tmp_path: Path) -> None:
    depth = DEEPEST - 1

    values = read_text(tmp_path, "a: " + "[" * depth + "]" * depth)

    assert list(values) == ["a"]


@pytest.mark.parametrize(
    "text",
    [f"a: {SECRET}: b\n", f"a: !{SECRET} b\n", f"a: '{SECRET}\n", f"{SECRET}: 1\n{SECRET}: 2\n", f"a: &{SECRET} 1\n"],
)
def test_a_message_about_bad_yaml_never_quotes_the_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigUnreadable) as caught:
        read_text(tmp_path, text)

    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_file_that_is_not_there_or_not_text_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"a: \xff\xfe")

    with pytest.raises(ConfigUnreadable, match="No such file"):
        read(tmp_path / "absent.yaml")
    with pytest.raises(ConfigUnreadable, match="Is a directory"):
        read(tmp_path)
    with pytest.raises(ConfigUnreadable, match="no UTF-8 at offset 3"):
        read(tmp_path / "binary")
