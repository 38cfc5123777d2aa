"""/metrics shows what dashboards and rules name: closed label sets, all of them at 0 from the start."""

from __future__ import annotations

import re
from itertools import product

import pytest

from daemon.metrics import DATABASE, FIXED_SETS, STEPS, TABLE, Kind, Metrics

ASSETS = {"ethereum": ["ETH", "USDC"], "circle-main": ["USDC"]}


@pytest.fixture
def metrics() -> Metrics:
    made = Metrics()
    made.prepare(
        chains=ASSETS,
        wallets={"hot-1": ["ETH", "USDC"], "circle-hot": ["USDC"]},
        nodes={"ethereum": ["n1", "n2"]},
        providers=["circle-main"],
        receivers=["pagerduty", "webhook"],
        loops=["sign", "send"],
    )
    return made


def series(metrics: Metrics) -> dict[str, float]:
    rows = [line for line in metrics.render().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (row.rsplit(" ", 1) for row in rows)}


def test_every_metric_of_the_table_is_rendered_under_its_name_with_its_type(metrics: Metrics) -> None:
    text = metrics.render().decode()

    for metric in TABLE:
        assert f"# TYPE payoutd_{metric.name} {metric.kind.value}\n" in text
    assert {metric.kind is Kind.COUNTER for metric in TABLE if metric.name.endswith("_total")} == {True}
    assert {metric.kind is Kind.COUNTER for metric in TABLE if not metric.name.endswith("_total")} == {False}


def test_every_label_set_stands_at_zero_before_anything_happened(metrics: Metrics) -> None:
    rows = {name: value for name, value in series(metrics).items() if name.startswith("payoutd_")}

    assert set(rows.values()) == {0.0}
    for kind, severity in product(FIXED_SETS["incident"], FIXED_SETS["severity"]):
        assert f'payoutd_incidents_open{{kind="{kind}",severity="{severity}"}}' in rows
    for receiver, result in product(["pagerduty", "webhook"], FIXED_SETS["delivery"]):
        assert f'payoutd_alert_deliveries_total{{receiver="{receiver}",result="{result}"}}' in rows
    for source, target in STEPS:
        assert f'payoutd_payout_transitions_total{{chain="ethereum",source="{source}",target="{target}"}}' in rows
    without_series = [m.name for m in TABLE if not any(row.startswith(f"payoutd_{m.name}") for row in rows)]
    assert without_series == []


def test_an_asset_is_paired_with_its_own_chain_and_a_provider_has_no_head(metrics: Metrics) -> None:
    text = metrics.render().decode()

    assert 'asset="ETH",chain="ethereum"' in text
    assert 'asset="ETH",chain="circle-main"' not in text
    assert 'payoutd_chain_head{chain="ethereum"}' in text
    assert 'payoutd_chain_head{chain="circle-main"}' not in text


def test_an_address_given_as_a_label_is_counted_as_other_and_makes_one_series_only(metrics: Metrics) -> None:
    for n in range(100):
        metrics.add("transfers_observed_total", chain=f"chain-{n}", result="orphan")
        metrics.replace("wallet_balance", {("hot-1", f"0x{n:040x}"): 1.0, ("hot-1", "USDC"): 7.0})

    rows = series(metrics)
    assert rows['payoutd_transfers_observed_total{chain="other",result="orphan"}'] == 100
    assert rows['payoutd_wallet_balance{asset="other",wallet="hot-1"}'] == 1
    assert rows['payoutd_wallet_balance{asset="USDC",wallet="hot-1"}'] == 7
    assert not [row for row in rows if re.search("0x[0-9a-f]", row)]


def test_a_known_value_in_a_wrong_pair_does_not_make_a_new_pair(metrics: Metrics) -> None:
    metrics.set("payouts", 3, chain="circle-main", asset="ETH", status="signed")

    assert metrics.value("payouts", chain="other", asset="other", status="other") == 3


def test_counters_gauges_and_histograms_keep_what_they_are_told(metrics: Metrics) -> None:
    metrics.add("idempotent_replays_total")
    metrics.add("send_answers_total", 2, chain="ethereum", answer="unknown")
    metrics.set("node_up", 1, chain="ethereum", node="n1")
    metrics.observe("payout_stage_seconds", 0.2, chain="ethereum", stage="sign")
    metrics.observe("payout_stage_seconds", -5, chain="ethereum", stage="sign")

    assert metrics.value("idempotent_replays_total") == 1
    assert metrics.value("send_answers_total", answer="unknown", chain="ethereum") == 2
    assert metrics.value("node_up", chain="ethereum", node="n1") == 1
    assert metrics.value("payout_stage_seconds", chain="ethereum", stage="sign") == 2
    assert series(metrics)['payoutd_payout_stage_seconds_sum{chain="ethereum",stage="sign"}'] == 0.2


def test_replacing_a_gauge_puts_what_is_no_longer_named_to_zero(metrics: Metrics) -> None:
    metrics.replace("incidents_open", {("orphan_transfer", "critical"): 2})

    metrics.replace("incidents_open", {("stuck_payout", "error"): 1})

    assert metrics.value("incidents_open", kind="orphan_transfer", severity="critical") == 0
    assert metrics.value("incidents_open", kind="stuck_payout", severity="error") == 1


def test_a_daemon_that_lost_the_metrics_lease_shows_no_figure_of_the_database(metrics: Metrics) -> None:
    metrics.replace("alert_outbox_oldest_seconds", {(): 40})
    metrics.set("wallet_paused", 1, wallet="hot-1")
    metrics.add("loop_errors_total", loop="sign")

    metrics.forget_database()

    rows = series(metrics)
    names = [f"payoutd_{metric.name}" for metric in TABLE if metric.source is DATABASE]
    assert {value for row, value in rows.items() if row.partition("{")[0] in names} == {0.0}
    assert metrics.value("loop_errors_total", loop="sign") == 1


@pytest.mark.parametrize("labels", [{}, {"chain": "ethereum"}, {"chain": "ethereum", "asset": "ETH"}])
def test_a_missing_or_foreign_label_name_is_a_programmers_error(metrics: Metrics, labels: dict[str, str]) -> None:
    with pytest.raises(KeyError):
        metrics.add("send_answers_total", **labels)


def test_an_unknown_metric_or_one_of_another_type_is_a_programmers_error(metrics: Metrics) -> None:
    with pytest.raises(KeyError):
        metrics.add("payouts_total")
    with pytest.raises(KeyError):
        metrics.add("node_up", chain="ethereum", node="n1")


def test_two_registries_do_not_share_values(metrics: Metrics) -> None:
    other = Metrics()

    metrics.add("lease_losses_total")

    assert other.value("lease_losses_total") == 0


def test_preparing_again_adds_sets_and_keeps_values(metrics: Metrics) -> None:
    metrics.add("rebroadcasts_total", chain="ethereum")

    metrics.prepare(chains={**ASSETS, "solana": ["SOL"]}, wallets={}, nodes={"solana": ["s1"]})

    assert metrics.value("rebroadcasts_total", chain="ethereum") == 1
    assert 'payoutd_rebroadcasts_total{chain="solana"} 0.0' in metrics.render().decode()


def test_no_series_of_births_is_shown(metrics: Metrics) -> None:
    assert not [row for row in series(metrics) if "_created{" in row or row.endswith("_created")]
