"""Names and labels that others build on: frozen, well formed, documented, and on the dashboard."""

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from weft.brain.event import Event
from weft.kube import metrics as module
from weft.kube.dashboard import COLUMNS, Panel, _panel, dashboard
from weft.kube.metrics import BY_NAME, MOST_VALUES, OTHER, TABLE, Kind, Metric, Metrics
from weft.kube.metrics_page import page
from weft.model.reason import CAUSES

ROOT = Path(__file__).parents[2]
FROZEN = {
    "weft_build_info": ("version",),
    "weft_lease_held": (),
    "weft_round_duration_seconds": (),
    "weft_decisions_total": ("outcome",),
    "weft_jobs": ("state", "queue"),
    "weft_gpus": ("state",),
    "weft_waiting_seconds_total": ("cause",),
    "weft_job_wait_seconds": (),
    "weft_events_handled_total": ("kind",),
    "weft_journal_records_total": (),
    "weft_invariant_breaches_total": (),
    "weft_job_faults_total": (),
    "weft_failures_total": ("class",),
    "weft_breakers_open": (),
    "weft_nodes_aside": ("state",),
    "weft_pods_created_total": (),
    "weft_pods_deleted_total": (),
    "weft_status_writes_total": ("outcome",),
    "weft_api_calls_total": ("verb", "outcome"),
    "weft_api_call_duration_seconds": ("verb",),
    "weft_watch_lag_seconds": ("kind",),
    "weft_watch_restarts_total": ("kind",),
    "weft_reports_total": ("result",),
    "weft_token_reviews_total": ("outcome",),
}


def samples(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    """The values of one series by the values of its labels, in the order of the table."""
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    labels = [label.name for label in BY_NAME[base].labels]
    text = metrics.exposition()[0].decode()
    return {
        tuple(sample.labels[label] for label in labels): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


# -------------------------------------------------------------------------------------- names


def test_names_and_labels_are_frozen() -> None:
    """Dashboards and alarms of others name them: add, but do not rename."""
    found = {metric.name: tuple(label.name for label in metric.labels) for metric in TABLE}
    assert found == FROZEN


@pytest.mark.parametrize("metric", TABLE, ids=lambda metric: metric.name)
def test_names_follow_the_rules(metric: Metric) -> None:
    assert re.fullmatch(r"weft(_[a-z]+)+", metric.name)
    assert (metric.kind is Kind.COUNTER) == metric.name.endswith("_total")
    assert not re.search(r"_(count|sum|bucket)$", metric.name)
    assert not re.search(r"millis|micro|nano|minute|hour|_ms$|kilo|mega|percent", metric.name)
    assert ("seconds" in metric.name) == (metric.unit == "seconds")
    assert metric.kind not in metric.name.split("_")
    assert re.fullmatch(r"[A-Z].*\.", metric.help)
    for label in metric.labels:
        assert re.fullmatch(r"[a-z_]+", label.name)
        assert label.name not in metric.name.split("_")
        assert label.name not in {"le", "job", "pod", "node", "namespace", "tenant", "user"}
        assert len(set(label.values)) == len(label.values) <= 20


@pytest.mark.parametrize(
    "metric", [metric for metric in TABLE if metric.kind is Kind.HISTOGRAM], ids=lambda m: m.name
)
def test_buckets_rise(metric: Metric) -> None:
    assert list(metric.buckets) == sorted(set(metric.buckets))
    assert 5 <= len(metric.buckets) <= 15


def test_the_page_of_metrics_is_up_to_date() -> None:
    assert (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8") == page()


def test_what_is_shown_is_what_the_table_says() -> None:
    metrics = everything_happened()
    text = metrics.exposition()[0].decode()
    shown = {
        family.name + ("_total" if family.type == "counter" else ""): family.type
        for family in text_string_to_metric_families(text)
        if family.name.startswith("weft")
    }
    assert shown == {metric.name: str(metric.kind) for metric in TABLE}


def everything_happened() -> Metrics:
    metrics = Metrics()
    metrics.lease_is_held(True)
    metrics.round_took(0.02)
    metrics.decided("started", 3)
    metrics.jobs_are({("Queued", "research"): 4, ("Running", "prod"): 2})
    metrics.gpus_are(free=3, held=5, foreign=1, lost=7)
    metrics.waited("capacity", 12.5)
    metrics.job_started_after(61)
    metrics.event_handled("JobSubmitted")
    metrics.journal_grew(2)
    metrics.invariant_broken()
    metrics.job_faulted()
    metrics.job_failed("gpu memory")
    metrics.health_is(breakers=1, checked=2, lemons=3, people=4, probes=5)
    metrics.pods_created(8)
    metrics.pods_deleted(2)
    metrics.status_written()
    metrics.api_called("create", "ok")
    metrics.api_call_took("create", 0.01)
    metrics.watch_lags("pods", 1.5)
    metrics.watch_restarted("pods")
    metrics.report_answered("accepted")
    metrics.token_reviewed("accepted")
    return metrics


def test_every_happening_is_shown() -> None:
    metrics = everything_happened()
    values = {
        "weft_lease_held": {(): 1.0},
        "weft_round_duration_seconds_count": {(): 1.0},
        "weft_jobs": {("Queued", "research"): 4.0, ("Running", "prod"): 2.0},
        "weft_gpus": {("free",): 3.0, ("held",): 5.0, ("foreign",): 1.0, ("lost",): 7.0},
        "weft_job_wait_seconds_sum": {(): 61.0},
        "weft_events_handled_total": {("JobSubmitted",): 1.0},
        "weft_journal_records_total": {(): 2.0},
        "weft_invariant_breaches_total": {(): 1.0},
        "weft_job_faults_total": {(): 1.0},
        "weft_breakers_open": {(): 1.0},
        "weft_nodes_aside": {("checked",): 2.0, ("lemon",): 3.0, ("people",): 4.0, ("probe",): 5.0},
        "weft_pods_created_total": {(): 8.0},
        "weft_pods_deleted_total": {(): 2.0},
        "weft_api_calls_total": {("create", "ok"): 1.0},
        "weft_api_call_duration_seconds_count": {("create",): 1.0},
        "weft_watch_lag_seconds": {("pods",): 1.5},
    }
    assert {name: samples(metrics, name) for name in values} == values
    assert samples(metrics, "weft_decisions_total")[("started",)] == 3
    assert samples(metrics, "weft_failures_total")[("gpu memory",)] == 1
    assert samples(metrics, "weft_waiting_seconds_total")[("capacity",)] == 12.5
    assert samples(metrics, "weft_status_writes_total")[("written",)] == 1
    assert samples(metrics, "weft_reports_total")[("accepted",)] == 1


# ---------------------------------------------------------------------------------- behaviour


def test_counters_with_known_labels_start_at_zero() -> None:
    shown = samples(Metrics(), "weft_waiting_seconds_total")
    assert set(shown.values()) == {0.0}
    assert len(shown) == len(CAUSES)


def test_two_operators_in_one_process_do_not_mix() -> None:
    first, second = Metrics(), Metrics()
    first.pods_created(5)
    assert samples(second, "weft_pods_created_total") == {(): 0.0}


def test_queues_that_are_gone_are_no_longer_shown() -> None:
    metrics = Metrics()
    metrics.jobs_are({("Queued", "old"): 1})
    metrics.jobs_are({("Queued", "new"): 2})
    assert samples(metrics, "weft_jobs") == {("Queued", "new"): 2.0}


def test_a_replica_that_stops_leading_shows_no_jobs() -> None:
    metrics = everything_happened()
    metrics.lease_is_held(False)
    assert samples(metrics, "weft_lease_held") == {(): 0.0}
    assert samples(metrics, "weft_jobs") == samples(metrics, "weft_gpus") == {}


def test_labels_cannot_grow_without_bound() -> None:
    metrics = Metrics()
    metrics.jobs_are({("Queued", f"queue-{number}"): number for number in range(1000)})
    shown = samples(metrics, "weft_jobs")
    assert len(shown) == MOST_VALUES + 1
    assert sum(shown.values()) == sum(range(1000))
    assert ("Queued", "queue-999") in shown
    for number in range(1000):
        metrics.event_handled(f"kind-{number}")
    assert samples(metrics, "weft_events_handled_total")[(OTHER,)] == 1000 - MOST_VALUES


def test_what_is_not_in_a_closed_list_is_other() -> None:
    metrics = Metrics()
    metrics.report_answered("teapot")
    assert samples(metrics, "weft_reports_total")[(OTHER,)] == 1


def test_no_time_and_no_count_goes_backwards() -> None:
    """A clock may jump; Prometheus must not see it."""
    metrics = Metrics()
    metrics.waited("capacity", -5)
    metrics.round_took(-1)
    assert samples(metrics, "weft_waiting_seconds_total")[("capacity",)] == 0
    assert samples(metrics, "weft_round_duration_seconds_sum") == {(): 0.0}


def test_a_clients_tally_is_taken_over_once() -> None:
    metrics = Metrics()
    metrics.api_calls_are({("get", "ok"): 3})
    metrics.api_calls_are({("get", "ok"): 5, ("create", "Conflict"): 1})
    assert samples(metrics, "weft_api_calls_total") == {("get", "ok"): 5, ("create", "Conflict"): 1}


def test_hostile_names_stay_in_their_labels() -> None:
    metrics = Metrics()
    hostile = 'x"} 1\nweft_gpus{state="free"} 999\n# '
    metrics.jobs_are({("Queued", hostile): 1})
    assert samples(metrics, "weft_jobs") == {("Queued", hostile): 1.0}
    assert samples(metrics, "weft_gpus") == {}


def test_there_are_labels_enough_for_every_event() -> None:
    assert len(Event.__args__) <= MOST_VALUES


def test_no_method_takes_the_name_of_a_job() -> None:
    for name, method in inspect.getmembers(module.Metrics, inspect.isfunction):
        if not name.startswith("_"):
            assert not {"job", "pod", "node", "namespace"} & set(
                inspect.signature(method).parameters
            )


# ---------------------------------------------------------------------------------- dashboard


def board() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(dashboard())
    return read


def panels() -> list[dict[str, Any]]:
    return [panel for panel in board()["panels"] if panel["type"] != "row"]


def queries() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel["targets"]]


def test_the_dashboard_is_up_to_date() -> None:
    stored = ROOT / "charts" / "weft" / "dashboards" / "weft.json"
    assert stored.read_text(encoding="utf-8") == dashboard()


def test_panels_are_drawn_by_their_kind() -> None:
    def defaults(kind: str) -> dict[str, Any]:
        found: dict[str, Any] = _panel(Panel("Title", "About", (), kind=kind))
        return dict(found["fieldConfig"]["defaults"])

    assert defaults("timeseries")["custom"]["showPoints"] == "never"
    assert defaults("gauge")["max"] == 1
    assert not {"custom", "max"} & defaults("stat").keys()


def test_the_dashboard_names_only_metrics_of_the_table() -> None:
    known = set(BY_NAME) | {
        f"{metric.name}_{part}"
        for metric in TABLE
        if metric.kind is Kind.HISTOGRAM
        for part in ("bucket", "sum", "count")
    }
    named = {name for query in queries() for name in re.findall(r"\bweft_\w+", query)}
    assert named <= known
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in named}
    assert shown == set(BY_NAME)


@pytest.mark.parametrize("query", queries())
def test_a_query_uses_labels_that_its_metric_has(query: str) -> None:
    metrics = re.findall(r"\bweft_\w+", query)
    labels = {
        label.name
        for name in metrics
        for label in BY_NAME[re.sub(r"_(bucket|sum|count)$", "", name)].labels
    }
    named = {label for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(", ")}
    matched = set(re.findall(r"(\w+)=~", query))
    assert named - {"", "le"} <= labels
    assert matched - {"namespace"} <= labels
    assert query.count("(") == query.count(")")
    assert query.count("{") == query.count("}") >= 1
    for name in metrics:
        assert ("rate(" + name in query or "increase(" + name in query) == name.endswith(
            ("_total", "_bucket")
        )


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= COLUMNS
        assert not cells & taken
        taken |= cells
    assert len({panel["id"] for panel in board()["panels"]}) == len(board()["panels"])


def test_every_panel_says_what_it_answers() -> None:
    for panel in panels():
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"]
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
            assert "$namespace" in target["expr"]


def test_every_happening_is_told_by_somebody() -> None:
    """A metric that nothing emits is an empty graph on somebody's wall."""
    told = [name for name, thing in vars(Metrics).items() if callable(thing) and name[0] != "_"]
    source = Path(module.__file__).parent
    written = "".join(
        path.read_text() for path in source.rglob("*.py") if path.name != "metrics.py"
    )
    own = Path(module.__file__).read_text()
    missing = [name for name in told if name not in written and f"self.{name}(" not in own]
    assert missing == []
