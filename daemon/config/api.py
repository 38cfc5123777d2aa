"""The sections `http` and `api_tokens`: where the API listens and who may do what."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BeforeValidator

from daemon.config.echo import describe
from daemon.config.fields import Listen, ListenOn, ListOf, Name, Section, setting
from daemon.config.secrets import Secret, refusal

Role = Literal["read", "submit", "operate", "treasury", "approve", "admin"]
ROLES: frozenset[str] = frozenset(get_args(Role))
SHORTEST_TOKEN = 16  #: characters; less can be guessed over the network


class HttpConfig(Section):
    """Where the API, health and metrics are served; there is no console yet. Plain HTTP: TLS is a proxy's work."""

    listen: ListenOn = setting(Listen("127.0.0.1", 8080), reason="API, health and metrics.")
    metrics_listen: ListenOn | None = setting(
        None, reason="A second listener for metrics and health alone, for a scraper that must not reach the API."
    )


def _bearer(token: Secret) -> Secret:
    text = token.reveal()
    if len(text) < SHORTEST_TOKEN:
        fix = "Make one with: openssl rand -base64 32"
        raise refusal("a shorter token", f"at least {SHORTEST_TOKEN} characters", fix)
    if not text.isascii() or " " in text:
        raise refusal("a token with spaces or letters beyond ASCII", "what can stand in an HTTP header")
    return token


def _account(value: object) -> object:
    if not isinstance(value, str) or not 1 <= len(value) <= 128 or not value.isprintable():
        raise refusal(describe(value, "account"), "1 to 128 printable characters")
    if value.startswith("house:"):
        raise refusal("a name that begins with house:", "another name; these are the system's own accounts")
    return value


Account = Annotated[str, BeforeValidator(_account)]


def _accounts(value: object) -> object:
    if value == "*":
        return ("*",)
    if not isinstance(value, list):
        raise refusal(describe(value, "accounts"), 'a list of accounts, or "*" for all')
    return tuple(value)


class ApiTokenConfig(Section):
    """Someone who may use the API."""

    name: Name = setting(reason="Stands in events and acknowledgements as the actor.")
    token: Annotated[Secret, AfterValidator(_bearer)] = setting(outside="secret", reason="The bearer token itself.")
    account: Account | None = setting(
        None,
        reason="The account that is meant when a request names none. Keys belong to it: a start with another one is "
        "refused.",
    )
    accounts: Annotated[tuple[Account, ...], BeforeValidator(_accounts)] = setting(
        (), reason='Further accounts that it may act for, or "*". Without it: its own alone; an admin: all.'
    )
    roles: ListOf[Role] = setting(
        min_length=1,
        reason="read: every GET. submit: create payouts. operate: acknowledge, notes, resolve incidents, pause, "
        "cancel, replace. treasury: credits, debits, resume, release-review, retry, close, resolve payouts, sweeps. "
        "approve: approve and reject. admin: all.",
    )
    rate_per_s: float | None = setting(
        None,
        unit="requests per second",
        gt=0,
        le=1_000_000,
        reason="More are answered 429; each payout of a batch counts. Null: no limit.",
    )

    def has(self, role: Role) -> bool:
        """May this token do what `role` allows?"""
        return role in self.roles or "admin" in self.roles

    @property
    def everywhere(self) -> bool:
        """May this token act for every account?"""
        return "*" in self.accounts or ("admin" in self.roles and not self.accounts)

    def may_use(self, account: str) -> bool:
        """May this token act for `account`?"""
        return self.everywhere or account == self.account or account in self.accounts
