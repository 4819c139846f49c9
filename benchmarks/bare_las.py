"""The bare loop: the same least-attained-service rule as vector work over a count of free GPUs.

It knows no nodes, gives no reasons, checks nothing and keeps no journal; it is what the rule alone
costs in NumPy, and so what a replay by the brain is held against. The rule is that of `las`: rounds
follow arrivals, ends and preemptions, at least `spacing` apart; a running job is ranked as if it
had `hold` × GPUs less service, and is not displaced in its first `min_run` seconds; whoever
does not fit is passed over.
"""

from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
import numpy.typing as npt

from weft.model.job import Job

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rule:
    """The parameters of `las`, with its defaults."""

    hold_seconds: float = 600.0
    spacing_seconds: float = 60.0
    min_run_seconds: float = 900.0


@dataclass(slots=True)
class Result:
    """What the loop found, and how long it took."""

    jct_seconds: Floats
    rounds: int = 0
    starts: int = 0
    preemptions: int = 0
    wall_seconds: float = 0.0

    @property
    def mean_jct_seconds(self) -> float:
        return float(self.jct_seconds.mean())


@dataclass(slots=True)
class Columns:
    """One row per job, in order of submission."""

    submitted: Floats
    width: Ints
    remaining: Floats
    attained: Floats
    began: Floats
    runs: Bools = field(init=False)

    def __post_init__(self) -> None:
        self.runs = np.zeros(len(self.width), bool)


def replay(jobs: list[Job], gpus: int, rule: Rule | None = None) -> Result:
    """Run the list to its end; jobs in order of submission, none wider than `gpus`."""
    columns = _columns(jobs)
    begin = perf_counter()
    result = _loop(columns, gpus, rule or Rule())
    result.wall_seconds = perf_counter() - begin
    return result


def _columns(jobs: list[Job]) -> Columns:
    count = len(jobs)
    return Columns(
        submitted=np.array([job.submit_seconds for job in jobs]),
        width=np.array([job.width.asked_gpus for job in jobs], np.int64),
        remaining=np.array([job.work.amount for job in jobs]),
        attained=np.zeros(count),
        began=np.zeros(count),
    )


def _loop(jobs: Columns, gpus: int, rule: Rule) -> Result:
    submitted, count = jobs.submitted, len(jobs.width)
    result = Result(np.zeros(count))
    live: Ints = np.zeros(0, np.int64)
    on: Ints = live
    arrived, now, last, preempted = 0, 0.0, -np.inf, False
    while arrived < count or len(live):
        upcoming = now + jobs.remaining[on].min() if len(on) else np.inf
        if arrived < count:
            upcoming = min(upcoming, submitted[arrived])
        at = last + rule.spacing_seconds if preempted else upcoming
        at = max(at, last + rule.spacing_seconds)
        if _run_until(jobs, on, now, at, result):
            live = live[jobs.remaining[live] > 0]
        now = last = at
        until = int(np.searchsorted(submitted, now, "right"))
        if until > arrived:
            live = np.concatenate([live, np.arange(arrived, until)])
            arrived = until
        chosen = live[_chosen(jobs, live, now, gpus, rule)]
        preempted = _switch(jobs, on, chosen, now, result)
        on = chosen
        result.rounds += 1
    return result


def _run_until(jobs: Columns, on: Ints, now: float, at: float, result: Result) -> bool:
    """Let the running jobs go on to `at`; whether one of them ended."""
    remaining = jobs.remaining[on]
    served = np.minimum(remaining, at - now)
    jobs.attained[on] += served * jobs.width[on]
    jobs.remaining[on] = remaining - served
    over = remaining <= at - now
    if not over.any():
        return False
    ended = on[over]
    jobs.remaining[ended] = 0.0
    jobs.runs[ended] = False
    result.jct_seconds[ended] = now + remaining[over] - jobs.submitted[ended]
    return True


def _chosen(jobs: Columns, live: Ints, now: float, gpus: int, rule: Rule) -> Bools:
    """Who is to run: first those who may not be displaced, then by rank whoever fits."""
    width = jobs.width[live]
    if int(width.sum()) <= gpus:
        return np.ones(len(live), bool)
    runs = jobs.runs[live]
    chosen = runs & (now - jobs.began[live] < rule.min_run_seconds)
    free = gpus - int(width[chosen].sum())
    service = jobs.attained[live] - rule.hold_seconds * width * runs
    ranked = np.argsort(service, kind="stable")
    ranked = ranked[~chosen[ranked]]
    while free > 0 and len(ranked):
        reached = np.cumsum(width[ranked])
        fit = int(np.searchsorted(reached, free, "right"))
        chosen[ranked[:fit]] = True
        if fit:
            free -= int(reached[fit - 1])
        ranked = ranked[fit + 1 :]
        ranked = ranked[width[ranked] <= free]
    return chosen


def _switch(jobs: Columns, on: Ints, chosen: Ints, now: float, result: Result) -> bool:
    """Start and stop accordingly; whether anybody was preempted."""
    new = chosen[~jobs.runs[chosen]]
    before = int(np.count_nonzero(jobs.runs[on]))
    stopped = before + len(new) - len(chosen)
    if stopped:
        jobs.runs[on] = False
    jobs.runs[chosen] = True
    jobs.began[new] = now
    result.starts += len(new)
    result.preemptions += stopped
    return stopped > 0
