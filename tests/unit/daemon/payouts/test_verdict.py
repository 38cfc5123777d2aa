"""Whether a payout may be paid again: a table of situations, and what holds in all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.metrics import FIXED_SETS
from daemon.payouts.states import PayoutState as S
from daemon.payouts.verdict import (
    DOUBTFUL_INCIDENTS,
    HARMLESS_REVIEWS,
    Bound,
    Facts,
    Landing,
    Life,
    Verdict,
    decide,
)

PROOFS = ("refused_at_intake", "never_bound", "nonce_spent_by_other", "reverted_final", "two_persons")


def life(status: S, version: int = 1, **more: object) -> Life:
    proof = "nonce_spent_by_other" if status is S.FAILED else None
    return Life(**{"version": version, "status": status, "proof": proof, **more})  # type: ignore[arg-type]


def bound(version: int = 1, *, dead: bool = False, foreign: bool = False) -> Bound:
    return Bound(version=version, value="7", proved_dead=dead, foreign=foreign)


def landing(**more: object) -> Landing:
    return Landing(**{"tx_id": "0xa", "canonical": True, "pays": True, **more})  # type: ignore[arg-type]


DEAD = life(S.FAILED)
CLOSED = life(S.FAILED, closed=True)
PAID = life(S.CONFIRMED)
CANCELLED = life(S.FAILED, proof="never_bound", closed=True)
AGAIN, NOT_AGAIN = True, False
TABLE: tuple[tuple[str, Facts, Verdict, bool], ...] = (
    ("created", Facts(lives=(life(S.CREATED),)), Verdict.MAY_STILL_LAND, NOT_AGAIN),
    ("held by an operator", Facts(lives=(life(S.CREATED, review="operator"),)), Verdict.MAY_STILL_LAND, NOT_AGAIN),
    ("signed", Facts(lives=(life(S.SIGNED),), tokens=(bound(),)), Verdict.MAY_STILL_LAND, NOT_AGAIN),
    ("broadcast", Facts(lives=(life(S.BROADCAST),), tokens=(bound(),)), Verdict.MAY_STILL_LAND, NOT_AGAIN),
    (
        "broadcast, seen in a block and not judged",
        Facts(lives=(life(S.BROADCAST),), tokens=(bound(),), landings=(landing(judged=False),)),
        Verdict.MAY_STILL_LAND,
        NOT_AGAIN,
    ),
    (
        "broadcast, its block left the chain",
        Facts(lives=(life(S.BROADCAST),), tokens=(bound(),), landings=(landing(canonical=False),)),
        Verdict.UNKNOWN,
        NOT_AGAIN,
    ),
    ("confirmed", Facts(lives=(PAID,), tokens=(bound(),), landings=(landing(),)), Verdict.PAID_ONCE, NOT_AGAIN),
    ("confirmed without a transfer", Facts(lives=(PAID,), tokens=(bound(),)), Verdict.UNKNOWN, NOT_AGAIN),
    (
        "confirmed, its block left the chain",
        Facts(lives=(PAID,), tokens=(bound(),), landings=(landing(canonical=False),)),
        Verdict.UNKNOWN,
        NOT_AGAIN,
    ),
    (
        "confirmed, displaced by another attempt",
        Facts(
            lives=(PAID,),
            tokens=(bound(),),
            landings=(landing(canonical=False, void="displaced"), landing(tx_id="0xb")),
        ),
        Verdict.PAID_ONCE,
        NOT_AGAIN,
    ),
    (
        "confirmed as version 2 while version 1 may land",
        Facts(lives=(DEAD, life(S.CONFIRMED, 2)), tokens=(bound(1), bound(2)), landings=(landing(),)),
        Verdict.UNKNOWN,
        NOT_AGAIN,
    ),
    (
        "confirmed as version 2, version 1 dead",
        Facts(lives=(DEAD, life(S.CONFIRMED, 2)), tokens=(bound(1, dead=True), bound(2)), landings=(landing(),)),
        Verdict.PAID_ONCE,
        NOT_AGAIN,
    ),
    (
        "two transfers",
        Facts(lives=(PAID,), tokens=(bound(),), landings=(landing(), landing(tx_id="0xb")), incidents=("x",)),
        Verdict.PAID_MORE_THAN_ONCE,
        NOT_AGAIN,
    ),
    ("failed", Facts(lives=(DEAD,), tokens=(bound(dead=True),)), Verdict.CANNOT_LAND, NOT_AGAIN),
    ("failed and closed", Facts(lives=(CLOSED,), tokens=(bound(dead=True),)), Verdict.CANNOT_LAND, AGAIN),
    ("cancelled and closed", Facts(lives=(CANCELLED,)), Verdict.CANNOT_LAND, AGAIN),
    (
        "cancelled and closed, with a token",
        Facts(lives=(CANCELLED,), tokens=(bound(dead=True),)),
        Verdict.UNKNOWN,
        False,
    ),
    ("failed, the token open", Facts(lives=(CLOSED,), tokens=(bound(),)), Verdict.UNKNOWN, NOT_AGAIN),
    (
        "failed, and it landed after all",
        Facts(lives=(CLOSED,), tokens=(bound(dead=True),), landings=(landing(),)),
        Verdict.UNKNOWN,
        NOT_AGAIN,
    ),
    (
        "failed, and it had landed late in a block that is gone",
        Facts(lives=(CLOSED,), tokens=(bound(dead=True),), landings=(landing(canonical=False, token_dead=True),)),
        Verdict.UNKNOWN,
        NOT_AGAIN,
    ),
    (
        "failed, seen once in a block that is gone",
        Facts(
            lives=(CLOSED,),
            tokens=(bound(dead=True),),
            landings=(landing(canonical=False, judged=False, token_dead=True),),
        ),
        Verdict.CANNOT_LAND,
        AGAIN,
    ),
    (
        "failed, its match proved displaced",
        Facts(lives=(CLOSED,), tokens=(bound(dead=True),), landings=(landing(canonical=False, void="displaced"),)),
        Verdict.CANNOT_LAND,
        AGAIN,
    ),
    (
        "failed, its match proved displaced and back on the chain",
        Facts(lives=(CLOSED,), tokens=(bound(dead=True),), landings=(landing(void="displaced"),)),
        Verdict.UNKNOWN,
        NOT_AGAIN,
    ),
    (
        "failed, and somebody paid the same",
        Facts(lives=(CLOSED,), tokens=(bound(dead=True),), equals=("0xc",)),
        Verdict.UNKNOWN,
        NOT_AGAIN,
    ),
    ("failed, in a frozen deployment", Facts(lives=(CANCELLED,), frozen="restored"), Verdict.UNKNOWN, NOT_AGAIN),
    (
        "ended by two persons",
        Facts(lives=(life(S.FAILED, proof="two_persons", closed=True),), tokens=(bound(dead=True),)),
        Verdict.UNKNOWN,
        NOT_AGAIN,
    ),
    ("retried", Facts(lives=(DEAD, life(S.CREATED, 2))), Verdict.MAY_STILL_LAND, NOT_AGAIN),
    (
        "reversed and closed",
        Facts(
            lives=(life(S.CONFIRMED, reversal="nonce_spent_by_other", closed=True),),
            tokens=(bound(dead=True),),
            landings=(landing(canonical=False, void="reversed"),),
        ),
        Verdict.CANNOT_LAND,
        AGAIN,
    ),
)


@pytest.mark.parametrize(("sentence", "facts", "verdict", "again"), TABLE, ids=[row[0] for row in TABLE])
def test_what_can_be_said(sentence: str, facts: Facts, verdict: Verdict, again: bool) -> None:
    decision = decide(facts)

    assert (decision.verdict, decision.may_pay_again) == (verdict, again), sentence


@pytest.mark.parametrize("kind", DOUBTFUL_INCIDENTS)
@pytest.mark.parametrize(("sentence", "facts"), [row[:2] for row in TABLE], ids=[row[0] for row in TABLE])
def test_an_open_incident_makes_everything_unknown(sentence: str, facts: Facts, kind: str) -> None:
    decision = decide(replace(facts, incidents=(kind,)))

    assert decision.verdict in (Verdict.UNKNOWN, Verdict.PAID_MORE_THAN_ONCE), sentence
    assert not decision.may_pay_again


@pytest.mark.parametrize("reason", FIXED_SETS["review"])
def test_a_review_is_a_doubt_unless_it_says_nothing_about_money(reason: str) -> None:
    decision = decide(Facts(lives=(life(S.BROADCAST, review=reason),), tokens=(bound(),)))

    assert (decision.verdict is Verdict.MAY_STILL_LAND) == (reason in HARMLESS_REVIEWS)


def test_a_token_that_somebody_else_has_used_is_a_doubt_until_it_is_proved_dead() -> None:
    used = Facts(lives=(life(S.BROADCAST),), tokens=(bound(foreign=True),))

    assert decide(used).verdict is Verdict.UNKNOWN
    assert decide(Facts(lives=(CLOSED,), tokens=(bound(foreign=True, dead=True),))).may_pay_again


LIVES = st.builds(
    Life,
    version=st.integers(1, 3),
    status=st.sampled_from(S),
    proof=st.none() | st.sampled_from(PROOFS),
    reversal=st.none() | st.sampled_from(PROOFS),
    review=st.none() | st.sampled_from(FIXED_SETS["review"]),
    closed=st.booleans(),
)
LANDINGS = st.builds(
    Landing,
    tx_id=st.sampled_from(("0xa", "0xb")),
    canonical=st.booleans(),
    pays=st.booleans(),
    judged=st.booleans(),
    void=st.none() | st.sampled_from(("reversed", "displaced")),
    token_dead=st.booleans(),
)
TOKENS = st.builds(
    Bound, version=st.integers(1, 3), value=st.just("7"), proved_dead=st.booleans(), foreign=st.booleans()
)
FACTS = st.builds(
    Facts,
    lives=st.lists(LIVES, min_size=1, max_size=3).map(tuple),
    tokens=st.lists(TOKENS, max_size=3).map(tuple),
    landings=st.lists(LANDINGS, max_size=3).map(tuple),
    incidents=st.lists(st.sampled_from(DOUBTFUL_INCIDENTS), max_size=1).map(tuple),
    equals=st.lists(st.just("0xc"), max_size=1).map(tuple),
    frozen=st.none() | st.just("restored"),
)


@given(FACTS)
def test_nobody_may_pay_again_while_anything_that_was_signed_is_not_proved_dead(facts: Facts) -> None:
    if decide(facts).may_pay_again:
        assert all(token.proved_dead for token in facts.tokens)
        assert all(one.dead for one in facts.lives)
        assert facts.newest.closed
        assert not any(one.stands for one in facts.landings)
        assert (facts.incidents, facts.equals, facts.frozen) == ((), (), None)


@given(FACTS)
def test_each_verdict_says_what_it_needs(facts: Facts) -> None:
    decision = decide(facts)
    standing = sum(one.stands for one in facts.landings)

    assert (decision.verdict is Verdict.PAID_MORE_THAN_ONCE) == (standing > 1)
    if decision.verdict is Verdict.PAID_ONCE:
        assert standing == 1
        assert facts.newest.status is S.CONFIRMED
    if decision.verdict is Verdict.CANNOT_LAND:
        assert standing == 0
        assert all(one.dead for one in facts.lives)
    if decision.verdict is Verdict.UNKNOWN:
        assert decision.doubts
    assert decision.may_pay_again <= (decision.verdict is Verdict.CANNOT_LAND)


@given(FACTS, st.sampled_from(DOUBTFUL_INCIDENTS))
def test_more_doubt_never_allows_more(facts: Facts, kind: str) -> None:
    doubted = replace(facts, incidents=(*facts.incidents, kind), tokens=(*facts.tokens, bound(facts.newest.version)))

    assert not decide(doubted).may_pay_again
