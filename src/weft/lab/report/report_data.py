"""What a report's plots are drawn from: a run, thinned to what a picture can show.

A page must open at once and travel by mail, so curves are cut to some hundreds of points and the
Gantt chart to its longest bars; the tables beside the page hold everything.
"""

from collections.abc import Sequence

import numpy as np

from weft.lab.comparison import METRICS, Comparison
from weft.lab.experiment import Outcome
from weft.lab.report.lanes import bars_of
from weft.lab.summary import Summary, total_waits
from weft.lab.workloads.size_class import NAMES, size_class
from weft.model.ids import JobId
from weft.model.reason import CAUSES
from weft.sim.record import JobRecord, Record

CURVE_POINTS = 400
TIME_POINTS = 1500
MOST_BARS = 20_000
MOST_NODES = 128
MOST_TENANTS = 25

Json = dict[str, object]


def run_data(outcome: Outcome) -> Json:
    """Everything that the page of one run draws."""
    record = outcome.record
    return {
        "cdf": completion_curves(list(record.jobs.values())),
        "occupancy": occupancy(record),
        "gantt": gantt(outcome),
        "waits": waits(list(record.jobs.values())),
        "tenants": tenants(outcome.summary),
    }


def comparison_data(comparison: Comparison) -> Json:
    """Everything that the page of a comparison draws."""
    return {
        "cdf": {"series": [_pooled(comparison, row.recipe) for row in comparison.rows]},
        "apart": apart(comparison),
        "dots": {
            "recipes": [row.recipe for row in comparison.rows],
            "metrics": [
                {
                    "title": metric.title,
                    "unit": metric.unit,
                    "means": [
                        row.metrics[metric.field].mean if row.ended else None
                        for row in comparison.rows
                    ],
                    "halves": [row.metrics[metric.field].half_width for row in comparison.rows],
                }
                for metric in METRICS
            ],
        },
    }


def apart(comparison: Comparison) -> Json:
    """Shares of the first recipe's numbers by which the others differ; None where none can be."""
    rows = comparison.rows[1:]
    found = []
    for metric in METRICS:
        ratios = [row.ratio_to_first[metric.field] for row in rows]
        if any(ratio is not None for ratio in ratios):
            found.append(
                {
                    "title": metric.title,
                    "means": [None if ratio is None else ratio.mean - 1.0 for ratio in ratios],
                    "halves": [None if ratio is None else ratio.half_width for ratio in ratios],
                }
            )
    return {"recipes": [row.recipe for row in rows], "metrics": found}


def completion_curves(lines: Sequence[JobRecord]) -> Json:
    """Distribution of completion times, of all jobs and by class of width."""
    ended = [line for line in lines if line.ended is not None]
    series = [_curve("all jobs", ended)]
    for name in NAMES:
        own = [line for line in ended if size_class(line.gpus) == name]
        if own and len(own) < len(ended):
            series.append(_curve(f"{name} GPUs" if name != "1" else "1 GPU", own))
    return {"series": series, "exact": True}


def occupancy(record: Record) -> Json:
    """GPUs in use and jobs waiting over time, from the first submission on."""
    first = min((line.submitted for line in record.jobs.values()), default=0.0)
    samples = sum(at <= record.last_end for at in record.times)
    rows = _thinned(samples, TIME_POINTS)
    return {
        "times": [round(record.times[row] - first, 1) for row in rows],
        "used": [record.used_gpus[row] for row in rows],
        "waiting": [record.waiting_jobs[row] for row in rows],
        "total": record.total_gpus,
        "end": round(max(record.last_end - first, 1.0), 1),
    }


def gantt(outcome: Outcome) -> Json:
    """Who sat where; with more bars than can be drawn, the longest."""
    record = outcome.record
    first = min((line.submitted for line in record.jobs.values()), default=0.0)
    nodes = [node for node in outcome.setup.cluster.nodes if node.gpus][:MOST_NODES]
    row_of = {node.id: row for row, node in enumerate(nodes)}
    bars = bars_of(record.sittings, {node.id: node.gpus for node in nodes})
    shown = sorted(bars, key=lambda bar: bar.begin - bar.end)[:MOST_BARS]
    shown.sort(key=lambda bar: bar.begin)
    jobs: dict[JobId, int] = {}
    for bar in shown:
        jobs.setdefault(bar.job, len(jobs))
    by_use = sorted(outcome.summary.tenants, key=lambda tenant: -tenant.gpu_hours)
    order = {tenant.tenant: place for place, tenant in enumerate(by_use)}
    owners = [record.jobs[job].tenant for job in jobs]
    return {
        "nodes": [{"name": node.id, "gpus": node.gpus} for node in nodes],
        "jobs": list(jobs),
        "tenants": list(order),
        "tenant_of": [order.get(owner, len(order)) for owner in owners],
        "tenant_names": owners,
        "bars": [
            [
                *(row_of[bar.node], bar.lane, bar.lanes),
                *(round(bar.begin - first, 1), round(bar.end - first, 1)),
                *(jobs[bar.job], bar.turn, bar.members),
            ]
            for bar in shown
        ],
        "end": round(max(record.last_end - first, 1.0), 1),
        "left_out": {
            "bars": len(bars) - len(shown),
            "nodes": len(outcome.setup.cluster.nodes) - len(nodes),
        },
    }


def waits(lines: Sequence[JobRecord]) -> Json:
    """Mean wait per job by cause, of all jobs and by class of width; unused causes left out."""
    groups = [("all jobs", list(lines))]
    for name in NAMES:
        own = [line for line in lines if size_class(line.gpus) == name]
        if own:
            groups.append((f"{name} GPUs" if name != "1" else "1 GPU", own))
    totals = total_waits(lines)
    causes = [cause.label for cause in CAUSES if totals[cause.label] > 0]
    return {
        "causes": causes,
        "rows": [
            {
                "name": name,
                "jobs": len(own),
                "seconds": [total_waits(own)[cause] / len(own) if own else 0.0 for cause in causes],
            }
            for name, own in groups
        ],
    }


def tenants(summary: Summary) -> list[Json]:
    """Those who used most."""
    most = sorted(summary.tenants, key=lambda tenant: -tenant.gpu_hours)[:MOST_TENANTS]
    return [
        {
            "name": tenant.tenant,
            "jobs": tenant.jobs,
            "slowdown": tenant.mean_slowdown,
            "share": tenant.share,
        }
        for tenant in most
    ]


def _curve(name: str, ended: Sequence[JobRecord]) -> Json:
    jcts = np.sort([line.jct_seconds or 0.0 for line in ended])
    rows = _thinned(len(jcts), CURVE_POINTS)
    points = [[round(float(jcts[row]), 1), (row + 1) / len(jcts)] for row in rows]
    return {"name": f"{name} ({len(jcts):,})", "points": points}


def _pooled(comparison: Comparison, recipe: str) -> Json:
    """Quantiles averaged over the seeds: each seed counts alike."""
    quantiles = [
        trial.jct_quantiles_seconds
        for trial in comparison.trials_of(recipe)
        if trial.jct_quantiles_seconds
    ]
    if not quantiles:
        return {"name": recipe, "points": []}
    means = np.mean(quantiles, axis=0).tolist()
    return {
        "name": recipe,
        "points": [[seconds, row / (len(means) - 1)] for row, seconds in enumerate(means)],
    }


def _thinned(count: int, most: int) -> list[int]:
    """At most so many rows, evenly spread, with both ends."""
    if count <= most:
        return list(range(count))
    rows: list[int] = np.unique(np.linspace(0, count - 1, most).astype(int)).tolist()
    return rows
