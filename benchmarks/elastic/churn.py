"""Churn: what a guard against resizes saves, and what it costs.

AFS as published decides anew at every arrival and end and changes a width three times per job;
`afs-l` as shipped makes no resize that saves less than twice what a resize has been measured to
cost. Both replay the five clusters with every resize a stand-still of so many seconds. The guarded
run may be no more than one percent slower, and may resize a job three times on average.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.elastic.trials import Outcome, Trial, pausing, run_all
from benchmarks.elastic.workloads import on_one_node, virtual_clusters
from benchmarks.row import Row, at_most

GUARDED = "afs-l"
UNGUARDED = "afs-l(hold=0, spacing=0, min_run=0, worth=0)"
PAUSES_SECONDS = (0.0, 10.0, 30.0, 60.0)
SHORT_PAUSES_SECONDS = (30.0,)
RESIZES_BAR = 3.0
SLOWER_BAR_PERCENT = 1.0


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """For each cluster and price: resizes of the guarded run, and its time beside the other's."""
    trials = [
        Trial(
            name=f"{cluster.tenant} at {seconds:g} s",
            workload=partial(on_one_node, traces=traces, cluster=cluster),
            recipe=recipe,
            costs=pausing(seconds),
        )
        for cluster in virtual_clusters(short=short)
        for seconds in (SHORT_PAUSES_SECONDS if short else PAUSES_SECONDS)
        for recipe in (GUARDED, UNGUARDED)
    ]
    outcomes = run_all(trials)
    for guarded in outcomes:
        yield from _compared(guarded, next(outcomes))


def _compared(guarded: Outcome, unguarded: Outcome) -> Iterator[Row]:
    name = f"afs-l {guarded.name}:"
    yield at_most(
        f"{name} resizes per job",
        guarded.resizes,
        "",
        RESIZES_BAR,
        peer="unguarded",
        peer_value=unguarded.resizes,
    )
    yield at_most(
        f"{name} average JCT, slower by",
        100.0 * (guarded.mean_jct_seconds / unguarded.mean_jct_seconds - 1.0),
        "%",
        SLOWER_BAR_PERCENT,
        peer="unguarded, h",
        peer_value=unguarded.mean_jct_seconds / 3600.0,
    )
