"""The page of a run or a comparison: one file, opened anywhere, that loads nothing.

Style, drawing code and data stand inside it, and a content policy forbids it every connection.
Whatever a user may have written is escaped on the way in, and the drawing code only ever sets text.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from importlib.resources import files

import orjson

import weft
from weft.lab.change import UNCLEAR, Change, change
from weft.lab.comparison import METRICS, Comparison
from weft.lab.experiment import Outcome
from weft.lab.interval import Interval
from weft.lab.report.report_data import Json, comparison_data, run_data
from weft.lab.summary import Summary
from weft.lab.time_words import number, rough, scale_of, span, unit_for

SCRIPTS = ("frame.js", "curves.js", "bars.js", "gantt.js", "main.js")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True)
class Figure:
    """One plot: its name in the drawing code, its title, how to read it, and what if empty."""

    plot: str
    title: str
    reading: str
    empty: str


CDF = Figure(
    "cdf",
    "Completion times",
    "From submission to end. A curve further left is better; height is the share of jobs that "
    "ended within that time.",
    "No job has ended.",
)
RUN_FIGURES = (
    CDF,
    Figure(
        "occupancy",
        "GPUs in use and jobs waiting",
        "The dashed line is all GPUs. Free GPUs while jobs wait are what a scheduler is judged by.",
        "No round was held.",
    ),
    Figure(
        "waits",
        "What jobs waited for",
        "Mean wait per job, every second booked to the one cause that held it.",
        "No job waited.",
    ),
    Figure(
        "tenants",
        "Fairness between tenants",
        "Tenants by GPU time used. Slowdown is completion time over the service needed; jobs "
        "shorter than ten seconds count as ten.",
        "No job has ended.",
    ),
    Figure(
        "gantt",
        "Who sat where",
        "A lane per GPU, colour by tenant; empty is idle, and stripes take turns. Point at a bar "
        "for its job; shift and the wheel zooms, dragging moves, a double click shows everything.",
        "No job has run on the nodes shown.",
    ),
)
COMPARISON_FIGURES = (
    Figure(
        "apart",
        "Against the first recipe",
        "Differences taken seed by seed, with 95 % intervals. Left of the line is less; an "
        "interval that crosses it may be no difference. What is far off is cut, and marked.",
        "There is nothing to compare with.",
    ),
    Figure(
        "dots",
        "Side by side",
        "Means over the seeds; bars are 95 % intervals, cut at 0. What is far off is cut too, and "
        "marked with its value.",
        "Nothing was compared.",
    ),
    CDF,
)


def run_page(outcome: Outcome) -> str:
    """The page of one run."""
    summary = outcome.summary
    data = run_data(outcome)
    return _page(
        title=f"{summary.recipe} on {summary.cluster}",
        below=f"{summary.workload} · seed {summary.seed} · costs {summary.costs}",
        top=_facts(_headline(summary)),
        figures=RUN_FIGURES,
        data=data,
        foot=f"journal {summary.journal_hash} · {_left_out(data)}",
    )


def comparison_page(comparison: Comparison) -> str:
    """The page of several recipes."""
    experiment = comparison.experiment
    seeds = ", ".join(map(str, comparison.seeds))
    return _page(
        title=f"{len(comparison.rows)} recipes on {experiment.cluster}",
        below=f"{experiment.source.label} · seeds {seeds} · costs {experiment.costs}",
        top=comparison_tables(comparison),
        figures=COMPARISON_FIGURES,
        data=comparison_data(comparison),
        foot="± is half a 95 % interval over the seeds (Student's t); ≈ may be no difference",
    )


def _page(
    *, title: str, below: str, top: str, figures: Iterable[Figure], data: Json, foot: str
) -> str:
    script = "\n".join(_part(name) for name in SCRIPTS)
    drawn = "\n".join(map(_figure, figures))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)} · Weft</title>
<style>
{_part("style.css")}</style>
</head>
<body>
<header><h1>{escape(title)}</h1><p class="soft">{escape(below)}</p></header>
{top}
{drawn}
<footer>Weft {weft.__version__} · {escape(foot)}</footer>
<div id="tip"></div>
<script id="data" type="application/json">{_embedded(data)}</script>
<script>
(() => {{
'use strict';
{script}}})();
</script>
</body>
</html>
"""


def _part(name: str) -> str:
    return (files("weft.lab.report") / "page" / name).read_text(encoding="utf-8")


def _embedded(data: Json) -> str:
    """JSON that no browser takes for the end of its script."""
    return orjson.dumps(data).decode().replace("<", "\\u003c")


def _figure(figure: Figure) -> str:
    return (
        f'<figure data-plot="{figure.plot}" data-empty="{escape(figure.empty)}">'
        f"<figcaption><h2>{escape(figure.title)}</h2><p>{escape(figure.reading)}</p></figcaption>"
        "</figure>"
    )


def _headline(summary: Summary) -> list[tuple[str, str, str]]:
    """Name, number and remark of each fact."""
    finished = f"{summary.finished:,} finished"
    if summary.failed:
        finished += f", {summary.failed:,} failed for good"
    if summary.unfinished:
        finished += f", {summary.unfinished:,} never"
    return [
        ("Jobs", f"{summary.jobs:,}", finished),
        ("Mean completion time", span(summary.mean_jct_seconds), "submission to end"),
        ("Median", span(summary.median_jct_seconds), "completion time"),
        ("95th percentile", span(summary.p95_jct_seconds), "completion time"),
        ("99th percentile", span(summary.p99_jct_seconds), "completion time"),
        (
            "Start delay",
            span(summary.mean_start_delay_seconds),
            f"p95 {span(summary.p95_start_delay_seconds)}",
        ),
        ("Slowdown", f"{number(summary.mean_slowdown)} ×", "mean over jobs"),
        (
            "GPUs in use",
            f"{summary.utilisation_while_arriving:.1%}",
            f"{summary.utilisation:.1%} of the whole time",
        ),
        ("Makespan", span(summary.makespan_seconds), "first submission to last end"),
        ("Preemptions", number(summary.preemptions_per_job), "per job"),
        ("Jain index", f"{summary.jain_index:.3f}", "of tenants' slowdowns"),
        ("Rounds", f"{summary.rounds:,}", f"{summary.events:,} events"),
    ]


def _facts(facts: Iterable[tuple[str, str, str]]) -> str:
    cells = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd><small>{escape(remark)}</small></div>"
        for name, value, remark in facts
    )
    return f'<dl class="facts">{cells}</dl>'


def comparison_tables(comparison: Comparison) -> str:
    """What sets the recipes apart, seed by seed; then their means."""
    if len(comparison.rows) == 1:
        return _means_table(comparison)
    return differences_table(comparison) + _means_table(comparison)


def differences_table(comparison: Comparison) -> str:
    """Every recipe but the first, against the first."""
    first = comparison.rows[0]
    head = "".join(f"<th>{escape(metric.title)}</th>" for metric in METRICS)
    body = ""
    for row in comparison.rows[1:]:
        cells = "".join(_change(change(row, first, metric)) for metric in METRICS)
        body += f'<tr><td class="name">{escape(row.recipe)}</td>{cells}</tr>'
    return _table(f"against {first.recipe}", head, body)


def _means_table(comparison: Comparison) -> str:
    """Recipes as rows; times of a column in one unit."""
    units = {
        metric.field: metric.unit
        if metric.unit != "s"
        else unit_for(max(row.metrics[metric.field].mean for row in comparison.rows))
        for metric in METRICS
    }
    head = "".join(
        f"<th>{escape(metric.title)}<br>{escape(units[metric.field])}</th>" for metric in METRICS
    )
    body = ""
    for row in comparison.rows:
        cells = "".join(_cell(row.metrics[m.field], scale_of(units[m.field])) for m in METRICS)
        nothing = "<td>–</td>" * len(METRICS)
        name = f'<td class="name">{escape(row.recipe)}</td>'
        body += f"<tr>{name}{cells if row.ended else nothing}</tr>"
    return _table("means", head, body)


def _table(name: str, head: str, body: str) -> str:
    return (
        f'<div class="scroll"><table><thead><tr><th class="name">{escape(name)}</th>{head}</tr>'
        f"</thead><tbody>{body}</tbody></table></div>"
    )


def _cell(value: Interval, scale: float) -> str:
    half = value.half_width
    width = "" if half is None else f'<span class="pm">± {rough(half / scale)}</span>'
    return f"<td>{number(value.mean / scale)}{width}</td>"


def _change(told: Change) -> str:
    """One that may be chance is softer, and says so by its sign."""
    if not told.half:
        return f"<td>{escape(told.mean)}</td>"
    said = told.mean if told.clear else f'<span class="soft">{UNCLEAR} {escape(told.mean)}</span>'
    return f'<td>{said}<span class="pm">± {escape(told.half)}</span></td>'


def _left_out(data: Json) -> str:
    gantt = data["gantt"]
    assert isinstance(gantt, dict)
    left = gantt["left_out"]
    if not left["bars"] and not left["nodes"]:
        return "the chart of nodes shows everything"
    return (
        f"the chart of nodes leaves out {left['nodes']:,} nodes and {left['bars']:,} of the "
        "shortest bars"
    )
