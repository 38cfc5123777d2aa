"""The demo's screen: redrawn on a terminal, only ever longer in a file."""

import io

from daemon.local.demo.screen import Screen, many, short


def test_in_a_file_a_table_is_a_line_per_change_and_the_whole_of_it_at_the_end() -> None:
    out = io.StringIO()
    screen = Screen(out, live=False)

    screen.table("created 1", ["row, created"])
    screen.table("created 1", ["row, created"])
    screen.table("confirmed 1", ["row, confirmed"])
    screen.settle(["row, confirmed"])

    assert out.getvalue() == "  created 1\n  confirmed 1\n  row, confirmed\n"


def test_on_a_terminal_a_table_is_drawn_over_its_former_self() -> None:
    out = io.StringIO()
    screen = Screen(out, live=True)

    screen.table("created 1", ["row, created"])
    screen.table("confirmed 1", ["row, confirmed"])
    screen.settle(["row, confirmed"])
    screen.line("after it")

    first, _, rest = out.getvalue().partition("\x1b[1A\x1b[2K\x1b[1A\x1b[2K")
    assert first == "  created 1\n  row, created\n"
    assert rest == "  confirmed 1\n  row, confirmed\nafter it\n"


def test_what_is_waited_for_is_named_and_taken_away_again_on_a_terminal_only() -> None:
    terminal, file = io.StringIO(), io.StringIO()

    for out, live in ((terminal, True), (file, False)):
        screen = Screen(out, live=live)
        screen.waiting("a block")
        screen.line("a block came")

    assert terminal.getvalue().endswith("\r\x1b[2Ka block came\n")
    assert file.getvalue() == "a block came\n"


def test_what_the_encoding_has_not_is_replaced() -> None:
    raw = io.BytesIO()
    screen = Screen(io.TextIOWrapper(raw, encoding="ascii"), live=False)

    screen.line("a node said é")

    assert raw.getvalue() == b"a node said ?\n"


def test_long_hashes_are_shortened_and_numbers_take_their_noun() -> None:
    assert short("block 0x" + "ab" * 32) == "block 0xabababababab...ababab"
    assert short(None) == "-"
    assert (many(1, "transfer"), many(0, "transfer")) == ("1 transfer", "0 transfers")
