"""What /health, /readyz and /livez say, from observations that somebody else made. Pure.

Only what makes waiting dangerous is `fail`: a database that is down or frozen, a loop that stopped, a
chain that nobody answers for, blocks unread for too long. A node that is down while another answers is
`warn`: intake and re-sending go on. What is not known is `warn`, never `pass`.
Source: draft-inadarei-api-health-check, application/health+json.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

MEDIA_TYPE = "application/health+json"
NODE_SILENT_S = 60.0  #: all nodes of a chain silent for longer is a failure
CLOCK_SKEW_S = 2.0  #: signatures of webhooks bear minutes, leases and block ages only seconds


class Status(StrEnum):
    """The three words of the format, from best to worst."""

    PASS = "pass"  # noqa: S105  # a status, not a password
    WARN = "warn"
    FAIL = "fail"

    @property
    def rank(self) -> int:
        """Order: higher is worse."""
        return list(Status).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """What one cheap statement showed. `trouble` says why, when it is down; it is shown to anybody."""

    up: bool
    writable: bool = True
    migrated: bool = True
    answer_s: float | None = None
    trouble: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """One loop. `interval_s` is the longest time between two good rounds that is in order (pause and time-out).

    `age_s` is the time since the last good round, or since the loop's start when there was none.
    """

    name: str
    running: bool
    interval_s: float
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node. `silent_s` is the time since its last answer, or since the start when there was none."""

    name: str
    silent_s: float
    head_lag: int | None = None
    head_lag_limit: int = 10
    trouble: str | None = None  #: Why its answers are not used, as a wrong chain id.


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """One chain. None means that it is not known now.

    `unread_s` is for how long its oldest unread block has been known, 0 when all were read.
    """

    name: str
    nodes: tuple[Node, ...]
    head_age_s: float | None
    head_age_limit_s: float
    unread_blocks: int | None
    unread_s: float | None
    unread_limit_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Oldest:
    """The oldest payout of a state. `age_s` None means not known, 0 none there."""

    age_s: float | None
    limit_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that /health is made from, observed at `at`."""

    at: datetime
    database: Database
    frozen: str | None = None  #: Why the deployment is frozen, when it is.
    loops: tuple[Loop, ...] = ()
    chains: tuple[Chain, ...] = ()
    outbox_oldest_s: float | None = 0.0  #: None: not known.
    outbox_limit_s: float = 120.0
    outbox_refused: int = 0  #: Deliveries that a receiver refused and nobody has looked at.
    oldest: Mapping[str, Oldest] = field(default_factory=dict)  #: By status.
    clock_skew_s: float | None = None  #: Database's clock minus ours.
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """An answer to a health request: document, HTTP status."""

    status: Status
    document: dict[str, Any]

    @property
    def http_status(self) -> int:
        """503 only on fail: a load balancer must not take a daemon away because one node is slow."""
        return 503 if self.status is Status.FAIL else 200


@dataclass(frozen=True, slots=True)
class Check:
    """One entry of `checks`."""

    status: Status
    observed: float | int | str | None = None
    unit: str | None = None
    output: str | None = None

    def entry(self, at: datetime) -> dict[str, Any]:
        """As the format wants it; `output` only where something is wrong."""
        value = round(self.observed, 3) if isinstance(self.observed, float) else self.observed
        shown = {
            "status": self.status.value,
            "observedValue": value,
            "observedUnit": self.unit,
            "time": _rfc3339(at),
            "output": self.output if self.status is not Status.PASS else None,
        }
        return {name: one for name, one in shown.items() if one is not None}


def health(facts: Facts) -> Report:
    """The document of /health."""
    checks = {"database": _database(facts.database)}
    if facts.database.up:
        checks["deployment"] = _deployment(facts)
    for loop in facts.loops:
        checks[f"loop:{loop.name}"] = _loop(loop)
    for chain in facts.chains:
        checks[f"chain:{chain.name}:head_age"] = _head_age(chain)
        checks[f"chain:{chain.name}:scan_gap"] = _scan_gap(chain)
        for node in chain.nodes:
            checks[f"chain:{chain.name}:node:{node.name}"] = _node(node)
    checks["outbox:oldest"] = _outbox(facts)
    for status, oldest in facts.oldest.items():
        checks[f"payouts:oldest_{status}"] = _oldest(status, oldest)
    checks["clock:skew"] = _clock(facts.clock_skew_s)
    return _report(checks, facts.at, facts.version)


def readiness(database: Database, *, draining: bool, at: datetime) -> Report:
    """The document of /readyz: whether a request would be taken now. Nodes do not matter."""
    checks = {"database": _database(database)}
    if draining:
        checks["daemon"] = Check(Status.FAIL, "draining", None, "the daemon is shutting down and takes no new requests")
    return _report(checks, at, None)


def liveness(at: datetime) -> Report:
    """The document of /livez. Whoever could call this has a turning event loop, and nothing else is touched."""
    return _report({}, at, None)


def _report(checks: Mapping[str, Check], at: datetime, version: str | None) -> Report:
    status = _worst(check.status for check in checks.values())
    failing = [f"{name}: {check.output}" for name, check in checks.items() if check.status is Status.FAIL]
    document: dict[str, Any] = {"status": status.value, "description": "payoutd"}
    if version is not None:
        document["releaseId"] = version
    if failing:
        document["output"] = "; ".join(failing)
    document["checks"] = {name: [check.entry(at)] for name, check in checks.items()}
    return Report(status, document)


def _worst(statuses: Iterable[Status]) -> Status:
    return max(statuses, key=lambda status: status.rank, default=Status.PASS)


def _database(database: Database) -> Check:
    if not database.up:
        return Check(Status.FAIL, "down", None, database.trouble or "the database does not answer")
    if not database.writable:
        return Check(
            Status.FAIL, "read-only", None, "the database takes no writes: a standby, or a failover is going on"
        )
    if not database.migrated:
        return Check(Status.FAIL, "not migrated", None, "migrations are missing: run payoutd migrate")
    return Check(Status.PASS, database.answer_s, "s" if database.answer_s is not None else None)


def _deployment(facts: Facts) -> Check:
    if facts.frozen is not None:
        return Check(Status.FAIL, "frozen", None, f"nothing is paid, no order is taken in: {facts.frozen}")
    return Check(Status.PASS)


def _loop(loop: Loop) -> Check:
    """Dead when its task ended, or when two intervals passed; late after one."""
    if not loop.running:
        return Check(Status.FAIL, loop.age_s, "s", "the loop has ended")
    if loop.age_s > 2 * loop.interval_s:
        return Check(
            Status.FAIL, loop.age_s, "s", f"no good round for {loop.age_s:.0f} s, expected every {loop.interval_s:g} s"
        )
    if loop.age_s > loop.interval_s:
        return Check(Status.WARN, loop.age_s, "s", f"late: expected a good round every {loop.interval_s:g} s")
    return Check(Status.PASS, loop.age_s, "s")


def _head_age(chain: Chain) -> Check:
    """Carries the failure of the whole chain: each single node is only a warning."""
    if chain.nodes and all(node.silent_s > NODE_SILENT_S for node in chain.nodes):
        shortest = min(node.silent_s for node in chain.nodes)
        return Check(
            Status.FAIL, chain.head_age_s, "s", f"all {len(chain.nodes)} nodes are silent for {shortest:.0f} s"
        )
    if chain.head_age_s is None:
        return Check(Status.WARN, None, None, "no head was seen yet")
    if chain.head_age_s > chain.head_age_limit_s:
        return Check(
            Status.WARN, chain.head_age_s, "s", f"the head stands still, expected within {chain.head_age_limit_s:g} s"
        )
    return Check(Status.PASS, chain.head_age_s, "s")


def _scan_gap(chain: Chain) -> Check:
    if chain.unread_s is None or chain.unread_blocks is None:
        return Check(Status.WARN, None, None, "not known")
    if chain.unread_s > chain.unread_limit_s:
        unread = f"blocks unread for {chain.unread_s:.0f} s, the limit is {chain.unread_limit_s:g} s"
        return Check(Status.FAIL, chain.unread_blocks, "blocks", unread)
    return Check(Status.PASS, chain.unread_blocks, "blocks")


def _node(node: Node) -> Check:
    if node.trouble is not None:
        return Check(Status.WARN, node.head_lag, "blocks behind", node.trouble)
    if node.silent_s > NODE_SILENT_S:
        return Check(Status.WARN, node.silent_s, "s", f"no answer for {node.silent_s:.0f} s")
    if node.head_lag is not None and node.head_lag > node.head_lag_limit:
        return Check(
            Status.WARN, node.head_lag, "blocks behind", f"more than {node.head_lag_limit} behind the best node"
        )
    return Check(Status.PASS, node.head_lag, "blocks behind" if node.head_lag is not None else None)


def _outbox(facts: Facts) -> Check:
    age = facts.outbox_oldest_s
    if age is None:
        return Check(Status.WARN, None, None, "not known")
    if facts.outbox_refused:
        return Check(
            Status.WARN, age, "s", f"{facts.outbox_refused} alerts were refused by their receiver: see the log"
        )
    if age > facts.outbox_limit_s:
        return Check(Status.WARN, age, "s", f"an alert waits longer than {facts.outbox_limit_s:g} s")
    return Check(Status.PASS, age, "s")


def _oldest(status: str, oldest: Oldest) -> Check:
    if oldest.age_s is None:
        return Check(Status.WARN, None, None, "not known")
    if oldest.age_s > oldest.limit_s:
        return Check(Status.WARN, oldest.age_s, "s", f"a payout is {status} for longer than {oldest.limit_s:g} s")
    return Check(Status.PASS, oldest.age_s, "s")


def _clock(skew_s: float | None) -> Check:
    if skew_s is None:
        return Check(Status.WARN, None, None, "not known")
    if abs(skew_s) > CLOCK_SKEW_S:
        return Check(Status.WARN, skew_s, "s", f"our clock and the database's differ by more than {CLOCK_SKEW_S:g} s")
    return Check(Status.PASS, skew_s, "s")


def _rfc3339(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
