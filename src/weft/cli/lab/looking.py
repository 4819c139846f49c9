"""A look at a workload of the user's own before it is run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.cli.terminal.screen import say

if TYPE_CHECKING:
    from weft.lab.experiment import Experiment


def look_before(experiment: "Experiment", recipes: Sequence[str]) -> None:
    """Say what is odd about it on that cluster; refuse what would show nothing.

    Generated workloads are made for their cluster, and only those of a file are looked at for
    anything but queues. What is written wrongly is told alone, before any remark.
    """
    from weft.lab.workloads.preflight import preflight, remarks
    from weft.sim.costs import named_costs
    from weft.spec.recipe import make_recipe, split_recipes
    from weft.trace.clusters import read_cluster

    named_costs(experiment.costs, scale=experiment.cost_scale)
    setup = read_cluster(experiment.cluster)
    made = [make_recipe(one) for text in recipes for one in split_recipes(text)]
    workload = experiment.source.load(seed=experiment.seed, gpus=setup.cluster.gpus)
    for note in (*remarks(workload), *preflight(workload.jobs, setup, made)):
        say(f"note: {note}")
