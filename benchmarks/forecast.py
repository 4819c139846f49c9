"""What a forecast costs: a world that begins in the middle of a loaded cluster and runs to its end.

A plain run is stopped when some of its jobs are over. From a copy of its brain, with truths that
are drawn from what it believes, a resumed world runs all that are active, and those that come, to
their ends. The bar is processor time, because others may be using the machine too. Beside it stands
the plain run of the same jobs from the beginning.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time

from benchmarks.row import Row, at_most, exactly, told
from weft.brain.brain import Brain
from weft.brain.event import Event
from weft.brain.instruction import Instruction
from weft.brain.journal import Journal
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.policy.recipes import RECIPES
from weft.sim.costs import COSTS
from weft.sim.sampled import sampled
from weft.sim.world import Checks, World
from weft.trace.generator import generate

NODE_GPUS = 8
LOAD = 2.0
FORECAST_BAR_SECONDS = 10.0
RECIPE_NAMES = ("las", "backfill")
SEED = 1


@dataclass(frozen=True, slots=True)
class Size:
    """So many jobs are over, and so many ahead: some of them are there, the others still come."""

    nodes: int
    over_jobs: int
    ahead_jobs: int


FULL, SHORT = Size(300, 1_000, 7_000), Size(60, 200, 1_400)


class NoJournal(Journal):
    """A forecast writes nothing down."""

    def record(self, event: Event, instructions: list[Instruction]) -> None:  # type: ignore[override]
        self.records += 1


def rows(traces: Path | None, *, short: bool) -> Iterator[Row]:
    """One group of rows for each recipe."""
    size = SHORT if short else FULL
    for recipe in RECIPE_NAMES:
        yield from _forecast(recipe, size)


def _forecast(recipe: str, size: Size) -> Iterator[Row]:
    jobs = _workload(size)
    cluster = Cluster.uniform(size.nodes, NODE_GPUS)
    world = _plain(recipe, cluster, jobs)
    while len(world.brain.state.closed) < size.over_jobs:
        world.step()
    world.run(horizon_seconds=world.now)
    coming = [job for job in jobs if job.submit_seconds > world.now]
    left = [job for job in jobs if job.id not in world.brain.state.closed]
    active = len(left) - len(coming)
    name = f"{recipe}, {size.nodes:,d} nodes"
    yield told(f"{name}: active jobs", active, "jobs", peer="coming", peer_value=len(coming))

    begin = process_time()
    twin = world.brain.copied()
    copied_seconds, begin = process_time() - begin, process_time()
    truths = sampled(twin, SEED)
    ahead = World.resume(
        twin, truths, coming=coming, costs=COSTS["tacc"], journal=NoJournal(), checks=Checks.OFF
    )
    resumed_seconds, begin = process_time() - begin, process_time()
    record = ahead.run()
    ran_seconds = process_time() - begin
    whole_seconds = copied_seconds + resumed_seconds + ran_seconds
    plain_seconds = _plain_seconds(recipe, cluster, left)
    yield told(f"{name}: the copy", 1e3 * copied_seconds, "ms")
    yield told(f"{name}: truths and the world", 1e3 * resumed_seconds, "ms")
    yield at_most(
        f"{name}: the forecast, of the processor",
        whole_seconds,
        "s",
        FORECAST_BAR_SECONDS,
        peer="plain run, s",
        peer_value=plain_seconds,
    )
    yield told(f"{name}: forecast / plain run", whole_seconds / plain_seconds, "×")
    ended = sum(line.ended is not None for line in record.jobs.values())
    yield exactly(f"{name}: jobs that ended", ended, "jobs", len(left))


def _workload(size: Size) -> list[Job]:
    """More work than the cluster can do, so that a line forms."""
    gpus = size.nodes * NODE_GPUS
    drawn = generate(jobs=size.over_jobs + size.ahead_jobs, seed=SEED, load=LOAD, gpus=gpus)
    return sorted(drawn.jobs, key=lambda job: job.submit_seconds)


def _plain(recipe: str, cluster: Cluster, jobs: list[Job]) -> World:
    brain, costs = Brain(RECIPES[recipe]()), COSTS["tacc"]
    return World(cluster, jobs, brain, costs=costs, journal=NoJournal(), checks=Checks.OFF)


def _plain_seconds(recipe: str, cluster: Cluster, jobs: list[Job]) -> float:
    begin = process_time()
    _plain(recipe, cluster, jobs).run()
    return process_time() - begin
