"""The lab from Python: a workload, a run, a comparison, each as tables and to look at.

    from weft import lab

    jobs = lab.workload("mine.csv", columns={"gpus": "n"})
    run = lab.simulate(jobs, recipe="weave", cluster="4x8")
    run.jobs.frame()
    both = lab.compare(jobs, recipes=["fifo", "weave"], cluster="4x8")
    both.differences.frame()

The functions take the words of the command line and give what `weft simulate` and `weft compare`
print. A run is deterministic, so whoever asks why a job waited has it run again with its journal;
nothing is written where nobody asks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from weakref import finalize

from weft.lab.change import change
from weft.lab.comparison import METRICS, Comparison
from weft.lab.comparison import compare as compare_all
from weft.lab.experiment import Experiment, Outcome
from weft.lab.experiment import run as run_one
from weft.lab.html import card, facts_html, lines_html, table_html
from weft.lab.interval import Interval
from weft.lab.run_dir import JOB_COLUMNS, JOURNAL, job_row, run_into
from weft.lab.summary import Summary
from weft.lab.table import Table, table_of
from weft.lab.time_words import number, scale_of, span
from weft.lab.workloads.preflight import preflight, remarks
from weft.lab.workloads.source import FromFile, FromRows, Generated, Source
from weft.model.errors import SpecError, UnknownName
from weft.model.ids import JobId
from weft.model.reason import CAUSES
from weft.spec.recipe import make_recipe
from weft.trace.cells import cell_of
from weft.trace.clusters import read_cluster
from weft.trace.faults import OnFault

if TYPE_CHECKING:
    import pandas as pd

    from weft.lab.journals.why import Answer

DEFAULT_RECIPES = ("fifo", "backfill", "las", "srtf", "weave")
DRAWN_POINTS = 300
SHOWN = (
    *("mean_jct_seconds", "p95_jct_seconds", "mean_start_delay_seconds", "mean_slowdown"),
    *("utilisation_while_arriving", "preemptions_per_job"),
)


@dataclass(frozen=True, slots=True)
class Jobs:
    """A workload: where its jobs come from."""

    source: Source

    def table(self, *, cluster: str = "8x8", seed: int = 0) -> Table:
        """A row per job; generated ones are made for a cluster and a seed."""
        loaded = self.source.load(seed=seed, gpus=read_cluster(cluster).cluster.gpus)
        columns = ("job", "tenant", "queue", "submit_seconds", "least_gpus", "most_gpus", "seconds")
        rows = [
            (
                *(str(job.id), str(job.tenant), str(job.request.queue), job.submit_seconds),
                *(job.width.min_gpus, job.width.max_gpus, job.truth.seconds_as_asked),
            )
            for job in loaded.jobs
        ]
        return table_of(self.source.label, columns, rows)

    def frame(self, *, cluster: str = "8x8", seed: int = 0) -> "pd.DataFrame":
        return self.table(cluster=cluster, seed=seed).frame()

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


@dataclass(frozen=True)
class Run:
    """One workload under one recipe: `summary` has the numbers, the rest are tables."""

    outcome: Outcome
    notes: tuple[str, ...] = ()
    _kept: list[Path] = field(default_factory=list, repr=False, compare=False)

    @property
    def summary(self) -> Summary:
        return self.outcome.summary

    @cached_property
    def jobs(self) -> Table:
        """A row per job, as in `jobs.csv`."""
        return table_of("jobs", JOB_COLUMNS, [*map(job_row, self.outcome.record.jobs.values())])

    @cached_property
    def waits(self) -> Table:
        """Seconds that each job waited, by cause."""
        nothing = (0.0,) * len(CAUSES)
        lines = self.outcome.record.jobs.values()
        rows = [(line.id, *(line.waits_seconds or nothing)) for line in lines]
        columns = ("job", *(f"{cause.label}_seconds" for cause in CAUSES))
        return table_of("waits by cause", columns, rows)

    @cached_property
    def occupancy(self) -> Table:
        """GPUs in use and jobs waiting, over time."""
        record = self.outcome.record
        columns = ("seconds", "used_gpus", "waiting_jobs", "waiting_gpus")
        lines = (record.times, record.used_gpus, record.waiting_jobs, record.waiting_gpus)
        return table_of("occupancy", columns, [*zip(*lines, strict=True)])

    @cached_property
    def tenants(self) -> Table:
        """What each tenant got."""
        fields = ("tenant", "jobs", "mean_jct_seconds", "mean_slowdown", "gpu_hours", "share")
        rows = [[getattr(one, name) for name in fields] for one in self.summary.tenants]
        return table_of("tenants", fields, rows)

    def job(self, name: str) -> "OneJob":
        """One job's life."""
        line = self.outcome.record.jobs.get(JobId(name))
        if line is None:
            known = ", ".join(list(self.outcome.record.jobs)[:3])
            raise UnknownName(f"no job '{name}' in this run", hint=f"such as {known}")
        waited = zip(CAUSES, line.waits_seconds, strict=False)
        return OneJob(
            dict(zip(JOB_COLUMNS, job_row(line), strict=True)),
            {cause.label: seconds for cause, seconds in waited if seconds > 0},
        )

    def why(self, job: str, *, at: float | None = None) -> "Answer":
        """Why it waited: its reasons at that second of the run, or at its last wait."""
        from weft.lab.journals.why import why

        if not self._kept:
            folder = Path(mkdtemp(prefix="weft-run-"))
            finalize(self, rmtree, folder, ignore_errors=True)
            run_into(folder, self.outcome.experiment, command=["weft.lab.simulate"])
            self._kept.append(folder)
        return why(self._kept[0] / JOURNAL, job, at=at)

    def report(self, path: str | Path) -> Path:
        """Write the page with all pictures."""
        from weft.lab.report.report import run_page

        Path(path).write_text(run_page(self.outcome), encoding="utf-8")
        return Path(path)

    def _repr_html_(self) -> str:
        summary, record = self.summary, self.outcome.record
        step = max(len(record.times) // DRAWN_POINTS, 1)
        drawn = lines_html(
            [
                ("GPUs in use", record.used_gpus[::step]),
                ("jobs waiting", record.waiting_jobs[::step]),
            ],
            record.times[::step],
        )
        notes = "".join(card("note", note) for note in self.notes)
        title = f"{summary.recipe} on {summary.cluster}"
        below = f"{summary.workload} · seed {summary.seed}"
        return card(title, below, _headline(summary), drawn, notes)


@dataclass(frozen=True, slots=True)
class OneJob:
    """One job of a run: its line, and what it waited for in seconds."""

    line: dict[str, Any]
    waits_seconds: dict[str, float]

    def _repr_html_(self) -> str:
        line = self.line
        times = [
            ("completion time", line["jct_seconds"]),
            ("start delay", line["start_delay_seconds"]),
            ("service needed", line["service_seconds"]),
        ]
        told = [(name, "–" if value is None else span(value)) for name, value in times]
        told += [("starts", f"{line['starts']:,}"), ("preempted", f"{line['preemptions']:,} ×")]
        waits = [(cause, span(seconds)) for cause, seconds in self.waits_seconds.items()]
        gpus = f"{line['gpus']} {'GPU' if line['gpus'] == 1 else 'GPUs'}"
        return card(
            f"job {line['job']}",
            f"{line['outcome']} · {gpus} · {line['tenant']}",
            facts_html(told),
            table_html("", ("waited for", "time"), waits) if waits else "",
        )


@dataclass(frozen=True)
class Compared:
    """Several recipes over the same seeds; differences are taken seed by seed."""

    comparison: Comparison
    notes: tuple[str, ...] = ()

    @cached_property
    def differences(self) -> Table:
        """Each recipe against the first: ratio − 1 with half its 95 % interval, by metric."""
        columns = ("recipe", "metric", "difference", "half_width", "ratio", "ratio_half_width")
        rows = []
        for row in self.comparison.rows[1:]:
            for metric in METRICS:
                apart, ratio = row.versus_first[metric.field], row.ratio_to_first[metric.field]
                part = (None, None) if ratio is None else (ratio.mean, ratio.half_width)
                rows.append((row.recipe, metric.field, apart.mean, apart.half_width, *part))
        return table_of(f"against {self.comparison.rows[0].recipe}", columns, rows)

    @cached_property
    def means(self) -> Table:
        """Each recipe's mean over the seeds with half its 95 % interval, by metric."""
        rows = [
            (row.recipe, metric.field, value.mean, value.half_width)
            for row in self.comparison.rows
            for metric in METRICS
            for value in [row.metrics[metric.field]]
        ]
        return table_of("means over the seeds", ("recipe", "metric", "mean", "half_width"), rows)

    @cached_property
    def trials(self) -> Table:
        """A row per recipe and seed."""
        fields = [metric.field for metric in METRICS]
        rows = [
            (one.recipe, one.seed, *(getattr(one.summary, name) for name in fields))
            for one in self.comparison.trials
        ]
        return table_of("trials", ("recipe", "seed", *fields), rows)

    def report(self, path: str | Path) -> Path:
        """Write the page with all pictures."""
        from weft.lab.report.report import comparison_page

        Path(path).write_text(comparison_page(self.comparison), encoding="utf-8")
        return Path(path)

    def _repr_html_(self) -> str:
        rows, experiment = self.comparison.rows, self.comparison.experiment
        count = len(self.comparison.seeds)
        seeds = f"{count} {'seed' if count == 1 else 'seeds'}"
        shown = [metric for metric in METRICS if metric.field in SHOWN]
        apart = [
            (row.recipe, *(change(row, rows[0], metric).text for metric in shown))
            for row in rows[1:]
        ]
        means = [
            (row.recipe, *(_mean(row.metrics[metric.field], metric.unit) for metric in shown))
            for row in rows
        ]
        titles = ("recipe", *(metric.title for metric in shown))
        return card(
            f"{len(rows)} recipes on {experiment.cluster}",
            f"{experiment.source.label} · {seeds} · ± is a 95 % interval, ≈ may be no difference",
            table_html(f"against {rows[0].recipe}", titles, apart) if apart else "",
            table_html("means", titles, means),
            *(card("note", note) for note in self.notes),
        )


def workload(
    what: object,
    *,
    columns: Mapping[str, str] | None = None,
    durations: Mapping[str, float] | None = None,
    format: str | None = None,
    on_fault: OnFault = "raise",
) -> Jobs:
    """Jobs of a file, or of rows: dicts, or a DataFrame.

    `columns` maps our names to yours, `durations` models to seconds, as the options of the command
    line do; `format` and `on_fault` are for files.
    """
    pairs, lengths = tuple((columns or {}).items()), tuple((durations or {}).items())
    if isinstance(what, str | Path):
        path = str(what)
        return Jobs(
            FromFile(path=path, format=format, on_fault=on_fault, columns=pairs, durations=lengths)
        )
    header, rows = _cells(what)
    return Jobs(FromRows(header=header, rows=rows, columns=pairs, durations=lengths))


def generated(jobs: int = 1000, *, load: float = 0.9, days: float | None = None) -> Jobs:
    """Jobs like Philly's, others for each seed: as dense as `load` says, or spread over `days`."""
    return Jobs(Generated(jobs=jobs, load_factor=None if days else load, days=days))


def simulate(
    jobs: Jobs | None = None,
    *,
    recipe: str = "weave",
    cluster: str = "8x8",
    seed: int = 0,
    costs: str = "tacc",
    cost_scale: float = 1.0,
) -> Run:
    """One workload under one recipe."""
    experiment = Experiment(
        source=(jobs or generated()).source,
        cluster=cluster,
        recipe=recipe,
        seed=seed,
        costs=costs,
        cost_scale=cost_scale,
    )
    notes = _looked_at(experiment, [recipe])
    return Run(run_one(experiment, keep_sittings=True), notes)


def compare(
    jobs: Jobs | None = None,
    *,
    recipes: Sequence[str] = DEFAULT_RECIPES,
    cluster: str = "8x8",
    seeds: int | Sequence[int] = 3,
    costs: str = "tacc",
    cost_scale: float = 1.0,
    workers: int = 1,
) -> Compared:
    """Several recipes on the same workloads; the first is what the others are held against.

    With more `workers` the trials run in processes of their own. A script must then stand behind
    `if __name__ == "__main__":`; a notebook need not.
    """
    if isinstance(recipes, str):
        hint = f'a list is meant: recipes=["fifo", "{recipes}"]'
        raise SpecError("recipes is one text", hint=hint)
    experiment = Experiment(
        source=(jobs or generated()).source, cluster=cluster, costs=costs, cost_scale=cost_scale
    )
    notes = _looked_at(experiment, recipes)
    numbers = range(seeds) if isinstance(seeds, int) else seeds
    return Compared(
        compare_all(experiment, recipes=list(recipes), seeds=list(numbers), workers=workers), notes
    )


def _looked_at(experiment: Experiment, recipes: Iterable[str]) -> tuple[str, ...]:
    """What is odd about it; pointless runs are refused, as on the command line."""
    setup = read_cluster(experiment.cluster)
    made = [make_recipe(one) for one in recipes]
    loaded = experiment.source.load(seed=experiment.seed, gpus=setup.cluster.gpus)
    return (*remarks(loaded), *preflight(loaded.jobs, setup, made))


def _cells(what: object) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Rows of dicts, or whatever turns itself into such (a DataFrame), as texts."""
    turned = getattr(what, "to_dict", None)
    found = turned("records") if callable(turned) else what
    given = [*found] if isinstance(found, Iterable) else [found]
    rows = [row for row in given if isinstance(row, Mapping)]
    if len(rows) < len(given):
        raise SpecError(
            f"a workload is a file, rows or a DataFrame, not {type(what).__name__}",
            hint='rows: [{"job_id": "a", "submit_seconds": 0, "duration_seconds": 60, "gpus": 1}]',
        )
    header = tuple(dict.fromkeys(str(name) for row in rows for name in row))
    return header, tuple(tuple(_text(row.get(name)) for name in header) for row in rows)


def _text(value: object) -> str:
    """A cell as a file would have it; NaN, NaT and NA are no value."""
    try:
        absent = value is None or bool(value != value)  # noqa: PLR0124
    except TypeError:  # pandas.NA is neither equal nor unequal to anything
        absent = True
    return "" if absent else cell_of(value)


def _mean(value: Interval, unit: str) -> str:
    told = span(value.mean) if unit == "s" else f"{number(value.mean / scale_of(unit))} {unit}"
    return told.removesuffix(" per job")


def _headline(summary: Summary) -> str:
    finished = f"{summary.finished:,} of {summary.jobs:,}"
    return facts_html(
        [
            ("jobs finished", finished),
            ("mean completion time", span(summary.mean_jct_seconds)),
            ("p95", span(summary.p95_jct_seconds)),
            ("start delay", span(summary.mean_start_delay_seconds)),
            ("GPUs in use", f"{summary.utilisation_while_arriving:.1%}"),
            ("preempted per job", number(summary.preemptions_per_job)),
            ("resized per job", number(summary.resizes_per_job)),
        ]
    )
