"""Who may use which route: the one table of roles. Handlers ask by it, and a test walks every route with every role.

A route that is not in it answers nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from daemon.api.auth import Role
from daemon.store.payout_views import API

Roles: TypeAlias = "frozenset[Role] | None"  #: any of them is enough; None: no token is asked for

_READ, _SUBMIT, _OPERATE, _TREASURY, _APPROVE = (
    frozenset({role}) for role in (Role.READ, Role.SUBMIT, Role.OPERATE, Role.TREASURY, Role.APPROVE)
)

_OPEN: Mapping[tuple[str, str], Roles] = dict.fromkeys(
    [("GET", f"/{path}") for path in ("livez", "readyz", "health", "metrics", "openapi.json")]
)

#: Below /payouts, and below its other name, /withdrawals.
_PAYOUTS: Mapping[tuple[str, str], Roles] = {
    ("POST", ""): _SUBMIT | _TREASURY,  # treasury: sweeps, and nothing else
    ("POST", "/batch"): _SUBMIT | _TREASURY,  # the same, for each order of it
    ("GET", ""): _READ,
    ("GET", "/{id}"): _READ,
    ("GET", "/{id}/attempts"): _READ,
    ("GET", "/{id}/transfers"): _READ,
    ("GET", "/{id}/ledger"): _READ,
    ("GET", "/{id}/events"): _READ,
    ("GET", "/{id}/proof"): _READ,
    ("POST", "/{id}/cancel"): _OPERATE,
    ("POST", "/{id}/hold"): _OPERATE,
    ("POST", "/{id}/release-review"): _TREASURY,
    ("POST", "/{id}/retry"): _TREASURY | _SUBMIT,  # submit: only what was refused when it was ordered
    ("POST", "/{id}/close"): _TREASURY,
    ("POST", "/{id}/replace"): _OPERATE,
    ("POST", "/{id}/resolve"): _TREASURY,
    ("POST", "/{id}/approve"): _APPROVE,
    ("POST", "/{id}/reject"): _APPROVE,
}

_REST: Mapping[tuple[str, str], Roles] = {
    ("POST", "/accounts/{account}/credits"): _TREASURY,
    ("POST", "/accounts/{account}/debits"): _TREASURY,
    ("GET", "/accounts/{account}/balances"): _READ,
    ("GET", "/accounts/{account}/statement"): _READ,
    ("GET", "/wallets"): _READ,
    ("POST", "/wallets/{name}/pause"): _OPERATE,
    ("POST", "/wallets/{name}/resume"): _TREASURY,
    ("GET", "/transfers"): _READ,
    ("GET", "/incidents"): _READ,
    ("GET", "/incidents/{id}"): _READ,
    ("POST", "/incidents/{id}/ack"): _OPERATE,
    ("POST", "/incidents/{id}/notes"): _OPERATE,
    ("POST", "/incidents/{id}/resolve"): _OPERATE,
}

#: By method and path as it is written in the routes. An admin has every role.
RIGHTS: Mapping[tuple[str, str], Roles] = {
    **_OPEN,
    **{
        (method, f"{API}/{name}{path}"): roles
        for name in ("payouts", "withdrawals")
        for (method, path), roles in _PAYOUTS.items()
    },
    **{(method, f"{API}{path}"): roles for (method, path), roles in _REST.items()},
}


def rights_of(method: str, path: str) -> Roles:
    """The roles of which one is needed; HEAD asks as GET does. Raises LookupError for a route without an entry."""
    asked = "GET" if method == "HEAD" else method
    if (asked, path) not in RIGHTS:
        raise LookupError(f"daemon/api/rights.py does not say who may use {asked} {path}")
    return RIGHTS[asked, path]
