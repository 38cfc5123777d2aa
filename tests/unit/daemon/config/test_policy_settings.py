"""The section `policy`: what can be written in it, what is said of what cannot, and what it means in stored terms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from daemon.config.advice import warnings_of
from daemon.config.errors import ConfigError
from daemon.config.model import Config
from daemon.payouts.policy import Limit, OnExceed, Scope, Threshold
from daemon.policing import policy_of
from daemon.store.catalog import AssetRow, Catalog, NetworkRow

Written = dict[str, Any]
LIMIT: Written = {"scope": "destination", "asset": "USDC", "window_s": 3600, "amount": "10000"}
APPROVAL: Written = {"asset": "USDC", "above": "50000"}
LINES = list[Written]


class Loads(Protocol):
    """What these tests need of the fixture."""

    folder: Path

    def load(self, change: Callable[[Written], object] = ..., *, write: bool = True) -> Config: ...


def policy(*, limits: LINES | None = None, approval: LINES | None = None) -> Callable[[Written], object]:
    """A configuration with this policy."""
    return lambda written: written["policy"].update(limits=limits or [], approval=approval or [])


def problems(setup: Loads, change: Callable[[Written], object]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        setup.load(change)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({**LIMIT, "asset": "USDX"},
         "policy.limits.0.asset: found unknown asset 'USDX'; expected one of: ETH, USDC. Did you mean USDC?"),
        ({**LIMIT, "amount": None}, "policy.limits.0: found neither amount nor count; expected at least one of them"),
        ({**LIMIT, "amount": "0.0000001"},
         "policy.limits.0.amount: found '0.0000001'; expected an amount of USDC: found 7 decimals, this asset has 6"),
        ({**LIMIT, "amount": 10000},
         "policy.limits.0.amount: found 10000; expected a decimal string. Amounts are in quotes"),
        ({**LIMIT, "amount": "1,000"}, "policy.limits.0.amount: found '1,000'; expected a decimal string such as"),
        ({**LIMIT, "amount": "0"}, "policy.limits.0.amount: found '0'; expected an amount above zero"),
        ({**LIMIT, "amount": "-5"}, "policy.limits.0.amount: found '-5'; expected a decimal string such as"),
        ({**LIMIT, "count": 0}, "policy.limits.0.count: found 0; expected at least 1 (payouts)"),
        ({**LIMIT, "count": 1.5}, "policy.limits.0.count: found 1.5; expected a whole number"),
        ({**LIMIT, "scope": "country"},
         "policy.limits.0.scope: found 'country'; expected one of: destination, wallet, account or all"),
        ({**LIMIT, "window_s": 0}, "policy.limits.0.window_s: found 0; expected at least 1"),
        ({**LIMIT, "window_s": 10**7}, "policy.limits.0.window_s: found 10000000; expected at most 2678400"),
        ({**LIMIT, "on_exceed": "shout"}, "policy.limits.0.on_exceed: found 'shout'; expected one of: refuse or wait"),
        ({**LIMIT, "wallet": "hot-1"}, "policy.limits.0.wallet: found an unknown key"),
        ({"scope": "all", "asset": "USDC", "amount": "1"}, "policy.limits.0.window_s: found nothing; expected a value"),
    ],
)  # fmt: skip
def test_a_limit_that_is_none_is_refused_with_its_path(setup: Loads, line: Written, said: str) -> None:
    found = problems(setup, policy(limits=[line]))

    assert len(found) == 1
    assert said in found[0]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({**APPROVAL, "asset": "EURC"}, "policy.approval.0.asset: found unknown asset 'EURC'"),
        ({**APPROVAL, "above": "1.0000001"}, "policy.approval.0.above: found '1.0000001'; expected an amount of USDC"),
        ({**APPROVAL, "above": None}, "policy.approval.0.above: found nothing; expected a decimal string"),
        ({**APPROVAL, "above": 5}, "policy.approval.0.above: found 5; expected a decimal string"),
        ({"asset": "USDC"}, "policy.approval.0.above: found nothing; expected a value"),
        ({**APPROVAL, "window_s": -1}, "policy.approval.0.window_s: found -1; expected at least 1"),
    ],
)
def test_a_threshold_that_is_none_is_refused_with_its_path(setup: Loads, line: Written, said: str) -> None:
    found = problems(setup, policy(approval=[line]))

    assert len(found) == 1
    assert said in found[0]


def test_what_stands_twice_is_refused_and_what_differs_is_not(setup: Loads) -> None:
    twice = [LIMIT, {**LIMIT, "asset": "usdc", "amount": "5"}]
    both = [APPROVAL, {**APPROVAL, "above": "1"}]
    different = [LIMIT, {**LIMIT, "window_s": 60}, {**LIMIT, "on_exceed": "wait"}, {**LIMIT, "scope": "all"}]

    found = problems(setup, policy(limits=twice, approval=both))
    config = setup.load(policy(limits=different, approval=[APPROVAL, {**APPROVAL, "window_s": 60}]))

    assert [line.partition(";")[0] for line in found] == [
        "policy.limits.1: found scope, asset, window_s and on_exceed of policy.limits.0 once more",
        "policy.approval.1: found asset and window_s of policy.approval.0 once more",
    ]
    assert (len(config.policy.limits), len(config.policy.approval)) == (4, 2)


def test_what_is_left_out_has_its_default(setup: Loads) -> None:
    config = setup.load(policy(limits=[{**LIMIT, "amount": None, "count": 5}], approval=[{**APPROVAL, "above": "0.0"}]))

    (limit,), (approval,) = config.policy.limits, config.policy.approval
    assert (limit.amount, limit.count, limit.on_exceed, limit.window_s) == (None, 5, "refuse", 3600.0)
    assert (approval.above, approval.window_s) == ("0", 86_400.0)


def test_an_asset_name_means_its_unit_on_all_chains_and_amounts_are_in_base_units(setup: Loads) -> None:
    usdc = AssetRow(9, "USDC", "0xusdc", 6, 4)
    names = Catalog(
        {"ethereum": NetworkRow("ethereum", "eip155:1", {"usdc": usdc}), "base": NetworkRow("base", "x", {})}, {}
    )
    config = setup.load(
        policy(
            limits=[{**LIMIT, "asset": "usdc", "count": 7, "on_exceed": "wait"}], approval=[{**APPROVAL, "above": "0"}]
        )
    )

    made = policy_of(config, names)

    assert made.terms.limits == (
        Limit(
            scope=Scope.DESTINATION,
            unit_id=4,
            asset="USDC",
            decimals=6,
            window_s=3600.0,
            amount=10_000_000_000,
            count=7,
            on_exceed=OnExceed.WAIT,
        ),
    )
    assert made.terms.approval == (Threshold(unit_id=4, above=0, window_s=86_400.0),)
    assert made.block == {"0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"}


def test_a_threshold_that_nobody_could_ever_approve_is_a_warning(setup: Loads) -> None:
    def tokens(*roles: list[str]) -> Callable[[Written], object]:
        def change(written: Written) -> None:
            policy(approval=[APPROVAL])(written)
            written["api_tokens"] = [
                {
                    "name": f"t{n}",
                    "token_env": ("BACKEND_TOKEN", "HOOK_SECRET")[n],
                    "account": "default",
                    "roles": roles[n],
                }
                for n in range(len(roles))
            ]

        return change

    def said(*roles: list[str]) -> list[str]:
        return [line for line in warnings_of(setup.load(tokens(*roles))) if line.startswith("policy")]

    assert said(["admin"]) == [
        "policy.approval: whoever orders may not approve, and there is no second token that could."
    ]
    assert said(["submit"], ["read"]) == [
        "policy.approval: no token has the role `approve`, so what is above it waits for ever."
    ]
    assert said(["submit"], ["approve"]) == []
