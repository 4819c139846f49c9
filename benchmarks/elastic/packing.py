"""Packing: where the seats of elastic jobs lie, looked at after everything that happens.

With network-packed widths (divisors or multiples of a node's GPUs) a job that fits a node must be
on one node, and no node may hold a part of more than one job that spans nodes, or two of them share
its network card. Both are counted over all moments of the run, from the world's own account. A
migration is a job that is stopped and started for its own good.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from benchmarks.elastic.trials import MEASURED, WORKERS, Workload
from benchmarks.elastic.workloads import NODE_GPUS, VIRTUAL_CLUSTERS, Given, generated, on_nodes
from benchmarks.row import Row, exactly, told
from weft.brain.brain import Brain
from weft.brain.event import Event
from weft.brain.instruction import Instruction, Preempt
from weft.brain.journal import Journal
from weft.model.ids import JobId, NodeId
from weft.model.placement import Placement
from weft.sim.world import World
from weft.spec.recipe import make_recipe

RECIPE = "afs-l(packed=True)"
FREELY = "afs-l"
NODE_SIZES = (4, 8)
GENERATED_JOBS, GENERATED_GPUS = 600, 64


@dataclass(frozen=True, slots=True)
class Sight:
    """What was seen: moments at which a promise was broken, and what it took to keep them."""

    moments: int
    jobs: int
    split: int
    shared_cards: int
    migrations: int
    resizes: int
    mean_jct_seconds: float


def rows(traces: Path | None, *, short: bool = False) -> Iterator[Row]:
    """A generated workload and, with traces, the five clusters, on nodes of four and of eight."""
    named = list(_workloads(traces, short=short))
    tasks = [(workload, recipe) for _, workload in named for recipe in (RECIPE, FREELY)]
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("fork")) as pool:
        sights = pool.map(watched, tasks)
        for name, _ in named:
            yield from _judged(name, next(sights), next(sights))


def _judged(name: str, packed: Sight, freely: Sight) -> Iterator[Row]:
    beside = "not packed"
    split = exactly(f"{name}: sub-node jobs split", packed.split, "moments", 0)
    yield replace(split, peer=beside, peer_value=freely.split)
    shared = exactly(f"{name}: network cards shared", packed.shared_cards, "moments", 0)
    yield replace(shared, peer=beside, peer_value=freely.shared_cards)
    yield told(
        f"{name}: moments looked at", packed.moments, "", peer="jobs", peer_value=packed.jobs
    )
    yield told(
        f"{name}: migrations per job",
        packed.migrations / packed.jobs,
        "",
        peer="resizes per job",
        peer_value=packed.resizes / packed.jobs,
    )
    yield told(
        f"{name}: average JCT",
        packed.mean_jct_seconds / 3600.0,
        "h",
        peer="not packed, h",
        peer_value=freely.mean_jct_seconds / 3600.0,
    )


def watched(task: tuple[Workload, str]) -> Sight:
    """One run, looked at after every step."""
    workload, recipe = task
    given = workload(0)
    world = WatchedWorld(given, recipe)
    record = world.run()
    lines = record.jobs.values()
    return Sight(
        moments=world.moments,
        jobs=len(lines),
        split=world.split,
        shared_cards=world.shared_cards,
        migrations=world.moves.count,
        resizes=sum(line.resizes for line in lines),
        mean_jct_seconds=sum(line.jct_seconds or 0.0 for line in lines) / len(lines),
    )


class WatchedWorld(World):
    """A world that looks at all its seats after each step."""

    def __init__(self, given: Given, recipe: str) -> None:
        self.moves = Moves()
        super().__init__(
            given.cluster,
            given.jobs,
            Brain(make_recipe(recipe)),
            costs=MEASURED,
            journal=self.moves,
        )
        self.moments = self.split = self.shared_cards = 0
        self._node_gpus = given.cluster.nodes[0].gpus
        self._looked_at: dict[JobId, Placement] = {}

    def step(self) -> None:
        super().step()
        present = {run.job.id: run.placement for run in self.running()}
        if present == self._looked_at:
            return
        self._looked_at = present
        self.moments += 1
        wide: dict[NodeId, int] = {}
        split = False
        for placement in present.values():
            if len(placement.nodes) > 1:
                split = split or placement.width <= self._node_gpus
                for node in placement.nodes:
                    wide[node] = wide.get(node, 0) + 1
        self.split += split
        self.shared_cards += any(count > 1 for count in wide.values())


class Moves(Journal):
    """Counts jobs that are stopped for their own sake."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def record(self, event: Event, instructions: Sequence[Instruction]) -> None:
        self.count += sum(type(i) is Preempt and i.beneficiary == i.job for i in instructions)


def _workloads(traces: Path | None, *, short: bool) -> Iterator[tuple[str, Workload]]:
    for size in NODE_SIZES[-1:] if short else NODE_SIZES:
        yield (
            f"generated on nodes of {size}",
            partial(generated, load=0.9, jobs=GENERATED_JOBS, gpus=GENERATED_GPUS, node_gpus=size),
        )
    if traces is None or short:
        return
    for cluster in VIRTUAL_CLUSTERS:
        yield (
            f"{cluster.tenant} on nodes of {NODE_GPUS}",
            partial(on_nodes, traces=traces, cluster=cluster),
        )
