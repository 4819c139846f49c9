"""Synergy: cores and memory by what they bring, against shares in proportion to the GPUs.

Both sides run the same jobs in the same order at the same widths (`synergy_jobs`) on 16 nodes of 8
GPUs, 24 cores and 500 GiB; the only difference is the recipe's `host`. As Synergy does, the mean
completion time of a thousand jobs is told, after four thousand to fill the cluster and with more to
come. Fair shares are saturated at 7.6 jobs per hour (all on one GPU); Synergy's own run of this
split is at 9 per hour, first come first served. Beyond saturation a queue grows as long as jobs
come, so the figure hangs on the window; below it there is hardly a queue, and a mean cannot fall by
more than the jobs themselves get faster.

Every allotment that the brain orders is looked at: none may be slower than the fair share.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean

from benchmarks.elastic.synergy_jobs import (
    FAIR_CORES,
    FAIR_GIB,
    arrivals,
    cluster,
    saturation,
)
from benchmarks.row import Row, at_least, exactly, told
from weft.brain.brain import Brain
from weft.brain.event import Event
from weft.brain.instruction import Feed, Instruction, Start
from weft.brain.journal import Journal
from weft.lab.interval import Interval, interval
from weft.model.host import PerGpu
from weft.model.ids import JobId
from weft.model.job import Job
from weft.model.request import Width
from weft.model.truth import Work
from weft.perf.host import host_factor
from weft.policy.recipes import RECIPES
from weft.sim.record import Record
from weft.sim.world import Checks, World

WORKERS = 2
GAIN_BAR = 1.5
SYNERGY_LOAD = 9.0
ROUNDING = 1e-9

CPU_ONLY_CORES, CPU_ONLY_SECONDS = 8.0, 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run; `window` are the jobs whose times count, of `jobs` that come."""

    order: str
    per_hour: float
    seed: int
    jobs: int
    window: range
    wide: bool = False
    host: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Mean completion time of the window, and the allotments that were looked at."""

    trial: Trial
    mean_hours: float
    allotments: int
    below_fair: int
    feeds: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """Which loads under which order, and how many seeds."""

    order: str
    loads: tuple[float, ...]
    seeds: int
    wide: bool = False


WINDOW, JOBS = range(4000, 5000), 6000
SWEEPS = (
    Sweep("fifo", (4.0, 6.0, 7.0, 8.0, SYNERGY_LOAD), 3),
    Sweep("srtf", (8.0, SYNERGY_LOAD), 3),
    Sweep("las", (SYNERGY_LOAD,), 3),
    Sweep("fifo", (6.0, 7.0), 3, wide=True),
)
SHORT_WINDOW, SHORT_JOBS = range(1000, 1400), 1600
SHORT_SWEEPS = (Sweep("fifo", (6.0, SYNERGY_LOAD), 1),)


def rows(traces: Path | None = None, *, short: bool = False) -> Iterator[Row]:
    assert traces is not None, "the tables are read from WEFT_TRACES"
    for wide in (False, True):
        name = "widths of Philly" if wide else "one GPU each"
        limit = saturation(traces, wide=wide)
        yield told(f"fair shares are saturated, {name}, at", limit, "jobs per hour")
    outcomes = []
    for sweep in SHORT_SWEEPS if short else SWEEPS:
        found = [*_run_all(traces, _trials(sweep, short=short))]
        outcomes += found
        yield from _gains(sweep, found)
    yield told("allotments looked at", sum(o.allotments for o in outcomes), "allotments")
    below = sum(o.below_fair for o in outcomes)
    yield exactly("allotments slower than the fair share", below, "allotments", 0)
    yield from _beside_cpu_only(traces, short=short)


def _trials(sweep: Sweep, *, short: bool) -> list[Trial]:
    jobs, window = (SHORT_JOBS, SHORT_WINDOW) if short else (JOBS, WINDOW)
    return [
        Trial(
            order=sweep.order,
            per_hour=load,
            seed=seed,
            jobs=jobs,
            window=window,
            wide=sweep.wide,
            host=host,
        )
        for load in sweep.loads
        for seed in range(sweep.seeds)
        for host in (False, True)
    ]


def _run_all(traces: Path, trials: Sequence[Trial]) -> Iterator[Outcome]:
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("fork")) as pool:
        yield from pool.map(partial(run, traces), trials)


def _gains(sweep: Sweep, outcomes: Sequence[Outcome]) -> Iterator[Row]:
    """By load: both means, and how many times longer the one is, seed by seed."""
    what = f"{sweep.order}, {'widths of Philly' if sweep.wide else 'one GPU each'}"
    for load in sweep.loads:
        fair = [o for o in outcomes if o.trial.per_hour == load and not o.trial.host]
        ours = [o for o in outcomes if o.trial.per_hour == load and o.trial.host]
        gain = interval([a.mean_hours / b.mean_hours for a, b in zip(fair, ours, strict=True)])
        name = f"{what}, {load:g} per hour: mean JCT"
        yield told(
            name,
            fmean(o.mean_hours for o in ours),
            "h",
            peer="fair shares, h",
            peer_value=fmean(o.mean_hours for o in fair),
        )
        yield _gain_row(f"{what}, {load:g} per hour: gain", gain, sweep, load)
        feeds = sum(o.feeds for o in ours) / sum(o.trial.jobs for o in ours)
        yield told(f"{what}, {load:g} per hour: feedings", feeds, "per job")


def _gain_row(name: str, gain: Interval, sweep: Sweep, load: float) -> Row:
    spread = "one seed" if gain.half_width is None else f"± {gain.half_width:.2f}"
    if sweep.order == "fifo" and load == SYNERGY_LOAD and not sweep.wide:
        row = at_least(name, gain.mean, "times", GAIN_BAR)
        return replace(row, peer="95 % interval", peer_value=spread)
    return told(name, gain.mean, "times", peer="95 % interval", peer_value=spread)


# --- one run --------------------------------------------------------------------------------------


def run(traces: Path, trial: Trial) -> Outcome:
    jobs = arrivals(traces, trial.jobs, trial.per_hour, seed=trial.seed, wide=trial.wide)
    brain = Brain(RECIPES[trial.order](host=trial.host))
    seen = Allotments(brain)
    world = World(cluster(), jobs, brain, seed=trial.seed, journal=seen, checks=Checks.OFF)
    record = world.run()
    return Outcome(
        trial=trial,
        mean_hours=_mean_hours(record, [jobs[number] for number in trial.window]),
        allotments=seen.count,
        below_fair=seen.below_fair,
        feeds=seen.feeds,
    )


class Allotments(Journal):
    """Compares everything that the brain orders with the fair share; writes nothing down."""

    def __init__(self, brain: Brain) -> None:
        super().__init__()
        self._brain = brain
        self.count = self.below_fair = self.feeds = 0

    def record(self, event: Event, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, Start):
                self._look(instruction.job, PerGpu(0.0, 0.0))
            elif isinstance(instruction, Feed):
                self.feeds += 1
                self._look(instruction.job, PerGpu(instruction.cores, instruction.memory_gib))

    def _look(self, job: JobId, fed: PerGpu) -> None:
        state = self._brain.state
        slot = state.slot_of[job]
        curve, assignment = state.host_of(slot), state.seating.assignments[slot]
        if curve is None or assignment is None:
            return
        fair = curve.at(PerGpu(FAIR_CORES, FAIR_GIB))
        self.count += 1
        self.below_fair += host_factor(curve, assignment.placement.seats, fed) < fair - ROUNDING


def _mean_hours(record: Record, jobs: Sequence[Job]) -> float:
    return fmean(_seconds(record, job) for job in jobs) / 3600.0


def _seconds(record: Record, job: Job) -> float:
    """From its submission to its end, which it must have reached."""
    line = record.jobs[job.id]
    assert line.outcome == "succeeded" and line.jct_seconds is not None, f"{job.id} did not end"
    return line.jct_seconds


# --- jobs without GPUs ----------------------------------------------------------------------------


def _beside_cpu_only(traces: Path, *, short: bool) -> Iterator[Row]:
    """As many jobs of 8 cores and no GPU among the others: how long all of them take."""
    count = 200 if short else 1000
    beside = arrivals(traces, count, 6.0, seed=0, wide=False)
    hosted = [_cpu_only(job) for job in beside]
    brain = Brain(RECIPES["sensitivity"]())
    record = World(cluster(), [*beside, *hosted], brain, checks=Checks.OFF).run()
    for what, jobs in (("GPU jobs", beside), ("jobs without GPUs", hosted)):
        ended = [job for job in jobs if record.jobs[job.id].outcome == "succeeded"]
        name = f"sensitivity, {what} beside the others"
        yield exactly(f"{name}: ended", len(ended), "jobs", count)
        slowdown = fmean(_seconds(record, job) / job.work.amount for job in ended)
        yield told(f"{name}: mean JCT", slowdown, "of its length")


def _cpu_only(job: Job) -> Job:
    return Job.told(
        id=JobId(f"{job.id}-cpu"),
        width=Width.fixed(0),
        work=Work(CPU_ONLY_SECONDS),
        cpus=CPU_ONLY_CORES,
        submit_seconds=job.submit_seconds,
    )
