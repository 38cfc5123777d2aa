"""Panels and rules ask only for what the daemon shows, and promtool accepts all of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from daemon.metrics import TABLE, Kind, Metrics

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "dashboards"
METRICS = {metric.name: metric for metric in TABLE}
OF_PROMETHEUS = {"up"}  # written by Prometheus itself for each target
NEW_SERIES = {"PayoutdAlertRefused"}  # looks at the counter itself as well, for the first scrape after a start
TARGET_LABELS = {"job", "instance", "le", "alertname", "alertstate"}
NAME = re.compile(r"\bpayoutd_[a-z0-9_]+|\bup\b")
WORD = re.compile(r"[a-z_]+")


@pytest.fixture(scope="session")
def promtool() -> str:
    """Where promtool is. Without it nothing here is proved, so its absence is a failure."""
    places = [os.environ.get("PROMTOOL"), str(ROOT / ".tools/prometheus/usr/bin/promtool"), shutil.which("promtool")]
    for place in places:
        if place and os.access(place, os.X_OK):
            return place
    pytest.fail(
        "promtool was not found: not at $PROMTOOL, not in .tools/prometheus/usr/bin, not on PATH. "
        "Run scripts/setup, or install the package prometheus, or set PROMTOOL to the program."
    )


def run(promtool: str, *arguments: str, stdin: bytes | None = None) -> None:
    done = subprocess.run([promtool, *arguments], input=stdin, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


@cache
def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((FOLDER / "overview.json").read_text())
    return loaded


def panels() -> list[dict[str, Any]]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


@cache
def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    """Every query with where it stands."""
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for rule in rules():
        yield rule.get("alert") or rule["record"], rule["expr"]


def metric_of(name: str) -> str:
    """The table's name of a series: a histogram's series have endings."""
    bare = name.removeprefix("payoutd_")
    for ending in ("_bucket", "_sum", "_count"):
        histogram = METRICS.get(bare.removesuffix(ending))
        if bare.endswith(ending) and histogram is not None and histogram.kind is Kind.HISTOGRAM:
            return histogram.name
    return bare


def recorded() -> set[str]:
    return {rule["record"] for rule in rules() if "record" in rule}


def without_recorded(expression: str) -> str:
    for name in recorded():
        expression = expression.replace(name, "")
    return expression


def test_promtool_accepts_the_rules(promtool: str) -> None:
    run(promtool, "check", "rules", str(FOLDER / "alerts.yml"))


def test_each_alert_fires_when_it_should_and_only_then(promtool: str) -> None:
    run(promtool, "test", "rules", str(FOLDER / "alerts_test.yml"))


def test_promtool_accepts_what_metrics_shows(promtool: str) -> None:
    metrics = Metrics()
    metrics.prepare(
        chains={"ethereum": ["ETH", "USDC"]},
        wallets={"hot-1": ["ETH"]},
        nodes={"ethereum": ["n1"]},
        providers=["circle-main"],
        receivers=["pagerduty"],
        loops=["sign"],
    )
    metrics.observe("payout_stage_seconds", 1.5, chain="ethereum", stage="total")

    run(promtool, "check", "metrics", stdin=metrics.render())


def test_promtool_can_read_every_query_of_the_dashboard(promtool: str, tmp_path: Path) -> None:
    queries = [target["expr"] for panel in panels() for target in panel["targets"]]
    plain = [query.replace("$__rate_interval", "1m").replace("$job", ".*") for query in queries]
    rules_file = tmp_path / "panels.yml"
    rules_file.write_text(
        yaml.safe_dump(
            {"groups": [{"name": "panels", "rules": [{"record": f"q{n}", "expr": q} for n, q in enumerate(plain)]}]}
        )
    )

    run(promtool, "check", "rules", str(rules_file))
    assert [query for query in plain if "$" in query] == []


def test_every_metric_asked_for_is_in_the_table() -> None:
    asked = {
        (where, name)
        for where, expression in expressions()
        for name in NAME.findall(without_recorded(expression))
        if name not in OF_PROMETHEUS and metric_of(name) not in METRICS
    }

    assert asked == set()


def test_every_label_asked_for_belongs_to_a_metric_of_the_query() -> None:
    wrong = []
    for where, expression in expressions():
        names = [metric_of(name) for name in NAME.findall(without_recorded(expression)) if name not in OF_PROMETHEUS]
        known = TARGET_LABELS.union(*(METRICS[name].label_names for name in names))
        grouped = WORD.findall(" ".join(re.findall(r"\b(?:by|on) \(([^)]*)\)", expression)))
        matched = re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)\s*\"", expression)
        wrong += [(where, label) for label in [*grouped, *matched] if label not in known]

    assert wrong == []


def test_a_counter_is_asked_for_its_rate_and_a_gauge_of_the_database_for_its_maximum() -> None:
    """A sum over daemons would count the database's figures once per daemon."""
    wrong = []
    for where, expression in expressions():
        for found in NAME.finditer(without_recorded(expression)):
            metric = METRICS.get(metric_of(found.group()))
            before = without_recorded(expression)[: found.start()].rstrip()
            if metric is None:
                continue
            joined = (
                r"\b(max|min)( by \([a-z_, ]*\))? ?\($|\babsent\($"
                if metric.kind is Kind.GAUGE
                else r"\b(rate|increase)\($"
            )
            if not re.search(joined, before) and where not in NEW_SERIES:
                wrong.append((where, metric.name))

    assert wrong == []


def test_every_metric_is_shown_in_a_panel_but_those_of_providers() -> None:
    shown = {metric_of(name) for panel in panels() for t in panel["targets"] for name in NAME.findall(t["expr"])}

    assert set(METRICS) - shown == {"provider_requests_total"}


def test_every_alert_is_tested_firing_and_not_firing() -> None:
    tests = yaml.safe_load((FOLDER / "alerts_test.yml").read_text())["tests"]
    checks = [check for test in tests for check in test.get("promql_expr_test", [])]
    names = {rule["alert"] for rule in rules() if "alert" in rule}

    def tested(firing: bool) -> set[str]:
        return {m for check in checks if bool(check["exp_samples"]) is firing
                for m in re.findall(r'alertname="(\w+)"', check["expr"])}  # fmt: skip

    assert tested(firing=True) == names
    assert tested(firing=False) == names


def test_every_alert_says_how_severe_it_is_what_happened_and_what_to_do() -> None:
    for rule in rules():
        if "alert" in rule:
            assert rule["labels"]["severity"] in {"warning", "error", "critical"}, rule["alert"]
            assert set(rule["annotations"]) == {"summary", "action"}, rule["alert"]


def test_every_panel_is_a_question_that_the_readme_answers() -> None:
    readme = (FOLDER / "README.md").read_text()
    titles = [panel["title"] for panel in dashboard()["panels"]]

    assert [title for title in titles if not title.endswith("?")] == []
    assert [title for title in titles if title not in readme] == []
    assert len(set(titles)) == len(titles)


def test_the_dashboard_is_whole_and_takes_its_data_source_from_a_variable() -> None:
    board = dashboard()
    boxes = [panel["gridPos"] for panel in board["panels"]]
    cells = [(x, y) for box in boxes for x in range(box["x"], box["x"] + box["w"])
             for y in range(box["y"], box["y"] + box["h"])]  # fmt: skip

    assert board["schemaVersion"] == 39  # Grafana 11.0; later ones read it
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    assert len(set(cells)) == len(cells), "two panels lie on one another"
    assert max(x for x, _ in cells) < 24
    assert [variable["name"] for variable in board["templating"]["list"]] == ["datasource", "job"]
    for panel in panels():
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert sources == [{"type": "prometheus", "uid": "${datasource}"}] * len(sources), panel["title"]
