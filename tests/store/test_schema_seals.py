"""What the schema says to seals: one chain without a gap, each standing on its content and on the one before it."""

from __future__ import annotations

import pytest
from asyncpg import Connection, Record

from tests.store.schema_cases import Allowed, Refused, allows, refuses, steps

NOTHING = "decode(repeat('00', 32), 'hex')"
BEFORE = "(SELECT hash FROM ledger_seals WHERE seal_id = 1)"


def seal(
    number: int = 1,
    *,
    first: int = 1,
    last: int = 4,
    entries: int = 2,
    previous: str = NOTHING,
    rule: int = 1,
    leaves: str = "",
    hash_of: str = "",
) -> str:
    """A seal; its hash is that of its content unless `hash_of` says otherwise."""
    leaves = leaves or f"decode(repeat('ab', {40 * entries}), 'hex')"
    whole = (
        f"sha256('payoutd ledger seal 1'::bytea || int8send({number}) || int8send({first}) || int8send({last}) "
        f"|| {previous} || {leaves})"
    )
    return f"""INSERT INTO ledger_seals (seal_id, first_entry, last_entry, entries, rule, leaves, previous, hash)
               VALUES ({number}, {first}, {last}, {entries}, {rule}, {leaves}, {previous}, {hash_of or whole})"""


SECOND = seal(2, first=5, last=9, previous=BEFORE)

CASES = [
    Refused("a seal edited", "ledger_seals_history", seal(), "UPDATE ledger_seals SET at = now()"),
    Refused("a seal deleted", "ledger_seals_history", seal(), "DELETE FROM ledger_seals"),
    Refused("all seals thrown away", "ledger_seals_history", seal(), "TRUNCATE ledger_seals"),
    Refused("a seal with another hash than its content has", "ledger_seals_hash", "", seal(hash_of=NOTHING)),
    Refused("a seal with a leaf too few", "ledger_seals_leaves", "", seal(leaves="decode(repeat('ab', 40), 'hex')")),
    Refused("a seal by a rule that nobody knows", "ledger_seals_rule", "", seal(rule=2)),
    Refused("a first seal on something else than nothing", "ledger_seals_begin", "", seal(previous="sha256('x')")),
    Refused("a first seal that begins later", "ledger_seals_begin", "", seal(first=2)),
    Refused("a seal of no entry", "ledger_seals_range", "", seal(entries=0, leaves="''::bytea")),
    Refused("a seal of more entries than its range has", "ledger_seals_range", "", seal(last=1, entries=2)),
    Refused("a number left out", "ledger_seals_chain", seal(), seal(3, first=5, last=9, previous=BEFORE)),
    Refused("entries left out", "ledger_seals_chain", seal(), seal(2, first=6, last=9, previous=BEFORE)),
    Refused("entries sealed twice", "ledger_seals_chain", seal(), seal(2, first=4, last=9, previous=BEFORE)),
    Refused("a seal on another hash", "ledger_seals_chain", seal(), seal(2, first=5, last=9, previous="sha256('x')")),
    Refused("a seal made twice", "ledger_seals_pkey", seal(), seal()),
    Refused("a second seal on one hash", "ledger_seals_pkey", steps(seal(), SECOND), SECOND),
]

ALLOWED = [
    Allowed("a first seal", "", seal(), "SELECT last_entry FROM ledger_seals", 4),
    Allowed("a seal that follows", seal(), SECOND, "SELECT count(*) FROM ledger_seals", 2),
    Allowed(
        "a range whose numbers were partly rolled back", "", seal(last=1000), "SELECT entries FROM ledger_seals", 2
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
async def test_the_database_refuses(case: Refused, seeded: Connection[Record]) -> None:
    await refuses(seeded, case)


@pytest.mark.parametrize("case", ALLOWED, ids=lambda case: case.sentence)
async def test_the_database_allows(case: Allowed, seeded: Connection[Record]) -> None:
    await allows(seeded, case)
