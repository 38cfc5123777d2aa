"""What the database refuses and allows about limits' uses, and about who may approve."""

import pytest
from asyncpg import Connection, Record

from daemon.payouts.policy import Scope, Spend, key_of
from tests.store import schema_steps as do
from tests.store.schema_cases import HOT, SPARE, USDC, Allowed, Refused, allows, refuses, steps
from tests.store.schema_steps import payout

ASKED = "UPDATE payout_versions SET needs_approval = true"
APPROVED = "UPDATE payout_versions SET approved_by = 'bob', approved_at = now()"
WAITING = steps(do.order(1), ASKED)


def scope(act: str, scope: str, *, window_s: float = 3600, unit: int = 1) -> str:
    """Uses of this sort are recorded from now on."""
    return f"""INSERT INTO limit_scopes (act, scope, unit_id, window_s) VALUES ('{act}', '{scope}', {unit}, {window_s})
               ON CONFLICT (act, scope, unit_id) DO UPDATE SET window_s = EXCLUDED.window_s"""


def use(n: int) -> str:
    """A use, written by hand."""
    return f"""INSERT INTO limit_uses (act, scope, key, unit_id, at, payout_id, version, amount)
               VALUES ('accepted', 'all', '', 1, now(), {payout(n)}, 1, 1)"""


def rejected(n: int, by: str = "bob") -> str:
    """Failed, by this person's word."""
    return (
        f"UPDATE payout_versions SET status = 'failed', proof_id = {do.proof(n)}, rejected_by = '{by}' WHERE {do.of(n)}"
    )


#: Every use: act, scope, key, amount, and a star where it was given back.
USES = """SELECT string_agg(concat_ws(' ', act, scope, nullif(key, ''), amount) || repeat('*', released::int),
                            ', ' ORDER BY act, scope, key, version) FROM limit_uses"""
RECORDED = steps(*(scope(act, name) for act in ("accepted", "signed") for name in Scope))

USED = [
    Refused("a use written by hand", "limit_uses_recorded", steps(scope("accepted", "all"), do.order(1)), use(1)),
    Refused(
        "a use given back by hand",
        "limit_uses_recorded",
        steps(scope("accepted", "all"), do.order(1)),
        "UPDATE limit_uses SET released = true",
    ),
    Refused(
        "a use deleted",
        "limit_uses_history",
        steps(scope("accepted", "all"), do.order(1)),
        "DELETE FROM limit_uses",
    ),
    Refused(
        "uses that are recorded no more", "limit_scopes_history", scope("accepted", "all"), "DELETE FROM limit_scopes"
    ),
    Refused(
        "a record that reaches less far back",
        "limit_scopes_only_grow",
        scope("accepted", "all", window_s=60),
        "UPDATE limit_scopes SET window_s = 59",
    ),
    Refused(
        "a record that becomes another one",
        "limit_scopes_only_grow",
        scope("accepted", "all"),
        "UPDATE limit_scopes SET scope = 'wallet'",
    ),
    Refused("uses of nothing that is done", "limit_scopes_act", "", scope("thought of", "all")),
    Refused("uses of no scope", "limit_scopes_scope", "", scope("signed", "moon")),
    Refused("uses of no time", "limit_scopes_window", "", scope("signed", "all", window_s=0)),
    Refused("uses of an unknown unit", "limit_scopes_unit", "", scope("signed", "all", unit=99)),
    Refused(
        "one scope twice",
        "limit_scopes_pkey",
        scope("signed", "all"),
        scope("signed", "all").partition("ON CONFLICT")[0],
    ),
]

DECIDED = [
    Refused(
        "approved by who ordered, though somebody else retried",
        "versions_four_eyes",
        steps(do.cancelled(1), do.version(1, 2).replace("'ann'", "'eve'"), f"{ASKED} WHERE version = 2"),
        "UPDATE payout_versions SET approved_by = 'ann' WHERE version = 2",
    ),
    Refused(
        "approved by who retried, though somebody else ordered",
        "versions_four_eyes",
        steps(do.cancelled(1), do.version(1, 2).replace("'ann'", "'eve'"), f"{ASKED} WHERE version = 2"),
        "UPDATE payout_versions SET approved_by = 'eve' WHERE version = 2",
    ),
    Refused("approved where nobody asked", "versions_approval_asked", do.order(1), APPROVED),
    Refused("approved after its end", "versions_approval_asked", steps(WAITING, do.prove(1), do.fail(1)), APPROVED),
    Refused(
        "an approval taken back",
        "versions_decided_once",
        steps(WAITING, APPROVED),
        "UPDATE payout_versions SET approved_by = NULL",
    ),
    Refused(
        "an approval that becomes another person's",
        "versions_decided_once",
        steps(WAITING, APPROVED),
        APPROVED.replace("bob", "eve"),
    ),
    Refused(
        "a rejection that becomes another person's",
        "versions_decided_once",
        steps(WAITING, do.prove(1), rejected(1)),
        "UPDATE payout_versions SET rejected_by = 'eve'",
    ),
    Refused(
        "rejected, and still alive",
        "versions_rejected_is_dead",
        WAITING,
        "UPDATE payout_versions SET rejected_by = 'bob'",
    ),
    Refused(
        "approved and rejected",
        "versions_rejected_is_dead",
        steps(WAITING, APPROVED, do.prove(1)),
        rejected(1),
    ),
    Refused("rejected where nobody asked", "versions_rejected_is_dead", steps(do.order(1), do.prove(1)), rejected(1)),
    Refused(
        "born approved",
        "versions_born_undecided",
        do.intent(1),
        do.version(1)
        .replace("created_by)", "created_by, needs_approval, approved_by)")
        .replace("'ann')", "'ann', true, 'bob')"),
    ),
    Refused(
        "bound before it is approved",
        "tokens_version_ready",
        WAITING,
        do.bind(1),
    ),
]

ALLOWED = [
    Allowed("nothing is recorded of what no limit asks about", "", do.signed(1, "0xa"), USES, None),
    Allowed(
        "accepting and signing each record their uses, under every scope that somebody asked about",
        RECORDED,
        do.signed(1, "0xa"),
        USES,
        f"accepted account ann 100, accepted all 100, accepted destination 0xD 100, "
        f"signed account ann 100, signed all 100, signed destination 0xD 100, signed wallet {HOT} 100",
    ),
    Allowed(
        "an order that names a wallet uses it from the beginning",
        scope("accepted", "wallet"),
        do.order(1, wallet=str(SPARE)),
        USES,
        f"accepted wallet {SPARE} 100",
    ),
    Allowed(
        "another unit is another limit",
        RECORDED,
        steps(do.intent(1, asset=2), do.version(1)),
        USES,
        None,
    ),
    Allowed("a refused order uses nothing", RECORDED, do.refused(1), USES, None),
    Allowed(
        "a sweep uses nothing",
        RECORDED,
        steps(
            do.intent(1)
            .replace("created_by)", "created_by, kind)")
            .replace("'net', 'ann')", "'net', 'ann', 'sweep')")
            .replace("'ann', 'key-1'", "'house:treasury', 'key-1'")
            .replace("'0xD'", "'0xspare'"),
            do.version(1),
        ),
        USES,
        None,
    ),
    Allowed(
        "what fails unsigned gives its share back in the same step",
        steps(scope("accepted", "all"), do.order(1)),
        do.end_unsigned(1),
        USES,
        "accepted all 100*",
    ),
    Allowed(
        "what fails after it was signed gives back both shares",
        steps(scope("accepted", "all"), scope("signed", "all"), do.signed(1, "0xa"), do.lost_nonce(1)),
        do.fail(1),
        USES,
        "accepted all 100*, signed all 100*",
    ),
    Allowed(
        "what was paid and reversed gives its share back",
        steps(scope("signed", "all"), do.gone(1, "0xa")),
        do.reverse(1),
        USES,
        "signed all 100*",
    ),
    Allowed(
        "a retry's version counts anew",
        scope("accepted", "all"),
        do.retried(1),
        USES,
        "accepted all 100*, accepted all 100",
    ),
    Allowed(
        "a new limit counts what was accepted and signed before it",
        steps(do.signed(1, "0xa"), do.order(2, amount=7), do.cancelled(3)),
        RECORDED,
        "SELECT string_agg(concat_ws(' ', act, amount), ', ' ORDER BY act, amount) FROM limit_uses WHERE scope = 'all'",
        "accepted 7, accepted 100, signed 100",
    ),
    Allowed(
        "a limit over a longer window counts nothing twice",
        steps(do.signed(1, "0xa"), scope("accepted", "all", window_s=60), scope("signed", "all", window_s=60)),
        steps(scope("accepted", "all"), scope("signed", "all")),
        USES,
        "accepted all 100, signed all 100",
    ),
    Allowed(
        "an approval given by a third person over a retry",
        steps(do.cancelled(1), do.version(1, 2).replace("'ann'", "'eve'"), f"{ASKED} WHERE version = 2"),
        "UPDATE payout_versions SET approved_by = 'bob', approved_at = now() WHERE version = 2",
    ),
    Allowed(
        "an approved payout is bound",
        steps(WAITING, APPROVED),
        do.bind(1),
        do.status(1),
        "signed",
    ),
    Allowed(
        "a rejection ends what waited for approval",
        WAITING,
        steps(do.prove(1), rejected(1), do.release(1)),
        do.balance("ann"),
        "2000/0/0",
    ),
    Allowed("who ordered may reject", steps(WAITING, do.prove(1)), rejected(1, "ann"), do.status(1), "failed"),
]

CASES = USED + DECIDED


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
async def test_the_database_refuses(case: Refused, seeded: "Connection[Record]") -> None:
    await refuses(seeded, case)


@pytest.mark.parametrize("case", ALLOWED, ids=lambda case: case.sentence)
async def test_the_database_allows(case: Allowed, seeded: "Connection[Record]") -> None:
    await allows(seeded, case)


@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("wallet_id", [None, 7])
async def test_code_and_database_count_under_the_same_key(
    scope: Scope, wallet_id: int | None, seeded: "Connection[Record]"
) -> None:
    spend = Spend(unit_id=USDC, amount=1, destination="0xD", account="ann", wallet_id=wallet_id)

    stored = await seeded.fetchval("SELECT limit_key($1, '0xD', 'ann', $2)", scope, wallet_id)

    assert stored == key_of(scope, spend)
