"""Trials: the first ten minutes of gangs that wait, on one GPU.

The same jobs as under `value`, and three times as many failures, so that there are enough of wide
gangs. One that can start is not tried, and what it dies of is met by all of its GPUs.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Final

from benchmarks.failures.value import SEED, philly, simulated
from benchmarks.row import Row, at_least, at_most, told
from weft.brain.brain import Settings
from weft.lab.workloads.failing import named_troubles
from weft.model.ids import JobId
from weft.model.trial import SUFFIX
from weft.sim.record import Record

NODES, SHORT_NODES = 5, 2
TRIAL_SECONDS: Final = 600.0
FAILURES: Final = "philly*3"
WIDE_GPUS: Final = 4
LEAST_MET: Final = 40.0
LEAST_SAVED: Final = 75.0
MOST_SHARE: Final = 1.0
MOST_DELAY_SECONDS: Final = 60.0


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """How many are met, what that saves and costs."""
    jobs, cluster = philly(traces, short=short, nodes=SHORT_NODES if short else NODES)
    troubles = named_troubles(FAILURES, jobs, cluster, SEED)
    without = simulated(jobs, cluster, troubles)
    tried = simulated(jobs, cluster, troubles, Settings(trial_seconds=TRIAL_SECONDS))
    wide = {job.id for job in jobs if job.width.asked_gpus > WIDE_GPUS} & troubles.ailments.keys()
    fail = {job for job in wide if without.jobs[job].failures}
    waited = {job for job in fail if JobId(job + SUFFIX) in tried.trials}
    met = {job for job in waited if tried.trials[JobId(job + SUFFIX)].failures}
    yield told("jobs of more than 4 GPUs that fail", len(fail), "jobs")
    yield told("… that wait and are tried on one GPU", len(waited), "jobs")
    share = 100 * len(met) / max(len(fail), 1)
    yield told("… that a trial meets", share, "%")
    of_tried = 100 * len(met) / max(len(waited), 1)
    yield _aim("… of those that are tried", of_tried, LEAST_MET)
    saved = _saved(met, without, tried)
    yield _aim("GPU time that these would have burnt, saved", saved, LEAST_SAVED)
    span = max(line.submitted for line in tried.jobs.values())
    used = sum(line.attained_gpu_seconds for line in tried.trials.values())
    yield at_most("trials' share of GPU time", 100 * used / (span * cluster.gpus), "%", MOST_SHARE)
    healthy = {job.id for job in jobs if job.width.asked_gpus > 1} - troubles.ailments.keys()
    later = _start_delay(tried, healthy) - _start_delay(without, healthy)
    yield at_most("healthy gangs start later by", later, "s", MOST_DELAY_SECONDS)


def _aim(name: str, value: float, least: float) -> Row:
    """What should be reached: how many gangs wait is not up to the scheduler alone."""
    return replace(at_least(name, value, "%", least), aim=True)


def _saved(met: set[JobId], without: Record, tried: Record) -> float:
    burnt = sum(without.jobs[job].attained_gpu_seconds for job in met)
    now = sum(
        tried.jobs[job].attained_gpu_seconds
        + tried.trials[JobId(job + SUFFIX)].attained_gpu_seconds
        for job in met
    )
    return 100 * (1 - now / burnt) if burnt else 100.0


def _start_delay(record: Record, jobs: set[JobId]) -> float:
    return mean(record.jobs[job].start_delay_seconds or 0.0 for job in sorted(jobs))
