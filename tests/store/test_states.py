"""The state machine is said once and held three times: code, database, docs."""

from itertools import product
from pathlib import Path

import pytest
from asyncpg import CheckViolationError, Connection, Record

from daemon.__main__ import main
from daemon.payouts.states import BIRTHS, EXPECTATION, FINAL, TRANSITIONS, IllegalTransition, allowed, mermaid, require
from daemon.payouts.states import PayoutState as State
from tests.store import schema_steps as do
from tests.store.schema_cases import steps

DOCS = Path(__file__).resolve().parents[2] / "docs" / "states.md"
PAIRS = [(source, target) for source, target in product(State, State) if source is not target]

BROADCAST = "UPDATE payout_versions SET status = 'broadcast'"
ARRIVAL = {
    State.CREATED: do.order(1),
    State.SIGNED: do.signed(1, "0xa"),
    State.BROADCAST: steps(do.signed(1, "0xa"), BROADCAST),
    State.CONFIRMED: do.paid(1, "0xa"),
    State.FAILED: do.cancelled(1),
}  # how a version comes to stand there
DEAD = {
    State.CREATED: do.prove(1),
    State.SIGNED: do.lost_nonce(1),
    State.BROADCAST: do.lost_nonce(1),
    State.CONFIRMED: do.lost_nonce(1),
    State.FAILED: do.prove(1),
}  # what makes it as dead as it can be
SEEN = {
    State.CREATED: steps(do.seen("0xa"), do.match(1, "0xa", person="'bob'"), do.final("0xa")),
    State.SIGNED: steps(do.seen("0xa"), do.match(1, "0xa"), do.final("0xa")),
    State.BROADCAST: steps(do.seen("0xa"), do.match(1, "0xa"), do.final("0xa")),
}  # what makes it as paid as it can be


def tried(source: State, target: State) -> tuple[str, str]:
    """The situation in which nothing but the step itself could be refused, and the statement that takes the step."""
    plain = f"UPDATE payout_versions SET status = '{target.value}'"
    match target:
        case State.SIGNED if source is State.CREATED:
            return ARRIVAL[source], do.bind(1)
        case State.BROADCAST if source is State.CREATED:
            return do.watched(1), do.tie(1, "0xt")
        case State.CONFIRMED if source in SEEN:
            return steps(ARRIVAL[source], SEEN[source]), do.confirm(1, "0xa")
        case State.FAILED:
            return steps(ARRIVAL[source], DEAD[source]), do.fail(1)
        case _:
            return ARRIVAL[source], plain


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda state: state.value)
async def test_the_database_takes_a_step_exactly_when_the_table_has_it(
    source: State, target: State, seeded: "Connection[Record]"
) -> None:
    given, step = tried(source, target)
    await seeded.execute(given)

    if allowed(source, target):
        await seeded.execute(step)
        assert await seeded.fetchval(do.status(1)) == target.value
    else:
        with pytest.raises(CheckViolationError) as caught:
            await seeded.execute(step)
        assert caught.value.constraint_name == "versions_step"


@pytest.mark.parametrize("state", State, ids=lambda state: state.value)
async def test_standing_still_is_not_a_step(state: State, seeded: "Connection[Record]") -> None:
    await seeded.execute(ARRIVAL[state])

    await seeded.execute(f"UPDATE payout_versions SET status = '{state.value}', updated_at = now()")

    assert await seeded.fetchval(do.status(1)) == state.value


async def test_the_database_has_the_table_of_the_code(seeded: "Connection[Record]") -> None:
    rows = await seeded.fetch("SELECT source, target FROM transitions")

    assert {(row["source"], row["target"]) for row in rows} == {(t.source.value, t.target.value) for t in TRANSITIONS}


def test_the_docs_show_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["states"]) == 0

    assert f"```mermaid\n{capsys.readouterr().out}```\n" in DOCS.read_text()


def test_every_step_and_birth_stands_in_the_diagram() -> None:
    for step in TRANSITIONS:
        assert f"{step.source.value} --> {step.target.value}: " in mermaid()
    for state in BIRTHS:
        assert f"[*] --> {state.value}: " in mermaid()


def test_every_state_says_what_the_chain_may_show() -> None:
    assert set(EXPECTATION) == set(State)


def test_confirmed_and_failed_are_never_left() -> None:
    assert {State.CONFIRMED, State.FAILED} == FINAL


def test_no_step_is_listed_twice() -> None:
    assert len({(step.source, step.target) for step in TRANSITIONS}) == len(TRANSITIONS)


@pytest.mark.parametrize(("source", "target"), [*PAIRS, *((state, state) for state in State)], ids=lambda s: s.value)
def test_require_refuses_what_the_table_does_not_have(source: State, target: State) -> None:
    if allowed(source, target):
        require(source, target)
    else:
        with pytest.raises(IllegalTransition, match=f"no step leads from {source.value} to {target.value}"):
            require(source, target)
