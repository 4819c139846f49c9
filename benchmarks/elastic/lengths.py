"""Lengths: AFS where nobody says how much work a job has, beside AFS where everybody does.

`afs-p` ranks by attained service where `afs-l` ranks by what is left. The same jobs on the same
five clusters; for `afs-p` the work is known to the world alone.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.elastic.trials import Trial, run_all
from benchmarks.elastic.workloads import Given, VirtualCluster, on_one_node, virtual_clusters
from benchmarks.row import Row, at_most

TOLD, UNTOLD = "afs-l", "afs-p"
SLOWER_BAR_PERCENT = 15.0


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """How much slower the average job is without lengths."""
    trials = [
        Trial(
            name=cluster.tenant,
            workload=partial(workload, traces=traces, cluster=cluster),
            recipe=recipe,
        )
        for cluster in virtual_clusters(short=short)
        for workload, recipe in ((on_one_node, TOLD), (without_lengths, UNTOLD))
    ]
    outcomes = run_all(trials)
    for told in outcomes:
        untold = next(outcomes)
        yield at_most(
            f"{UNTOLD} on {told.name}: average JCT, slower by",
            100.0 * (untold.mean_jct_seconds / told.mean_jct_seconds - 1.0),
            "%",
            SLOWER_BAR_PERCENT,
            peer=f"{TOLD}, h",
            peer_value=told.mean_jct_seconds / 3600.0,
        )


def without_lengths(seed: int, *, traces: Path, cluster: VirtualCluster) -> Given:
    """The same jobs; how much work they have is between them and the world."""
    given = on_one_node(seed, traces=traces, cluster=cluster)
    untold = [replace(job, request=replace(job.request, work=None)) for job in given.jobs]
    return Given(given.cluster, tuple(untold))
