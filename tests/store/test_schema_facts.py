"""What the database refuses and allows about identities, reading, incidents, events and retention."""

import pytest
from asyncpg import Connection, Record

from tests.store import schema_steps as do
from tests.store.schema_cases import CHAIN, CUSTODY, HOT, NEW, Allowed, Refused, allows, refuses, steps

RETENTION = "SET LOCAL payoutd.retention = 'on'"
ORPHAN = do.incident("orphan_transfer", "eip155:1:0xa:0", "event")
UNDERFUNDED = do.incident("wallet_underfunded", "hot", "condition")
RESOLVED = "UPDATE incidents SET state = 'resolved', resolved_at = now(), resolved_by = 'bob', resolution = 'explained'"
EVENT = "INSERT INTO events (topic, subject, body, actor) VALUES ('payout.created', 'x', '{}', 'ann')"
OLD_EVENT = EVENT.replace("actor)", "actor, at)").replace("'ann')", "'ann', now() - interval '40 days')")
DELIVERY = "INSERT INTO deliveries (receiver, event_id, thread) SELECT 'pager', event_id, 't' FROM events"
COVERED = "INSERT INTO coverage (wallet_id, filter_hash, watched_from, final_to, read_to) VALUES (1, 'f', 10, 15, 20)"
THAWED = "UPDATE wallets SET thawed_at = now() + interval '1 s' WHERE signs AND NOT retired"
LIFT = "UPDATE deployment SET frozen = NULL"
THAW = f"INSERT INTO thaws (wallet_id, frozen_at, first_nonce, end_nonce) VALUES ({HOT}, now(), 5, 21)"
MARKED = f"INSERT INTO chain_marks (chain_id, head, paid_to, dead_to) VALUES ('{CHAIN}', 100, 90, 36)"

IDENTITIES = [
    Refused(
        "two counters for one address",
        "wallets_chain_id_address_key",
        "",
        "INSERT INTO wallets (chain_id, address, name, signs) VALUES ('eip155:1', '0xhot', 'again', true)",
    ),
    Refused(
        "one custody wallet twice",
        "wallets_provider_provider_wallet_key",
        "",
        "INSERT INTO wallets (provider, provider_wallet, name, signs) VALUES ('circle', 'w-1', 'again', true)",
    ),
    Refused(
        "a wallet of a name alone",
        "wallets_have_an_identity",
        "",
        "INSERT INTO wallets (name, signs) VALUES ('hot', true)",
    ),
    Refused(
        "a wallet with another address",
        "wallets_identity",
        "",
        "UPDATE wallets SET address = '0xelse' WHERE wallet_id = 1",
    ),
    Refused(
        "a wallet with another custody id",
        "wallets_identity",
        "",
        f"UPDATE wallets SET provider_wallet = 'w-2' WHERE wallet_id = {CUSTODY}",
    ),
    Refused("a nonce below nought", "wallets_nonce_not_negative", "", "UPDATE wallets SET adopted_nonce = -1"),
    Refused("a wallet deleted", "wallets_history", "", "DELETE FROM wallets"),
    Refused(
        "a wallet of an unknown chain",
        "wallets_chain",
        "",
        "INSERT INTO wallets (chain_id, address, name, signs) VALUES ('eip155:9', '0x9', 'nine', true)",
    ),
    Refused(
        "other decimals for a known contract",
        "assets_chain_id_contract_key",
        "",
        "INSERT INTO assets (chain_id, contract, decimals, unit_id) VALUES ('eip155:1', '0xusdc', 18, 2)",
    ),
    Refused(
        "an asset with other decimals than its unit",
        "assets_unit_has_the_same_decimals",
        "",
        "INSERT INTO assets (chain_id, contract, decimals, unit_id) VALUES ('eip155:1', '0xnew', 18, 1)",
    ),
    Refused(
        "an asset of an unknown chain",
        "assets_chain",
        "",
        "INSERT INTO assets (chain_id, contract, decimals, unit_id) VALUES ('eip155:9', '0xnew', 6, 1)",
    ),
    Refused("decimals edited", "assets_history", "", "UPDATE assets SET decimals = 18"),
    Refused("decimals of a unit edited", "units_history", "", "UPDATE units SET decimals = 18"),
    Refused("two units of one name", "units_name_key", "", "INSERT INTO units (name, decimals) VALUES ('USDC', 18)"),
    Refused("a unit that no amount fits", "units_decimals", "", "INSERT INTO units (name, decimals) VALUES ('X', 78)"),
    Refused("another genesis", "chains_history", "", "UPDATE chains SET genesis = '0xelse'"),
    Refused(
        "two identities of one database",
        "deployment_pkey",
        "",
        "INSERT INTO deployment (instance, system_identifier, timeline) VALUES ('two', 2, 1)",
    ),
    Refused(
        "a second identity beside the first",
        "deployment_one_row",
        "",
        "INSERT INTO deployment (one, instance, system_identifier, timeline) VALUES (false, 'two', 2, 1)",
    ),
    Refused("the identity deleted", "deployment_history", "", "DELETE FROM deployment"),
    Refused("the identity changed", "deployment_identity", "", "UPDATE deployment SET timeline = 2"),
    Refused("the instance changed", "deployment_identity", "", "UPDATE deployment SET instance = 'other'"),
    Refused("a freeze lifted without a thaw", "deployment_thawed", do.FREEZE, LIFT),
    Refused(
        "a freeze lifted while one wallet was thawed before it",
        "deployment_thawed",
        steps(do.FREEZE, THAWED, f"UPDATE wallets SET thawed_at = now() - interval '1 s' WHERE wallet_id = {HOT}"),
        LIFT,
    ),
    Refused("a thaw's range changed", "thaws_history", THAW, "UPDATE thaws SET end_nonce = 100"),
    Refused("two ranges for one freeze", "thaws_pkey", THAW, THAW),
    Refused("a thaw of nothing", "thaws_wallet", "", THAW.replace(f"({HOT},", "(99,")),
    Refused("an empty range thawed", "thaws_range", "", THAW.replace("5, 21", "5, 5")),
    Refused("a payout of an unknown asset", "payouts_asset", "", do.intent(1, asset=99)),
    Refused("a payout pinned to an unknown wallet", "payouts_wallet", "", do.intent(1, wallet="99")),
    Refused(
        "a payout that repeats nothing known", "payouts_expected_repeat_of", "", do.intent(1, repeats=do.payout(9))
    ),
    Refused(
        "a payout of another kind",
        "payouts_kind",
        do.intent(1),
        do.intent(2).replace("network,", "kind, network,").replace("'net'", "'gift', 'net'"),
    ),
]

READING = [
    Refused("read with a hole", "coverage_without_holes", "", COVERED.replace("15, 20", "20, 15")),
    Refused("final below where watching began", "coverage_without_holes", COVERED, "UPDATE coverage SET final_to = 8"),
    Refused("one wallet and filter read twice", "coverage_pkey", COVERED, COVERED),
    Refused("two canonical blocks of one height", "blocks_pkey", do.block(5), do.block(5)),
    Refused("a block of an unknown chain", "blocks_chain", "", do.block(5, chain="eip155:9")),
    Refused(
        "a wallet that holds less than nothing",
        "wallet_balances_not_negative",
        "",
        "INSERT INTO wallet_balances (wallet_id, asset_id, amount, block) VALUES (1, 1, -1, 5)",
    ),
]

INCIDENTS = [
    Refused("a resolved orphan opened again", "incidents_once", steps(ORPHAN, RESOLVED), ORPHAN),
    Refused("a condition open twice", "incidents_once", UNDERFUNDED, UNDERFUNDED),
    Refused("resolved, then open", "incidents_step", steps(ORPHAN, RESOLVED), "UPDATE incidents SET state = 'open'"),
    Refused(
        "acknowledged, then open",
        "incidents_step",
        steps(ORPHAN, "UPDATE incidents SET state = 'acknowledged'"),
        "UPDATE incidents SET state = 'open'",
    ),
    Refused("an incident about something else", "incidents_identity", ORPHAN, "UPDATE incidents SET subject = 'x'"),
    Refused("an incident deleted", "incidents_history", ORPHAN, "DELETE FROM incidents"),
    Refused("a severity of its own", "incidents_severity", ORPHAN, "UPDATE incidents SET severity = 'mild'"),
    Refused("a state of its own", "incidents_state", ORPHAN, "UPDATE incidents SET state = 'snoozed'"),
    Refused("a resolution of its own", "incidents_resolution", ORPHAN, "UPDATE incidents SET resolution = 'bored'"),
    Refused("an incident that lasts otherwise", "incidents_lasts", "", do.incident("k", "s", "season")),
    Refused(
        "two incidents of one id",
        "incidents_id_key",
        ORPHAN,
        UNDERFUNDED.replace("gen_random_uuid()", "(SELECT id FROM incidents)"),
    ),
    Refused("a note edited", "incident_notes_history", steps(ORPHAN, do.NOTE), "UPDATE incident_notes SET text = 'x'"),
    Refused("a note deleted", "incident_notes_history", steps(ORPHAN, do.NOTE), "DELETE FROM incident_notes"),
]

EVENTS = [
    Refused("an event edited", "events_history", EVENT, "UPDATE events SET reason = 'x'"),
    Refused("an event deleted", "events_history", OLD_EVENT, "DELETE FROM events"),
    Refused("a young event deleted by retention", "events_history", steps(EVENT, RETENTION), "DELETE FROM events"),
    Refused(
        "an event deleted before its deliveries",
        "deliveries_event",
        steps(OLD_EVENT, DELIVERY, RETENTION),
        "DELETE FROM events",
    ),
    Refused("told twice", "deliveries_pkey", steps(EVENT, DELIVERY), DELIVERY),
    Refused(
        "a delivery in a state of its own",
        "deliveries_state",
        steps(EVENT, DELIVERY),
        "UPDATE deliveries SET state = 'lost'",
    ),
    Refused("a delivery deleted", "deliveries_history", steps(EVENT, DELIVERY), "DELETE FROM deliveries"),
    Refused(
        "a due delivery deleted by retention",
        "deliveries_history",
        steps(OLD_EVENT, DELIVERY, RETENTION),
        "DELETE FROM deliveries",
    ),
]

TABLES_OF_HISTORY = (
    "assets",
    "attempts",
    "balances",
    "chains",
    "deliveries",
    "deployment",
    "events",
    "incident_notes",
    "incidents",
    "ledger_entries",
    "ledger_orders",
    "ledger_seals",
    "limit_scopes",
    "limit_uses",
    "matches",
    "payout_versions",
    "payouts",
    "proofs",
    "sends",
    "thaws",
    "tokens",
    "transfers",
    "transitions",
    "units",
    "wallets",
)

TRUNCATED = [
    Refused(f"{table} truncated", f"{table}_history", "", f"TRUNCATE {table} CASCADE") for table in TABLES_OF_HISTORY
]

ALLOWED = [
    Allowed(
        "a freeze lifted after every signing wallet, and the identity stored anew",
        steps(do.FREEZE, THAWED),
        LIFT.replace("frozen = NULL", "frozen = NULL, timeline = 2"),
    ),
    Allowed("a wallet renamed", "", "UPDATE wallets SET name = 'main'"),
    Allowed(
        "a custody wallet's address learned",
        "",
        f"UPDATE wallets SET chain_id = '{CHAIN}', address = '0xc' WHERE wallet_id = {CUSTODY}",
    ),
    Allowed(
        "a wallet adopted, once",
        "",
        f"UPDATE wallets SET next_nonce = 7, adopted_nonce = 7, adopted_block = 1 WHERE wallet_id = {NEW}",
    ),
    Allowed(
        "the highest in-flight limit is remembered",
        "UPDATE wallets SET max_in_flight_ever = 16",
        "UPDATE wallets SET max_in_flight_ever = 4",
        "SELECT min(max_in_flight_ever) FROM wallets",
        16,
    ),
    Allowed(
        "what is dead stays dead, whatever a lagging node says",
        MARKED,
        "UPDATE chain_marks SET head = 30, paid_to = 20, dead_to = 10",
        "SELECT dead_to FROM chain_marks",
        36,
    ),
    Allowed(
        "an unknown dead mark keeps the known one",
        MARKED,
        "UPDATE chain_marks SET dead_to = NULL",
        "SELECT dead_to FROM chain_marks",
        36,
    ),
    Allowed(
        "a tag read after the head counts up to the head",
        "",
        MARKED.replace("90, 36", "101, 102"),
        "SELECT paid_to + dead_to FROM chain_marks",
        200,
    ),
    Allowed(
        "unknown heights stay unknown",
        "",
        MARKED.replace("90, 36", "NULL, NULL"),
        "SELECT paid_to IS NULL AND dead_to IS NULL FROM chain_marks",
    ),
    Allowed("a reading that falls back to the fork", COVERED, "UPDATE coverage SET read_to = 16"),
    Allowed("an event's incident, resolved", ORPHAN, RESOLVED),
    Allowed(
        "a condition returns as a new incident",
        steps(UNDERFUNDED, RESOLVED),
        UNDERFUNDED,
        "SELECT count(*) FROM incidents",
        2,
    ),
    Allowed("an event is told to two receivers", steps(EVENT, DELIVERY), DELIVERY.replace("pager", "slack")),
    Allowed(
        "retention deletes old events and what was delivered",
        steps(OLD_EVENT, DELIVERY, "UPDATE deliveries SET state = 'delivered'", RETENTION),
        "DELETE FROM deliveries; DELETE FROM events",
        "SELECT count(*) FROM events",
        0,
    ),
    Allowed(
        "two racing equal orders meet on one row",
        do.LOOKALIKE,
        f"{do.LOOKALIKE} ON CONFLICT (asset_id, destination, amount) DO UPDATE SET at = EXCLUDED.at",
        "SELECT count(*) FROM lookalikes",
        1,
    ),
]

CASES = IDENTITIES + READING + INCIDENTS + EVENTS + TRUNCATED


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
async def test_the_database_refuses(case: Refused, seeded: "Connection[Record]") -> None:
    await refuses(seeded, case)


@pytest.mark.parametrize("case", ALLOWED, ids=lambda case: case.sentence)
async def test_the_database_allows(case: Allowed, seeded: "Connection[Record]") -> None:
    await allows(seeded, case)
