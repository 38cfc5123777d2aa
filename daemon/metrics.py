"""Metrics: the table of everything that /metrics shows, and the registry that holds it.

Every label is a closed set. A value outside its set is counted under "other" and never becomes a
series: an unlisted token's address must not grow the database of whoever scrapes us.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

PREFIX = "payoutd_"
OTHER = "other"
CONTENT_TYPE = CONTENT_TYPE_LATEST

STAGE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 1800, 3600, 14400)
DETECTION_BUCKETS = (0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 900, 3600)


class Kind(Enum):
    """What Prometheus calls the metric's type."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Source(Enum):
    """Who sets it. Several daemons may run on one database, and only one may show the database's figures."""

    PROCESS = "process"
    DATABASE = "database"


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table. `labels` are names, each `label` or `label=set` where the set's name differs."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    source: Source = Source.PROCESS
    buckets: tuple[float, ...] = ()

    @property
    def label_names(self) -> tuple[str, ...]:
        """The labels as Prometheus sees them."""
        return tuple(label.partition("=")[0] for label in self.labels)

    @property
    def set_names(self) -> tuple[str, ...]:
        """The closed set of each label."""
        return tuple(label.rpartition("=")[2] for label in self.labels)


COUNTER, GAUGE, HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
DATABASE = Source.DATABASE

TABLE: tuple[Metric, ...] = (
    Metric("payouts", GAUGE, "Payouts by state.", ("chain", "asset", "status"), DATABASE),
    Metric("payouts_in_review", GAUGE, "Payouts that wait for a person.", ("chain", "reason=review"), DATABASE),
    Metric("payouts_waiting", GAUGE, "Payouts that wait by themselves.", ("chain", "reason=waiting"), DATABASE),
    Metric("payout_transitions_total", COUNTER, "Steps of payouts.", ("chain", "source", "target")),
    Metric("payout_stage_seconds", HISTOGRAM, "Time per stage.", ("chain", "stage"), buckets=STAGE_BUCKETS),
    Metric("oldest_payout_seconds", GAUGE, "Age of the oldest payout in a state.", ("chain", "status"), DATABASE),
    Metric("idempotent_replays_total", COUNTER, "Requests answered with a stored payout."),
    Metric("idempotency_conflicts_total", COUNTER, "Requests that reused a key for something else."),
    Metric("intake_refusals_total", COUNTER, "Refused requests.", ("code",)),
    Metric("send_answers_total", COUNTER, "Answers to sends; unknown is no answer.", ("chain", "answer")),
    Metric("rebroadcasts_total", COUNTER, "Stored bytes sent again.", ("chain",)),
    Metric("replacements_total", COUNTER, "Attempts with higher fees.", ("chain",)),
    Metric("cancels_total", COUNTER, "Cancel attempts.", ("chain",)),
    Metric("unclassified_answers_total", COUNTER, "Node answers that no pattern knows.", ("chain",)),
    Metric("transfers_observed_total", COUNTER, "Transfers seen leaving a wallet.", ("chain", "result=transfer")),
    Metric("detection_seconds", HISTOGRAM, "Block time to incident.", ("chain",), buckets=DETECTION_BUCKETS),
    Metric("incidents_open", GAUGE, "Incidents not resolved.", ("kind=incident", "severity"), DATABASE),
    Metric("incidents_opened_total", COUNTER, "Incidents opened.", ("kind=incident",)),
    Metric("incidents_resolved_total", COUNTER, "Incidents resolved.", ("kind=incident",)),
    Metric("alert_deliveries_total", COUNTER, "Tries to tell a receiver.", ("receiver", "result=delivery")),
    Metric("alert_outbox_oldest_seconds", GAUGE, "Age of the oldest alert not delivered.", (), DATABASE),
    Metric("chain_head", GAUGE, "Newest block known.", ("chain=watched",), DATABASE),
    Metric("chain_scanned", GAUGE, "Newest block up to which all were read.", ("chain=watched",), DATABASE),
    Metric("chain_finalized", GAUGE, "Newest final block.", ("chain=watched",), DATABASE),
    Metric("chain_event_age_seconds", GAUGE, "Age of the newest block read.", ("chain=watched",), DATABASE),
    Metric("reorgs_total", COUNTER, "Reorganisations seen.", ("chain=watched",)),
    Metric("node_disagreements_total", COUNTER, "Contradictions between nodes.", ("chain=watched",)),
    Metric("backfilled_blocks_total", COUNTER, "Blocks read by scan after a gap.", ("chain=watched",)),
    Metric("node_up", GAUGE, "1 while the node answers.", ("chain=watched", "node")),
    Metric("node_head_lag", GAUGE, "Blocks behind the best node.", ("chain=watched", "node")),
    Metric("provider_requests_total", COUNTER, "Requests to providers.", ("provider", "outcome")),
    Metric("wallet_balance", GAUGE, "On chain, in units of the asset.", ("wallet", "asset"), DATABASE),
    Metric("wallet_reserved", GAUGE, "Reserved for payouts of the wallet.", ("wallet", "asset"), DATABASE),
    Metric("live_signed_value", GAUGE, "Signed and still able to land.", ("wallet", "asset"), DATABASE),
    Metric("wallet_nonce", GAUGE, "Next nonce.", ("wallet", "source=nonce_source"), DATABASE),
    Metric("wallet_paused", GAUGE, "1 while no token is bound.", ("wallet",), DATABASE),
    Metric("ledger_difference", GAUGE, "Chain minus book; below 0 is an error.", ("wallet", "asset"), DATABASE),
    Metric("reservations_unexplained", GAUGE, "Reserve and open payouts apart.", ("asset=any_asset",), DATABASE),
    Metric("ledger_entries_total", COUNTER, "Ledger entries written.", ("kind=entry",)),
    Metric("ledger_duplicate_refusals_total", COUNTER, "Entries refused as a second one.", ("kind=entry",)),
    Metric("loop_last_success_timestamp_seconds", GAUGE, "When a loop last ended a round well.", ("loop",)),
    Metric("loop_errors_total", COUNTER, "Rounds that failed.", ("loop",)),
    Metric("lease_losses_total", COUNTER, "Leases lost to another daemon."),
    Metric("fence_rejections_total", COUNTER, "Conditional writes that changed no row."),
)

STATUSES = ("created", "signed", "broadcast", "confirmed", "failed")
FIXED_SETS: Mapping[str, tuple[str, ...]] = {
    "status": STATUSES,
    "stage": ("intake", "sign", "broadcast", "confirm", "total"),
    "review": (
        "near_duplicate", "maybe_already_paid", "approval", "unknown_outcome", "foreign_nonce", "no_effect",
        "key_window", "reverted", "reorged", "reversed", "internal_error", "operator",
    ),
    "waiting": ("limit", "funds", "wallet_paused", "in_flight_cap", "fee_cap", "node", "reading", "frozen"),
    "code": (
        "idempotency_key_missing", "idempotency_key_invalid", "invalid_json", "invalid_request", "unauthenticated",
        "forbidden", "four_eyes_required", "not_found", "method_not_allowed", "too_large", "unsupported_media_type",
        "request_timeout", "headers_too_large", "rate_limited", "unavailable", "internal_error", "invalid_state",
        "evidence_contradicts", "not_proved",
        "idempotency_key_reused", "asset_unavailable", "insufficient_funds", "limit_exceeded", "destination_refused",
    ),
    "answer": ("accepted", "investigate", "same_bytes", "replace", "hold", "refused", "unknown"),
    "transfer": ("matched", "orphan", "duplicate", "mismatch", "late", "spam"),
    "incident": (
        "orphan_transfer", "duplicate_transfer", "transfer_mismatch", "missing_transfer", "near_duplicate",
        "foreign_nonce", "db_behind_chain", "late_success", "reorged_payout", "stuck_payout", "nonce_gap",
        "fee_cap_blocking", "ledger_mismatch", "coverage_gap", "finality_stalled", "node_disagreement",
        "wallet_underfunded", "allowance_granted", "provider_mismatch", "review",
    ),
    "severity": ("warning", "error", "critical"),
    "delivery": ("delivered", "retried", "refused", "rolled_up"),
    "outcome": ("done", "refused", "unknown"),
    "nonce_source": ("chain", "database"),
    "entry": ("credit", "debit", "reserve", "settle", "release", "reverse", "fee", "loss", "suspense"),
}  # fmt: skip
#: A step may skip, and never goes back.
STEPS = tuple((s, t) for s, t in product(STATUSES[:3], STATUSES[1:]) if STATUSES.index(t) > STATUSES.index(s))


class Metrics:
    """The values, on a registry of their own. Every known label set stands at 0 from `prepare` on.

    Labels are given by name. Unknown metrics and missing labels are a programmer's KeyError; an
    unknown label value is counted as "other".
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._known: dict[str, set[tuple[str, ...]]] = {}
        self._kinds: dict[str, Metric] = {metric.name: metric for metric in TABLE}
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        for metric in TABLE:
            self._register(metric)
            self._known[metric.name] = set()

    def prepare(
        self,
        *,
        chains: Mapping[str, Collection[str]],
        wallets: Mapping[str, Collection[str]],
        nodes: Mapping[str, Collection[str]],
        providers: Collection[str] = (),
        receivers: Collection[str] = (),
        loops: Collection[str] = (),
    ) -> None:
        """Create every label set at 0. A counter first scraped at 1 is missed by `increase`.

        `chains` and `wallets` name the assets of each; `chains` has the providers' routes too, and
        `nodes` the nodes of each chain that is watched. May be called again: sets only grow.
        """
        pairs = {
            ("chain", "asset"): _pairs(chains),
            ("wallet", "asset"): _pairs(wallets),
            ("watched", "node"): _pairs(nodes),
            ("source", "target"): STEPS,
        }
        sets = {
            **FIXED_SETS,
            "chain": tuple(chains),
            "wallet": tuple(wallets),
            "watched": tuple(nodes),
            "provider": tuple(providers),
            "receiver": tuple(receivers),
            "loop": tuple(loops),
            "any_asset": tuple({asset: None for _, asset in (*_pairs(chains), *_pairs(wallets))}),
        }
        for metric in TABLE:
            for values in _combinations(metric.set_names, sets, pairs):
                self._known[metric.name].add(values)
                self._touch(metric, values)

    def add(self, name: str, amount: float = 1, /, **labels: str) -> None:
        """Count `amount` more on a counter."""
        counter = self._counters[name]
        values = self._values(name, labels)
        (counter.labels(*values) if values else counter).inc(amount)

    def set(self, name: str, value: float, /, **labels: str) -> None:
        """Set a gauge."""
        gauge = self._gauges[name]
        values = self._values(name, labels)
        (gauge.labels(*values) if values else gauge).set(value)

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Put one duration into a histogram. Negative ones (two clocks were compared) count as 0."""
        histogram = self._histograms[name]
        values = self._values(name, labels)
        (histogram.labels(*values) if values else histogram).observe(max(0.0, seconds))

    def replace(self, name: str, values: Mapping[tuple[str, ...], float]) -> None:
        """Set all of a gauge at once: label values in the table's order; those not named go to 0.

        Several rows that fall to "other" are added up.
        """
        metric = self._kinds[name]
        fresh: dict[tuple[str, ...], float] = dict.fromkeys(self._known[name] if metric.labels else [()], 0.0)
        for labels, value in values.items():
            key = self._values(name, dict(zip(metric.label_names, labels, strict=True)))
            fresh[key] = fresh.get(key, 0.0) + value
        gauge = self._gauges[name]
        if metric.labels:
            gauge.clear()
        for key, value in fresh.items():
            (gauge.labels(*key) if key else gauge).set(value)

    def forget_database(self) -> None:
        """Put every gauge that is read from the database to 0: another daemon shows them from now on."""
        for metric in TABLE:
            if metric.source is DATABASE:
                self.replace(metric.name, {})

    def value(self, name: str, /, **labels: str) -> float:
        """What a counter or gauge shows now; of a histogram, how many it has seen."""
        metric = self._kinds[name]
        suffix = "_count" if metric.kind is HISTOGRAM else ""
        names = dict(zip(metric.label_names, self._values(name, labels), strict=True))
        return self._registry.get_sample_value(f"{PREFIX}{name}{suffix}", names) or 0.0

    def render(self) -> bytes:
        """Everything in the Prometheus text format; its media type is CONTENT_TYPE."""
        return generate_latest(_WithoutBirths(self._registry))

    def _register(self, metric: Metric) -> None:
        name, labels = PREFIX + metric.name, metric.label_names
        if metric.kind is COUNTER:
            self._counters[metric.name] = Counter(name, metric.help, labels, registry=self._registry)
        elif metric.kind is GAUGE:
            self._gauges[metric.name] = Gauge(name, metric.help, labels, registry=self._registry)
        else:
            self._histograms[metric.name] = Histogram(
                name, metric.help, labels, registry=self._registry, buckets=metric.buckets
            )

    def _touch(self, metric: Metric, values: tuple[str, ...]) -> None:
        held = {**self._counters, **self._gauges, **self._histograms}
        if values:
            held[metric.name].labels(*values)

    def _values(self, name: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        """The label values in the table's order, if this set is known; else with what is foreign as "other"."""
        names = self._kinds[name].label_names
        if len(labels) != len(names):
            raise KeyError(f"{name} takes the labels {names}, not {tuple(labels)}")
        values = tuple(labels[one] for one in names)
        known = self._known[name]
        if values in known or not names:
            return values
        columns = [{row[column] for row in known} for column in range(len(names))]
        kept = tuple(value if value in column else OTHER for value, column in zip(values, columns, strict=True))
        return kept if kept != values else (OTHER,) * len(names)  # each value known, the combination not


class _WithoutBirths(Collector):
    """A registry without the `_created` series, which nobody asks and which make every counter two series.

    The library's own switch for them is one for the whole process.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Family]:
        """The registry's families, less one sample each."""
        for family in self._registry.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family


def _pairs(members: Mapping[str, Collection[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((owner, member) for owner, owned in members.items() for member in owned)


def _combinations(
    names: tuple[str, ...],
    sets: Mapping[str, tuple[str, ...]],
    pairs: Mapping[tuple[str, str], tuple[tuple[str, str], ...]],
) -> Iterator[tuple[str, ...]]:
    """Every combination of values; two neighbours that belong together (a chain and its assets) vary as one."""
    columns: list[tuple[tuple[str, ...], ...]] = []
    rest = list(names)
    while rest:
        if tuple(rest[:2]) in pairs:
            columns.append(pairs[rest[0], rest[1]])
            rest = rest[2:]
        else:
            columns.append(tuple((value,) for value in sets[rest[0]]))
            rest = rest[1:]
    for row in product(*columns):
        yield tuple(value for part in row for value in part)
