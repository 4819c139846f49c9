"""One simulation: a workload on a cluster under a recipe, with a seed and costs.

An experiment is described by texts a person can type, so that it travels to a worker process, into
a manifest and back out of one, and is the same experiment everywhere.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from weft.brain.brain import Brain
from weft.brain.journal import Journal
from weft.lab.summary import Labels, Summary, summarise
from weft.lab.workloads.failing import named_troubles
from weft.lab.workloads.source import Source
from weft.sim.costs import named_costs
from weft.sim.faults import Faults
from weft.sim.record import Record
from weft.sim.world import Checks, World
from weft.spec.recipe import blamed, make_recipe
from weft.trace.clusters import ClusterSetup, read_cluster
from weft.trace.workload import Workload

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """What is to be run; `cluster`, `recipe`, `costs` and `failures` as on a command line."""

    source: Source
    cluster: str = "8x8"
    recipe: str = "las"
    seed: int = 0
    costs: str = "tacc"
    cost_scale: float = 1.0
    failures: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it."""

    experiment: Experiment
    setup: ClusterSetup
    workload: Workload
    record: Record
    summary: Summary


def run(
    experiment: Experiment,
    *,
    journal: Journal | None = None,
    keep_sittings: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """Simulate to the end."""
    setup = read_cluster(experiment.cluster)
    costs = named_costs(experiment.costs, scale=experiment.cost_scale)
    recipe = make_recipe(experiment.recipe)
    workload = experiment.source.load(seed=experiment.seed, gpus=setup.cluster.gpus)
    failures, seed = experiment.failures, experiment.seed
    troubles = named_troubles(failures, workload.jobs, setup.cluster, seed)
    begun = perf_counter()
    world = World(
        setup.cluster,
        workload.jobs,
        Brain(recipe, tree=setup.queues),
        costs=costs,
        faults=Faults(troubles=troubles),
        seed=experiment.seed,
        journal=journal,
        checks=Checks.TOUCHED,
        keep_sittings=keep_sittings,
    )
    try:
        record = world.run(progress=progress)
    except Exception as error:
        raise blamed(error, experiment.recipe) or error from error
    labels = Labels(
        recipe=experiment.recipe,
        workload=experiment.source.label,
        cluster=experiment.cluster,
        costs=costs.name,
    )
    summary = summarise(record, labels, wall_seconds=perf_counter() - begun)
    return Outcome(
        experiment=experiment, setup=setup, workload=workload, record=record, summary=summary
    )
