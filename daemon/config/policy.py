"""The section `policy`: what may be paid at all, how much of it, and what a second person must agree to."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, model_validator

from daemon.config.echo import describe
from daemon.config.fields import EvmAddress, ListOf, Name, Section, setting
from daemon.config.secrets import refusal
from daemon.payouts.amounts import form_problem

LONGEST_WINDOW_S = 31 * 86_400.0
_QUOTED = 'Amounts are in quotes, in units of the asset: "10000" or "0.5".'


def _amount(value: object) -> object:
    """A decimal string, or nothing. How many decimals its asset has is known to the chains alone."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise refusal(describe(value, "amount"), "a decimal string", _QUOTED)
    problem = form_problem(value)
    if problem is not None:
        raise refusal(describe(value, "amount"), problem.removeprefix("expected "), _QUOTED)
    return value


def _amount_or_zero(value: object) -> object:
    if isinstance(value, str) and re.fullmatch(r"0(\.0+)?", value):
        return "0"
    if value is None:
        raise refusal("nothing", "a decimal string", _QUOTED)
    return _amount(value)


class LimitConfig(Section):
    """At most so much, or so many, within any stretch of `window_s` seconds; in one asset, over all chains."""

    scope: Literal["destination", "wallet", "account", "all"] = setting(
        reason="What is counted together: each destination, each wallet, each account by itself, or everything."
    )
    asset: Name = setting(reason="An asset of any chain; it is counted over all chains that have it.")
    window_s: float = setting(
        unit="seconds", ge=1, le=LONGEST_WINDOW_S, reason="It slides: what is older than this counts no more."
    )
    amount: Annotated[str | None, BeforeValidator(_amount)] = setting(
        None, unit="of the asset", reason="The most in one window. Null: any amount, and `count` must be there."
    )
    count: int | None = setting(
        None, unit="payouts", ge=1, le=1_000_000_000, reason="The most payouts in one window. Null: any number."
    )
    on_exceed: Literal["refuse", "wait"] = setting(
        "refuse",
        reason="`refuse`: an order above it is answered 422, by what was accepted in the window. `wait`: it is "
        "accepted and waits to be signed. While signing, every limit is looked at again, by what was signed in the "
        "window, and what exceeds it waits. An order that names no wallet meets the limit of a wallet only there.",
    )

    @model_validator(mode="after")
    def _bounds_something(self) -> LimitConfig:
        if self.amount is None and self.count is None:
            raise refusal("neither amount nor count", "at least one of them")
        return self


class ApprovalConfig(Section):
    """Payouts that wait until somebody with the role `approve`, who did not order them, agrees."""

    asset: Name = setting(reason="An asset of any chain; it is counted over all chains that have it.")
    above: Annotated[str, BeforeValidator(_amount_or_zero)] = setting(
        unit="of the asset", reason='What is above this needs a second person; "0": every payout.'
    )
    window_s: float = setting(
        86_400.0,
        unit="seconds",
        ge=1,
        le=LONGEST_WINDOW_S,
        reason="An order counts with everything that was accepted for its destination in this window, so that small "
        "pieces do not slip below.",
    )


class PolicyConfig(Section):
    """What may be paid at all. Sweeps to our own wallets are outside limits and approvals."""

    limits: ListOf[LimitConfig] = setting((), reason="Amounts and counts in sliding windows.")
    approval: ListOf[ApprovalConfig] = setting((), reason="What a second person must agree to.")
    allow: ListOf[EvmAddress] = setting(
        (),
        reason="The only destinations that are paid. Empty: all. Looked at when an order comes, and again before it "
        "is signed.",
    )
    block: ListOf[EvmAddress] = setting(
        (), reason="Destinations that are never paid. What was accepted before goes to review instead of being signed."
    )
