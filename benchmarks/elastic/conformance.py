"""Conformance: the reference table from the brain and its simulated world.

Everything that keeps a real cluster calm is switched off (no spacing of rounds, no minimum run, no
guard against churn), changes cost nothing and all GPUs are in one machine: what is left is the
rule. Beside each figure stands that of the bare loop, which shares no code with it.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.elastic import bare
from benchmarks.elastic.reference import RECORDED_HOURS, RECORDED_TAIL_HOURS, TOLERANCE
from benchmarks.elastic.trials import Outcome, Trial, run_all
from benchmarks.elastic.workloads import on_one_node, virtual_cluster, virtual_clusters
from benchmarks.row import Row, exactly
from weft.sim.world import Checks

HOUR = 3600.0
TAILED = "afs_l"

RECIPES = {
    "srtf": "srtf(spacing=0, min_run=0, longest_wait=1e12)",
    "maxmin": "even(hold=0, spacing=0, longest_wait=1e12)",
    "optimus": "optimus(hold=0, spacing=0, min_run=0, worth=0, hull=False, longest_wait=1e12)",
    "afs_l": "afs-l(hold=0, spacing=0, min_run=0, worth=0, hull=False, longest_wait=1e12)",
}


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """Twenty averages and five tails; two clusters in the short form."""
    clusters = virtual_clusters(short=short)
    trials = [
        Trial(
            name=cluster.tenant,
            workload=partial(on_one_node, traces=traces, cluster=cluster),
            recipe=recipe,
            checks=Checks.TOUCHED,
        )
        for cluster in clusters
        for recipe in RECIPES.values()
    ]
    outcomes = run_all(trials)
    for cluster in clusters:
        jobs = virtual_cluster(traces, cluster.tenant)
        for rule in RECIPES:
            outcome = next(outcomes)
            peer = bare.replay(jobs, cluster.gpus, bare.RULES[rule])
            yield from _compared(rule, outcome, peer)
            yield exactly(f"{rule} {cluster.tenant} finished", outcome.finished, "jobs", len(jobs))


def _compared(rule: str, outcome: Outcome, peer: bare.Result) -> Iterator[Row]:
    name, recorded = f"{rule} {outcome.name}", RECORDED_HOURS[outcome.name][rule]
    hours = outcome.mean_jct_seconds / HOUR
    yield _close(f"{name} average JCT", hours, recorded, peer.mean_jct_hours)
    if rule == TAILED:
        tail = outcome.p99_jct_seconds / HOUR
        recorded = RECORDED_TAIL_HOURS[outcome.name]
        yield _close(f"{name} p99 JCT", tail, recorded, peer.p99_jct_hours)


def _close(name: str, hours: float, recorded: float, bare_hours: float) -> Row:
    return Row(
        name=name,
        value=round(hours, 3),
        unit="h",
        bar=f"{recorded:g} ± {TOLERANCE:.0%}",
        holds=abs(hours / recorded - 1.0) <= TOLERANCE,
        peer="bare loop, h",
        peer_value=round(bare_hours, 3),
    )
