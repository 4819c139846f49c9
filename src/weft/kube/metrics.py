"""What the operator counts and measures, for Prometheus: one table, and a method per happening.

Names follow `weft_<noun>_<unit>[_total]` with base units. Labels have few values: those with a
closed list start at zero, so that a rate is right from the first scrape, and whatever is not in
the list becomes `other`; those that administrators name (queues) are capped. No job, pod, node or
tenant is ever a label. The rest of Weft calls methods named for what happened and knows no metric.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from weft import __version__
from weft.failure.classes import FailureClass
from weft.model.reason import CAUSES
from weft.model.state import State

OTHER: Final = "other"
MOST_VALUES: Final = 200
MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Kind(StrEnum):
    """What a metric does over time."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Label:
    """A label; without `values` its values are named elsewhere and capped in number."""

    name: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table. `unit` says what a value of 1 is."""

    name: str
    kind: Kind
    unit: str
    help: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()


STATES: Final = tuple(state.name.capitalize() for state in State)
DECIDED: Final = ("started", "resized", "moved", "preempted", "reclaimed")
GPU_STATES: Final = ("free", "held", "foreign", "lost")
KINDS: Final = ("jobs", "queues", "pods", "nodes")
RESULTS: Final = (
    "accepted",
    "invalid",
    "unauthenticated",
    "forbidden",
    "stale",
    "limited",
    "unavailable",
    "failed",
)
ASIDE: Final = ("checked", "lemon", "people", "probe")
REVIEWS: Final = ("remembered", "accepted", "refused", "failed")
WRITES: Final = ("written", "conflict", "failed")

ROUND_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
CALL_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
WAIT_BUCKETS: Final = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0, 604800.0)

TABLE: Final[tuple[Metric, ...]] = (
    Metric(
        "weft_build_info",
        Kind.GAUGE,
        "always 1",
        "The version that runs, as a label.",
        (Label("version"),),
    ),
    Metric(
        "weft_lease_held",
        Kind.GAUGE,
        "1 or 0",
        "Whether this replica leads. Gauges of jobs and GPUs are those of the leader.",
    ),
    Metric(
        "weft_round_duration_seconds",
        Kind.HISTOGRAM,
        "seconds",
        "How long rounds took to decide.",
        buckets=ROUND_BUCKETS,
    ),
    Metric(
        "weft_decisions_total",
        Kind.COUNTER,
        "decisions",
        "What rounds decided about single jobs.",
        (Label("outcome", DECIDED),),
    ),
    Metric(
        "weft_jobs",
        Kind.GAUGE,
        "jobs",
        "Jobs by state and queue; final ones while their objects exist.",
        (Label("state", STATES), Label("queue")),
    ),
    Metric(
        "weft_gpus",
        Kind.GAUGE,
        "GPUs",
        "GPUs that are free, held by jobs, taken by foreign pods, or on nodes that are out.",
        (Label("state", GPU_STATES),),
    ),
    Metric(
        "weft_waiting_seconds_total",
        Kind.COUNTER,
        "seconds",
        "Time that jobs have waited, by the one cause that each second is booked to.",
        (Label("cause", tuple(cause.label for cause in CAUSES)),),
    ),
    Metric(
        "weft_job_wait_seconds",
        Kind.HISTOGRAM,
        "seconds",
        "From submission to the first start of a job.",
        buckets=WAIT_BUCKETS,
    ),
    Metric(
        "weft_events_handled_total",
        Kind.COUNTER,
        "events",
        "Events that the brain has handled, by kind.",
        (Label("kind"),),
    ),
    Metric(
        "weft_journal_records_total",
        Kind.COUNTER,
        "records",
        "Records written to the journal.",
    ),
    Metric(
        "weft_invariant_breaches_total",
        Kind.COUNTER,
        "breaches",
        "Broken promises of the scheduler: a defect in Weft, and more than 0 is an alarm.",
    ),
    Metric(
        "weft_job_faults_total",
        Kind.COUNTER,
        "faults",
        "Times a job was set aside because the operator could not look after it.",
    ),
    Metric(
        "weft_failures_total",
        Kind.COUNTER,
        "failures",
        "Tries of jobs that failed, by class; what each is stands in docs/failures.md.",
        (Label("class", tuple(kind.value for kind in FailureClass)),),
    ),
    Metric(
        "weft_breakers_open",
        Kind.GAUGE,
        "services",
        "Shared services that jobs are held back from, because many failed on them.",
    ),
    Metric(
        "weft_nodes_aside",
        Kind.GAUGE,
        "nodes",
        "Nodes where nothing starts because jobs failed there, or that people should look at.",
        (Label("state", ASIDE),),
    ),
    Metric(
        "weft_pods_created_total",
        Kind.COUNTER,
        "pods",
        "Worker pods created.",
    ),
    Metric(
        "weft_pods_deleted_total",
        Kind.COUNTER,
        "pods",
        "Worker pods deleted.",
    ),
    Metric(
        "weft_status_writes_total",
        Kind.COUNTER,
        "writes",
        "Writes of a job's or a queue's status, or of a wait report.",
        (Label("outcome", WRITES),),
    ),
    Metric(
        "weft_api_calls_total",
        Kind.COUNTER,
        "calls",
        "Calls to the API server, by verb and outcome.",
        (Label("verb"), Label("outcome")),
    ),
    Metric(
        "weft_api_call_duration_seconds",
        Kind.HISTOGRAM,
        "seconds",
        "How long the API server took to answer, watches aside.",
        (Label("verb"),),
        CALL_BUCKETS,
    ),
    Metric(
        "weft_watch_lag_seconds",
        Kind.GAUGE,
        "seconds",
        "Time since the last event or bookmark of a watch.",
        (Label("kind", KINDS),),
    ),
    Metric(
        "weft_watch_restarts_total",
        Kind.COUNTER,
        "restarts",
        "Watches that ended and were begun again, whatever ended them.",
        (Label("kind", KINDS),),
    ),
    Metric(
        "weft_reports_total",
        Kind.COUNTER,
        "reports",
        "Reports of workers, by what became of them.",
        (Label("result", RESULTS),),
    ),
    Metric(
        "weft_token_reviews_total",
        Kind.COUNTER,
        "reviews",
        "Workers' tokens: known already, or accepted or refused by the API server.",
        (Label("outcome", REVIEWS),),
    ),
)


class Metrics:
    """The metrics of one operator, in a registry of its own."""

    def __init__(self) -> None:
        # A second series for each counter, which tells when it was made: nobody asks for it.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._counters = _made(Kind.COUNTER, self._counter)
        self._gauges = _made(Kind.GAUGE, self._gauge)
        self._histograms = _made(Kind.HISTOGRAM, self._histogram)
        self._values: dict[tuple[str, str], set[str]] = {}
        self._known_counters: dict[tuple[str, ...], Counter] = {}
        self._calls_seen: Tally[tuple[str, str]] = Tally()
        self._start_at_zero()
        self._gauges["weft_build_info"].labels(__version__).set(1)

    def exposition(self) -> tuple[bytes, str]:
        """Everything measured, in Prometheus' text format, and its media type."""
        return generate_latest(self._registry), MEDIA_TYPE

    def round_took(self, seconds: float) -> None:
        self._observe("weft_round_duration_seconds", seconds)

    def decided(self, outcome: str, count: int = 1) -> None:
        """One of `DECIDED`, about so many jobs."""
        self._count("weft_decisions_total", outcome, by=count)

    def jobs_are(self, counts: Mapping[tuple[str, str], int]) -> None:
        """How many jobs there are by (state, queue), now; whatever is not named is gone."""
        self._replace("weft_jobs", counts.items())

    def gpus_are(self, *, free: int, held: int, foreign: int, lost: int) -> None:
        amounts = {"free": free, "held": held, "foreign": foreign, "lost": lost}
        self._replace("weft_gpus", [((state,), number) for state, number in amounts.items()])

    def waited(self, cause: str, seconds: float) -> None:
        """So many more seconds of waiting are booked to this cause."""
        self._count("weft_waiting_seconds_total", cause, by=seconds)

    def job_started_after(self, seconds: float) -> None:
        self._observe("weft_job_wait_seconds", seconds)

    def event_handled(self, kind: str) -> None:
        self._count("weft_events_handled_total", kind)

    def journal_grew(self, records: int = 1) -> None:
        self._count("weft_journal_records_total", by=records)

    def invariant_broken(self, breaches: int = 1) -> None:
        self._count("weft_invariant_breaches_total", by=breaches)

    def job_faulted(self) -> None:
        self._count("weft_job_faults_total")

    def job_failed(self, kind: str) -> None:
        """With a failure of this class."""
        self._count("weft_failures_total", kind)

    def health_is(
        self, *, breakers: int, checked: int, lemons: int, people: int, probes: int = 0
    ) -> None:
        """Services that are held open, and nodes by what brings them back."""
        self._gauges["weft_breakers_open"].set(breakers)
        counts = dict(zip(ASIDE, (checked, lemons, people, probes), strict=True))
        self._replace("weft_nodes_aside", [((state,), number) for state, number in counts.items()])

    def pods_created(self, count: int = 1) -> None:
        self._count("weft_pods_created_total", by=count)

    def pods_deleted(self, count: int = 1) -> None:
        self._count("weft_pods_deleted_total", by=count)

    def status_written(self, outcome: str = "written") -> None:
        self._count("weft_status_writes_total", outcome)

    def api_called(self, verb: str, outcome: str, *, count: int = 1) -> None:
        self._count("weft_api_calls_total", verb, outcome, by=count)

    def api_call_took(self, verb: str, seconds: float) -> None:
        self._observe("weft_api_call_duration_seconds", seconds, verb)

    def api_calls_are(self, calls: Mapping[tuple[str, str], int]) -> None:
        """Take over a client's own tally of (verb, outcome): what is new in it is counted."""
        for (verb, outcome), number in calls.items():
            new = number - self._calls_seen[verb, outcome]
            if new > 0:
                self.api_called(verb, outcome, count=new)
                self._calls_seen[verb, outcome] = number

    def watch_lags(self, kind: str, seconds: float) -> None:
        self._gauges["weft_watch_lag_seconds"].labels(
            *self._bounded("weft_watch_lag_seconds", kind)
        ).set(seconds)

    def watch_restarted(self, kind: str) -> None:
        self._count("weft_watch_restarts_total", kind)

    def lease_is_held(self, held: bool) -> None:
        """Whether this replica leads. One that does not knows nothing of jobs and GPUs."""
        self._gauges["weft_lease_held"].set(float(held))
        if not held:
            self._gauges["weft_jobs"].clear()
            self._gauges["weft_gpus"].clear()

    def report_answered(self, result: str) -> None:
        self._count("weft_reports_total", result)

    def token_reviewed(self, outcome: str) -> None:
        self._count("weft_token_reviews_total", outcome)

    def _counter(self, metric: Metric) -> Counter:
        return Counter(metric.name, metric.help, _names(metric), registry=self._registry)

    def _gauge(self, metric: Metric) -> Gauge:
        return Gauge(metric.name, metric.help, _names(metric), registry=self._registry)

    def _histogram(self, metric: Metric) -> Histogram:
        return Histogram(
            metric.name,
            metric.help,
            _names(metric),
            registry=self._registry,
            buckets=metric.buckets,
        )

    def _start_at_zero(self) -> None:
        """Counters whose labels are known show their zeros before anything has happened."""
        for metric in TABLE:
            if metric.kind is Kind.COUNTER and len(metric.labels) == 1:
                for value in metric.labels[0].values:
                    self._counters[metric.name].labels(value)

    def _count(self, name: str, *values: str, by: float = 1) -> None:
        if by < 0:
            return
        counter = self._known_counters.get((name, *values))
        if counter is None:
            counter = self._find_counter(name, *values)
        counter.inc(by)

    def _find_counter(self, name: str, *values: str) -> Counter:
        """It is remembered where its labels are among those told apart, which are few."""
        bounded = self._bounded(name, *values)
        found = self._counters[name].labels(*bounded) if values else self._counters[name]
        if bounded == values:
            self._known_counters[name, *values] = found
        return found

    def _observe(self, name: str, seconds: float, *values: str) -> None:
        histogram = self._histograms[name]
        child = histogram.labels(*self._bounded(name, *values)) if values else histogram
        child.observe(max(seconds, 0.0))

    def _replace(self, name: str, amounts: Iterable[tuple[tuple[str, ...], int]]) -> None:
        """Values that are too many to be told apart are added up."""
        sums: Tally[tuple[str, ...]] = Tally()
        self._values = {key: seen for key, seen in self._values.items() if key[0] != name}
        for values, amount in sorted(amounts, key=lambda item: (-item[1], item[0])):
            sums[self._bounded(name, *values)] += amount
        gauge = self._gauges[name]
        gauge.clear()
        for values, amount in sums.items():
            gauge.labels(*values).set(amount)

    def _bounded(self, name: str, *values: str) -> tuple[str, ...]:
        labels = BY_NAME[name].labels
        return tuple(
            self._known(name, label, value) for label, value in zip(labels, values, strict=True)
        )

    def _known(self, name: str, label: Label, value: str) -> str:
        if label.values:
            return value if value in label.values else OTHER
        seen = self._values.setdefault((name, label.name), set())
        if value in seen:
            return value
        if len(seen) >= MOST_VALUES:
            return OTHER
        seen.add(value)
        return value


BY_NAME: Final[Mapping[str, Metric]] = {metric.name: metric for metric in TABLE}


T = TypeVar("T")


def _made(kind: Kind, make: Callable[[Metric], T]) -> dict[str, T]:
    return {metric.name: make(metric) for metric in TABLE if metric.kind is kind}


def _names(metric: Metric) -> tuple[str, ...]:
    return tuple(label.name for label in metric.labels)
