"""Defragmentation: gangs that would fit but for where small jobs sit, and what helps them.

Philly's jobs as under `value`, submitted as fast as keeps 90 % of 208 GPUs busy. A gang takes as
few nodes as can hold it and no more; half of the jobs with one GPU save, and gangs do every half
hour. How long some gang waits that the idle GPUs would hold by count but not by place is looked up
after each event from who sits where, whatever the scheduler says of it. Beside it the same where no
gang saves: one that sits on a node of its own then keeps it for as long as it runs. And what
reservations cost.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Final
from zlib import crc32

import numpy as np

from benchmarks.failures.value import HOUR, NODE_GPUS, NODES, SEED, SHORT_NODES, philly
from benchmarks.row import Row, at_least, at_most, told
from weft.brain.brain import Brain
from weft.brain.event import Event, InstructionDone, Verb
from weft.brain.instruction import Instruction, Preempt
from weft.brain.journal import Journal
from weft.model.cluster import Cluster
from weft.model.ids import JobId
from weft.model.job import Job
from weft.model.snapshot import Ints
from weft.model.state import State
from weft.policy.recipe import Recipe
from weft.policy.recipes import RECIPES
from weft.sim.costs import named_costs
from weft.sim.record import JobRecord, Record
from weft.sim.world import Checks, World

LOAD: Final = 0.9
DRAWN_BIT: Final = 16  # of the checksum whose lowest bits chose the jobs
SAVES_SECONDS: Final = 1_800.0
LEAST_LESS: Final = 60.0
MOST_SHARE: Final = 1.0
LARGE_GPUS: Final = 8


@dataclass(slots=True)
class Onlooker(Journal):
    """Looks at who sits where after each event; counts what moves take, from the messages alone."""

    brain: Brain
    scattered_seconds: float = 0.0
    moves: int = 0
    moving_gpu_seconds: float = 0.0
    last: float = 0.0
    some_gang: bool = False
    moving: dict[JobId, tuple[float, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Journal.__init__(self)

    def record(self, event: Event, instructions: Sequence[Instruction]) -> None:
        self.scattered_seconds += (event.at - self.last) * self.some_gang
        self.last, self.some_gang = event.at, self._some_gang_is_scattered()
        if isinstance(event, InstructionDone) and event.verb is Verb.START:
            since, gpus = self.moving.pop(event.job, (event.at, 0))
            self.moving_gpu_seconds += gpus * (event.at - since)
        for one in instructions:
            if isinstance(one, Preempt) and one.job == one.beneficiary:
                self.moves += 1
                self.moving[one.job] = event.at, self._width(one.job)

    def _width(self, job: JobId) -> int:
        state = self.brain.state
        return int(state.jobs.width[state.slot_of[job]])

    def _some_gang_is_scattered(self) -> bool:
        state = self.brain.state
        if not state.queued:
            return False
        jobs = state.jobs
        waits = jobs.active & (jobs.state == State.QUEUED) & (jobs.asked_gpus > 1)
        idle = np.sort(state.vacancy.room(counts_host=False).gpus)[::-1]
        return any(_is_scattered(int(gpus), idle) for gpus in np.unique(jobs.asked_gpus[waits]))


def _is_scattered(gpus: int, idle: Ints) -> bool:
    """Whether a gang fits by count and not on as few nodes as could hold it."""
    return int(idle[: fewest_nodes(gpus)].sum()) < gpus <= int(idle.sum())


def fewest_nodes(gpus: int) -> int:
    return -(-gpus // NODE_GPUS)


@dataclass(frozen=True, slots=True)
class Lived:
    """One run."""

    record: Record
    watched: Onlooker

    @property
    def scattered_hours(self) -> float:
        return self.watched.scattered_seconds / HOUR

    @property
    def moves_share(self) -> float:
        """Of the GPU time that was used: standing still between two starts, and work done twice."""
        lines = self.record.jobs.values()
        lost = sum(line.yielded_gpu_seconds for line in lines)
        used = sum(line.attained_gpu_seconds for line in lines)
        return (self.watched.moving_gpu_seconds + lost) / used

    def delays_hours(self, *, least: int, most: int) -> list[float]:
        """From submission to the first start, of jobs as wide as that."""
        some = (line for line in self.record.jobs.values() if least <= line.gpus <= most)
        return [_delay(line) / HOUR for line in some]

    @property
    def mean_jct_hours(self) -> float:
        return mean((line.jct_seconds or 0.0) / HOUR for line in self.record.jobs.values())


def _delay(line: JobRecord) -> float:
    return line.start_delay_seconds or 0.0


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """With moves and without, then what reservations do for the same gangs."""
    found, cluster = busy(traces, LOAD, short=short)
    jobs = [_particular(job) for job in found]
    without = lived(jobs, cluster, _recipe(reserve=False))
    moved = lived(jobs, cluster, _recipe(reserve=False, defragment=True))
    before, now = without.scattered_hours, moved.scattered_hours
    size = f"{len(jobs):,} jobs of Philly on {cluster.gpus} GPUs, {100 * LOAD:.0f} % load"
    yield told(f"{size}: a gang fits by count, not by place", before, "h")
    yield told("… where small jobs move", now, "h", peer="nobody moves", peer_value=before)
    less, share = _less(now, before), 100 * moved.moves_share
    yield told("… less by", less, "%") if short else at_least("… less by", less, "%", LEAST_LESS)
    yield at_most("… GPU time spent on moves", share, "%", MOST_SHARE)
    yield told("… moves", moved.watched.moves, "moves")
    few = [_particular(job, gangs_save=False) for job in found]
    stuck, scarce = (
        lived(few, cluster, _recipe(reserve=False, defragment=moves)).scattered_hours
        for moves in (False, True)
    )
    yield told("… less by, where no gang saves", _less(scarce, stuck), "%")
    kept = lived(jobs, cluster, _recipe(reserve=True))
    both = lived(jobs, cluster, _recipe(reserve=True, defragment=True))
    for name, run in {"moves": moved, "reservations": kept, "both": both}.items():
        yield from _beside(name, run, without)


def _less(now: float, before: float) -> float:
    return 100 * (1 - now / before) if before else 0.0


def _beside(name: str, run: Lived, plain: Lived) -> Iterator[Row]:
    """What one of them does to the delays of single GPUs and of wide gangs."""
    wide = {"least": LARGE_GPUS + 1, "most": NODE_GPUS * NODES}
    for what, some in {"1-GPU jobs": {"least": 1, "most": 1}, "jobs of > 8 GPUs": wide}.items():
        ours, beside = run.delays_hours(**some), plain.delays_hours(**some)
        yield told(
            f"{name}: mean start delay of {what}",
            _mean(ours),
            "h",
            peer="neither",
            peer_value=_mean(beside),
        )
    mine, theirs = run.mean_jct_hours, plain.mean_jct_hours
    yield told(f"{name}: mean completion time", mine, "h", peer="neither", peer_value=theirs)


def _mean(hours: Collection[float]) -> float:
    return mean(hours) if hours else 0.0


def lived(jobs: list[Job], cluster: Cluster, recipe: Recipe) -> Lived:
    brain = Brain(recipe)
    watched = Onlooker(brain)
    costs = named_costs("tacc")
    world = World(
        cluster, jobs, brain, costs=costs, seed=SEED, journal=watched, checks=Checks.TOUCHED
    )
    return Lived(world.run(), watched)


def busy(traces: Path, load: float, *, short: bool) -> tuple[list[Job], Cluster]:
    """The list, as fast as keeps that share of the GPUs busy."""
    found, cluster = philly(traces, short=short, nodes=SHORT_NODES if short else NODES)
    work = sum(job.truth.seconds_as_asked * job.width.asked_gpus for job in found)
    first = min(job.submit_seconds for job in found)
    span = max(job.submit_seconds for job in found) - first
    pace = work / (load * cluster.gpus) / span
    return [_submitted(job, (job.submit_seconds - first) * pace) for job in found], cluster


def _submitted(job: Job, at: float) -> Job:
    return replace(job, request=replace(job.request, submit_seconds=at))


def _particular(job: Job, *, gangs_save: bool = True) -> Job:
    """A gang takes few nodes, and every other job with one GPU saves."""
    gpus = job.width.asked_gpus
    saves = bool(crc32(job.id.encode()) >> DRAWN_BIT & 1) if gpus == 1 else gangs_save
    interval = SAVES_SECONDS if saves else 0.0
    request = replace(
        job.request,
        max_nodes=fewest_nodes(gpus) if gpus > 1 else None,
        checkpoint_interval_seconds=interval,
    )
    return Job(request, replace(job.truth, checkpoint_interval_seconds=interval))


def _recipe(*, reserve: bool, defragment: bool = False) -> Recipe:
    return RECIPES["backfill"](reserve=reserve, defragment=defragment)
