"""A person's word ends a payout only where the chain proves it: every combination of facts, tried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from daemon.payouts.resolution import (
    Answer,
    BalanceQuestion,
    Candidate,
    Contradicts,
    Missing,
    PoolQuestion,
    Proved,
    Token,
    Use,
    not_paid,
    paid,
)

AMOUNT = 100
BLOCK = 9
ANSWERS = (
    None,
    Answer(PoolQuestion(("0xa",))),
    Answer(PoolQuestion(("0xa",)), known=("0xa is pending in a node's pool",)),
    Answer(BalanceQuestion(BLOCK)),
    *(Answer(BalanceQuestion(BLOCK), balances=(5, after)) for after in (4, 5, 6, 105, 106)),
    Answer(BalanceQuestion(BLOCK - 1), balances=(5, 5)),  # to another question
)
GOOD = Candidate(tx_id="0xm", canonical=True, final=True, judged=True)


def uses() -> Iterator[Use | None]:
    yield None
    for final, ours, purpose, succeeded in product((True, False), (True, False), ("pay", "cancel"), (True, False)):
        yield Use(
            tx_id="0xu", block=BLOCK, final=final, ours=ours, purpose=purpose if ours else None, succeeded=succeeded
        )


def tokens() -> Iterator[Token]:
    flags = (True, False)
    for use, paid_by, unjudged, exactly, accepted in product(uses(), ("0xp", None), flags, flags, (("n1",), ())):
        yield Token(
            value="7", use=use, paid_by=paid_by, unjudged=unjudged, pays_exactly=exactly, tx_ids=("0xa",),
            accepted_by=accepted,
        )  # fmt: skip


def test_not_paid_is_believed_only_of_a_token_used_for_good_by_something_judged_that_did_not_pay() -> None:
    for token, answer in product(tokens(), ANSWERS):
        decision = not_paid(token, amount=AMOUNT, answer=answer)

        if not isinstance(decision, Proved):
            continue
        use = token.use
        assert use is not None
        assert use.final
        assert token.paid_by is None
        assert not token.unjudged
        assert use.ours or not token.pays_exactly
        if use.ours and use.purpose == "pay":
            wanted = "no_effect_final" if use.succeeded else "reverted_final"
            assert not use.succeeded or answer == Answer(BalanceQuestion(BLOCK), balances=(5, 5))
        else:
            wanted = "nonce_spent_by_other"
        assert decision.proof == wanted


@pytest.mark.parametrize("token", [None, *tokens()])
def test_paid_is_believed_only_where_nothing_signed_may_still_land(token: Token | None) -> None:
    for answer in ANSWERS:
        decision = paid(token, GOOD, amount=AMOUNT, answer=answer)

        if isinstance(decision, Proved):
            assert token is None or (token.use is not None and token.use.final and token.paid_by is None)
            assert (decision.proof is None) is (token is None)


@pytest.mark.parametrize(
    "change",
    [
        {"canonical": False},
        {"final": False},
        {"judged": False},
        {"pays": "another"},
        {"signed_for": "another"},
        {"pinned_elsewhere": True},
        {"late": True},
    ],
)
def test_a_transfer_that_is_not_final_or_is_anothers_has_paid_nothing(change: dict[str, object]) -> None:
    found = replace(GOOD, **change)  # type: ignore[arg-type]

    assert isinstance(paid(None, found, amount=AMOUNT), Missing | Contradicts)
    assert isinstance(paid(None, None, amount=AMOUNT), Missing)


def test_every_answer_to_what_is_not_proved_says_what_to_do_or_what_stands_against_it() -> None:
    for token, answer in product(tokens(), ANSWERS):
        decision = not_paid(token, amount=AMOUNT, answer=answer)

        if isinstance(decision, Missing | Contradicts):
            assert len(decision.detail) > 20


def test_the_same_question_is_not_asked_again_once_it_is_answered() -> None:
    for token in tokens():
        first = not_paid(token, amount=AMOUNT)
        if isinstance(first, PoolQuestion | BalanceQuestion):
            assert not isinstance(not_paid(token, amount=AMOUNT, answer=Answer(first)), PoolQuestion | BalanceQuestion)
