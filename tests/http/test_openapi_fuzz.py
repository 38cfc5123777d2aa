"""schemathesis asks the running API for whatever the document allows, and what it forbids, and checks each answer.

`--fuzz N` makes up N inputs for each route; the seed is the one that orders the tests, printed at the start.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.generation.stateful import APIStateMachine

from daemon.api.openapi import KEY
from daemon.api.openapi_operations import operations
from tests.conftest import Databases
from tests.http import fuzz_world
from tests.http.conformance import faults_of
from tests.http.fuzz_world import CHECKS, Target, target

STEPS = 8
#: Withdrawals are the same under another name, which tests/http/test_openapi.py proves: asked once is enough.
ASKED = [operation.name for operation in operations() if operation.tag != "withdrawals"]


@pytest.fixture(scope="module")
def api(databases: Databases, migrated_template: str) -> Iterator[Target]:
    """The API on a database of its own, for all of these tests."""
    name = databases.create(template=migrated_template)
    with target(databases.dsn_of(name)) as running:
        yield running
    databases.drop(name)


@pytest.fixture
def described(request: pytest.FixtureRequest) -> Any:
    """The document as schemathesis reads it, with the options of this run: all of it, or one operation."""
    # schemathesis 4.32 writes a test's name into a member of pytest's that is no more; it only wants it to be there.
    request.node._nodeid = request.node.nodeid
    examples = request.config.getoption("fuzz") or fuzz_world.EXAMPLES
    seed = request.config.getoption("randomly_seed", 0)
    return fuzz_world.described(examples=examples, seed=seed, only=getattr(request, "param", None))
    return described.include(operation_id=request.param)


# From a fixture, since what is asked is made up when the test runs: it takes seconds, in each process that collects.
@pytest.mark.parametrize("described", ASKED, indirect=True)
@schemathesis.pytest.from_fixture("described").parametrize()
def test_the_api_answers_as_the_document_says(case: Any, api: Target) -> None:
    api.aim(case)

    case.call_and_validate(base_url=api.url, additional_checks=CHECKS)


def test_what_an_order_links_to_is_there_and_takes_its_acts(described: Any, api: Target) -> None:
    class Order(described.as_state_machine()):  # type: ignore[misc]
        """Orders, and what their links lead to, one after the other."""

        scenarios = count(1)

        def setup(self) -> None:
            super().setup()
            self.prefix = f"{next(self.scenarios)}-"

        def before_call(self, case: Any) -> None:
            # What an earlier scenario has stored must not answer this one: the same steps are to give the same.
            key = case.headers.get("Idempotency-Key")
            if faults_of(key, KEY) == []:
                case.headers["Idempotency-Key"] = self.prefix + key[: 255 - len(self.prefix)]

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            return {"base_url": api.url}

        def validate_response(self, response: Any, case: Any, additional_checks: Any = None, **more: Any) -> None:
            super().validate_response(response, case, additional_checks=CHECKS, **more)

    order: type[APIStateMachine] = hypothesis.seed(described.config.seed)(Order)
    order.run(
        settings=hypothesis.settings(
            max_examples=described.config.generation.max_examples,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(hypothesis.HealthCheck),
            phases=[hypothesis.Phase.generate],  # what is stored cannot be taken back: nothing shrinks
            database=None,
        )
    )
