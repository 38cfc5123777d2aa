"""Who asks, and what they may do: bearer tokens, their roles, their accounts, their rate."""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from daemon.api.problems import Problem
from daemon.store.orders import TREASURY

ROUNDING = 1e-9  #: of levels that are sums of fractions: who waits as long as was said is let in
TOKEN_MOST = 1024  #: characters of a bearer token; longer ones are nobody's


class Role(StrEnum):
    """What a token may do."""

    READ = "read"
    SUBMIT = "submit"
    OPERATE = "operate"
    TREASURY = "treasury"
    APPROVE = "approve"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiToken:
    """A caller. `digest` is the SHA-256 of its token; the token itself is kept nowhere.

    `account` is meant when a request names none. `accounts` are those it may act for; None: all.
    """

    name: str
    digest: bytes
    roles: frozenset[Role]
    account: str | None = None
    accounts: frozenset[str] | None = frozenset()
    rate_per_s: float | None = None

    @classmethod
    def digest_of(cls, token: str) -> bytes:
        """What `digest` holds for this token."""
        return hashlib.sha256(token.encode()).digest()

    def may(self, role: Role) -> bool:
        """Whether this caller has the role, by itself or as an admin."""
        return role in self.roles or Role.ADMIN in self.roles

    def may_use(self, account: str) -> bool:
        """Whether this caller may act for, and look into, this account. Sweeps are every treasurer's."""
        if account == TREASURY and self.may(Role.TREASURY):
            return True
        return self.accounts is None or account == self.account or account in self.accounts

    @property
    def visible(self) -> tuple[str, ...] | None:
        """The accounts whose payouts this caller may see; None: all."""
        if self.accounts is None:
            return None
        own = {self.account} if self.account is not None else set()
        swept = {TREASURY} if self.may(Role.TREASURY) else set()
        return tuple(sorted(self.accounts | own | swept))

    def require(self, role: Role) -> None:
        """Raise Problem 403 unless this caller has the role."""
        if not self.may(role):
            raise Problem("forbidden", f"this needs the role {role.value}, which token {self.name} does not have")

    def require_account(self, account: str) -> None:
        """Raise Problem 403 unless this caller may act for the account."""
        if not self.may_use(account):
            raise Problem("forbidden", f"token {self.name} may not act for account {account}")


class Gatekeeper:
    """Finds the caller of a bearer token, and lets each through at its rate."""

    def __init__(self, tokens: Sequence[ApiToken], monotonic: Callable[[], float]) -> None:
        """`monotonic` gives seconds that never go back."""
        self._tokens = tuple(tokens)
        self._monotonic = monotonic
        self._levels: dict[str, tuple[float, float]] = {}

    def caller(self, authorization: str | None) -> ApiToken:
        """Whose token it is. Raises Problem 401 or 429."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise _unauthenticated("expected the header Authorization: Bearer TOKEN")
        digest = hashlib.sha256(token.strip()[:TOKEN_MOST].encode("utf-8", "surrogateescape")).digest()
        found: ApiToken | None = None
        for one in self._tokens:  # all of them, always: the time it takes tells nothing about any
            if hmac.compare_digest(one.digest, digest):
                found = one
        if found is None or len(token) > TOKEN_MOST:
            raise _unauthenticated("this token is not known here")
        self._count(found)
        return found

    def charge(self, token: ApiToken, more: int) -> None:
        """Take `more` from the token's bucket for a request that holds several, and let it go below empty.

        So what is larger than the bucket is possible too: the next request waits until the bucket has recovered.
        """
        if token.rate_per_s is not None:
            self._levels[token.name] = self._level(token) - more, self._monotonic()

    def _count(self, token: ApiToken) -> None:
        """Take one from the token's bucket, which holds one second's worth, at least one. Raises Problem 429."""
        if token.rate_per_s is None:
            return
        level = self._level(token)
        if level < 1.0 - ROUNDING:
            wait_s = math.ceil((1.0 - level) / token.rate_per_s)
            raise Problem(
                "rate_limited",
                f"token {token.name} may ask {token.rate_per_s:g} times a second; each payout of a batch counts",
                headers={"Retry-After": str(max(1, wait_s))},
            )
        self._levels[token.name] = level - 1.0, self._monotonic()

    def _level(self, token: ApiToken) -> float:
        """What the token's bucket holds now."""
        assert token.rate_per_s is not None
        now, most = self._monotonic(), max(1.0, token.rate_per_s)
        level, since = self._levels.get(token.name, (most, now))
        return min(most, level + (now - since) * token.rate_per_s)


def _unauthenticated(detail: str) -> Problem:
    return Problem("unauthenticated", detail, headers={"WWW-Authenticate": "Bearer"})
