"""The reference table: average completion times of four rules on five virtual clusters of Philly.

The recorded hours come from a replay without placement effects and without costs of change: jobs
of one tenant of the Philly list, models of the AFS authors' simulator, a decision at every arrival
and end. Average hours; the tail of `afs_l` beside them.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.elastic.bare import NO_PAUSES, RULES, Pauses, Result, Rule, replay
from benchmarks.elastic.workloads import VIRTUAL_CLUSTERS, VirtualCluster, virtual_cluster

TOLERANCE = 0.01
RECORDED_HOURS: dict[str, dict[str, float]] = {
    "0e4a51": {"srtf": 29.53, "maxmin": 26.25, "optimus": 26.97, "afs_l": 23.12},
    "ed69ec": {"srtf": 7.863, "maxmin": 2.890, "optimus": 2.935, "afs_l": 2.634},
    "103959": {"srtf": 7.219, "maxmin": 3.934, "optimus": 4.038, "afs_l": 3.616},
    "ee9e8c": {"srtf": 43.64, "maxmin": 34.74, "optimus": 39.15, "afs_l": 27.78},
    "7f04ca": {"srtf": 83.55, "maxmin": 96.40, "optimus": 104.58, "afs_l": 75.58},
}
RECORDED_TAIL_HOURS = {
    "0e4a51": 187.9,
    "ed69ec": 19.0,
    "103959": 49.8,
    "ee9e8c": 297.0,
    "7f04ca": 1308.0,
}

Task = tuple[Path, VirtualCluster, Rule, Pauses, str]


def table(
    rules: dict[str, Rule] | Sequence[str] = tuple(RULES),
    *,
    pauses: Pauses = NO_PAUSES,
    salts: Sequence[str] = ("",),
) -> dict[tuple[str, str], list[Result]]:
    """Replay rules on the five clusters, two at a time; prints a line each and returns results.

    A rule must be a function of a module or of the main script, so that a worker process finds it.
    """
    chosen = rules if isinstance(rules, dict) else {name: RULES[name] for name in rules}
    traces = Path(os.environ["WEFT_TRACES"])
    tasks = [
        (name, (traces, cluster, rule, pauses, salt))
        for cluster in VIRTUAL_CLUSTERS
        for name, rule in chosen.items()
        for salt in salts
    ]
    results: dict[tuple[str, str], list[Result]] = {}
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        for (name, task), result in zip(
            tasks, pool.map(run, [task for _, task in tasks]), strict=True
        ):
            results.setdefault((task[1].tenant, name), []).append(result)
            print(line(task[1].tenant, name, task[4], result), flush=True)
    return results


def run(task: Task) -> Result:
    traces, cluster, rule, pauses, salt = task
    return replay(virtual_cluster(traces, cluster.tenant, salt=salt), cluster.gpus, rule, pauses)


def line(tenant: str, name: str, salt: str, result: Result) -> str:
    recorded = RECORDED_HOURS[tenant].get(name)
    off = (
        f" {100 * (result.mean_jct_hours / recorded - 1):+6.2f} %" if recorded and not salt else ""
    )
    return (
        f"{tenant} {name:<16} {salt:<4} {result.mean_jct_hours:8.3f} h"
        f"  p99 {result.p99_jct_hours:8.1f} h  changes {result.changes_per_job:5.2f}"
        f"  preempted {result.preemptions_per_job:5.2f}  cpu {result.cpu_seconds:5.1f} s{off}"
    )
