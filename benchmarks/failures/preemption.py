"""Preemption: what jobs lose that make way for others of a higher priority.

Philly's jobs, of which every tenth has a higher priority, first come first served within a
priority (`backfill(make_way=true)`). Whoever makes way is of the lowest priority and loses least by
it. Beside it the usual rule: of the lowest priority the latest goes, whatever it has saved.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from unittest.mock import patch
from zlib import crc32

import numpy as np

from benchmarks.failures.value import HOUR, SEED, philly
from benchmarks.row import Row, at_most, told
from weft.brain.brain import Brain
from weft.brain.round import eviction
from weft.model.job import Job
from weft.model.snapshot import Bools, Floats, Ints, Snapshot
from weft.policy.recipe import Recipe, Rounds, Yielding
from weft.policy.recipes import backfill
from weft.sim.costs import named_costs
from weft.sim.record import Record
from weft.sim.world import Checks, World

NODES, SHORT_NODES = 5, 2
URGENT_PART: Final = 10
MOST_SHARE: Final = 50.0
SPACING_SECONDS: Final = 60.0


def latest_first(snapshot: Snapshot, slots: Ints) -> Ints:
    """The usual rule: of the lowest priority the latest to start."""
    jobs = snapshot.jobs
    order: Ints = np.lexsort((-jobs.started[slots], jobs.priority[slots]))
    return order


@dataclass(frozen=True, slots=True)
class Anybody(Yielding):
    """At any time, whatever was saved."""

    def may_go(self, ran_seconds: Floats, saves_every_seconds: Floats, spared: Bools) -> Bools:
        found: Bools = ran_seconds >= 0.0
        return found


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """GPU hours lost by those who make way, and how often they do."""
    jobs, cluster = philly(traces, short=short, nodes=SHORT_NODES if short else NODES)
    jobs = [_with_priority(job) for job in jobs]

    def lived(yielding: Yielding) -> Record:
        brain = Brain(_recipe(yielding))
        costs = named_costs("tacc")
        world = World(cluster, jobs, brain, costs=costs, seed=SEED, checks=Checks.TOUCHED)
        return world.run()

    ours = lived(Yielding(min_run_seconds=0.0, by_loss=True))
    with patch.object(eviction, "least_lost_first", latest_first):
        latest = lived(Anybody(min_run_seconds=0.0, by_loss=True))
    lost, more = _lost_hours(ours), _lost_hours(latest)
    yield told("GPU hours lost by making way", lost, "GPU h", peer="latest goes", peer_value=more)
    share = 100 * lost / more if more else 0.0
    bar = at_most if not short else _told
    yield bar("… of what is lost where the latest goes", share, "%", MOST_SHARE)
    for name, record in (("ours", ours), ("latest goes", latest)):
        lines = list(record.jobs.values())
        yield told(f"jobs that make way, {name}", sum(line.preemptions for line in lines), "times")
        urgent = [line for line in lines if _is_urgent(line.id)]
        delay = sum(line.start_delay_seconds or 0.0 for line in urgent) / max(len(urgent), 1)
        yield told(f"mean start delay of urgent jobs, {name}", delay, "s")


def _told(name: str, value: float, unit: str, bar: float) -> Row:
    return told(name, value, unit)


def _recipe(yielding: Yielding) -> Recipe:
    rounds = Rounds(spacing_seconds=SPACING_SECONDS)
    return replace(backfill(reserve=False), rounds=rounds, yielding=yielding)


def _lost_hours(record: Record) -> float:
    return sum(line.yielded_gpu_seconds for line in record.jobs.values()) / HOUR


def _with_priority(job: Job) -> Job:
    return replace(job, request=replace(job.request, priority=int(_is_urgent(job.id))))


def _is_urgent(job: str) -> bool:
    return not crc32(b"urgent " + job.encode()) % URGENT_PART
