"""The schema as a whole: every rule has a name that can be read, and a sentence that proves it."""

import re

from asyncpg import Connection, Record

from tests.store import (
    test_callers,
    test_schema_attempts,
    test_schema_endings,
    test_schema_facts,
    test_schema_ledger,
    test_schema_policy,
    test_schema_seals,
    test_schema_sweeps,
    test_schema_tokens,
    test_schema_versions,
)

CASES = (
    test_callers.REFUSED
    + test_schema_attempts.CASES
    + test_schema_endings.CASES
    + test_schema_facts.CASES
    + test_schema_ledger.CASES
    + test_schema_policy.CASES
    + test_schema_seals.CASES
    + test_schema_sweeps.CASES
    + test_schema_tokens.CASES
    + test_schema_versions.CASES
)
PROVED = {case.rule for case in CASES}

#: Foreign keys to a parent row that every sentence names, and keys that nothing else could break.
PLAIN = {
    "attempts_chain",
    "attempts_token",
    "balances_pkey",
    "chain_marks_chain",
    "chain_marks_pkey",
    "chains_pkey",
    "coverage_wallet",
    "ended_counted_pkey",
    "incident_notes_incident",
    "leases_pkey",
    "limit_sums_pkey",
    "limit_uses_pkey",
    "ledger_orders_entry",
    "lookalikes_pkey",
    "matches_attempt",
    "matches_version",
    "sends_attempt",
    "transfers_chain",
    "transfers_wallet",
    "transitions_pkey",
    "wallet_balances_asset",
    "wallet_balances_pkey",
    "wallet_balances_wallet",
}
#: Held already by a trigger that speaks first; the constraint stays as the second lock on the door.
BEHIND = {"chain_marks_paid_below_head", "tokens_version", "versions_match"}
#: Wide keys that exist for a foreign key to point at; a narrower one is always broken first.
TARGETS = re.compile(
    r"_(terms|retryable|proof|transfer|transfer_final|reversal|shown|of_version|final|version)_key$"
    r"|_id_(chain_id|decimals)_key$"
)

RULES = r"""
    SELECT conname AS name FROM pg_constraint
     WHERE connamespace = 'public'::regnamespace AND contype IN ('c', 'f', 'u', 'p')
    UNION
    SELECT indexrelid::regclass::text FROM pg_index WHERE indisunique AND indrelid::regclass::text NOT LIKE 'pg_%'
    UNION
    SELECT (regexp_matches(prosrc, 'refused\(''(\w+)''', 'g'))[1] FROM pg_proc
     WHERE pronamespace = 'public'::regnamespace
"""
IDENTITIES = "SELECT table_name || '_pkey' FROM information_schema.columns WHERE is_identity = 'YES'"


async def rules(connection: "Connection[Record]") -> set[str]:
    return {row["name"] for row in await connection.fetch(RULES)} - {"schema_migrations_pkey"}


async def test_every_rule_has_a_sentence_that_proves_it(seeded: "Connection[Record]") -> None:
    identities = {row[0] for row in await seeded.fetch(IDENTITIES)}

    unproved = await rules(seeded) - PROVED - PLAIN - BEHIND - identities

    assert {rule for rule in unproved if not TARGETS.search(rule)} == set()


async def test_no_sentence_names_a_rule_that_is_not_there(seeded: "Connection[Record]") -> None:
    tables = {*test_schema_facts.TABLES_OF_HISTORY, "api_tokens"}
    known = await rules(seeded) | {f"{table}_history" for table in tables}

    assert (PROVED | PLAIN | BEHIND) - known == set()


async def test_constraints_have_names_that_can_be_read_in_a_log(seeded: "Connection[Record]") -> None:
    unnamed = [name for name in await rules(seeded) if re.search(r"_(fkey|check|excl)\d*$|_key\d+$", name)]

    assert unnamed == []


async def test_every_table_says_what_it_is(seeded: "Connection[Record]") -> None:
    silent = await seeded.fetch(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
        " AND obj_description(oid) IS NULL AND relname <> 'schema_migrations'"
    )

    assert silent == []


def test_the_sentences_are_distinct() -> None:
    texts = [case.sentence for case in CASES]

    assert sorted({text for text in texts if texts.count(text) > 1}) == []
