"""The same workload in the simulated world, with costs and speeds as they were measured."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean

from benchmarks.local.calibration import Measured
from benchmarks.local.workload import RECIPE, SLOTS, Lived, Planned
from weft.brain.brain import Brain
from weft.model.cluster import Cluster
from weft.model.curve import Curve
from weft.model.ids import JobId
from weft.model.job import Job
from weft.model.request import INDIFFERENT, Width
from weft.model.truth import Work
from weft.sim.costs import Costs, Distribution
from weft.sim.world import Checks, World
from weft.spec.recipe import make_recipe

SEEDS = 20


def play(jobs: Sequence[Planned], measured: Measured) -> Mapping[str, Lived]:
    """When each job ends, on average over some seeds."""
    ends: dict[str, list[float]] = {job.name: [] for job in jobs}
    for seed in range(SEEDS):
        world = World(
            Cluster.uniform(1, SLOTS),
            [_job(job, measured) for job in jobs],
            Brain(make_recipe(RECIPE)),
            costs=_costs(measured),
            seed=seed,
            checks=Checks.FULL,
        )
        for record in world.run().jobs.values():
            assert record.ended is not None, record
            ends[record.id].append(record.ended)
    return {job.name: Lived(job.at_seconds, fmean(ends[job.name])) for job in jobs}


def swapped(real: Mapping[str, Lived], foretold: Mapping[str, Lived], apart: float) -> int:
    """Pairs whose ends are that far apart here, as a share of the later one, and swapped there."""
    return sum(
        (real[one].ended < real[other].ended) != (foretold[one].ended < foretold[other].ended)
        for one, other in combinations(real, 2)
        if _gap(real[one].ended, real[other].ended) > apart
    )


def _gap(one: float, other: float) -> float:
    return abs(one - other) / max(one, other)


def _job(job: Planned, measured: Measured) -> Job:
    """Its work is what it would take on the GPUs it asks for, well placed."""
    least, most = job.range
    curve = Curve(measured.rates)
    return Job.told(
        id=JobId(job.name),
        width=Width(least, most, most),
        work=Work(job.steps / curve.at(most)),
        submit_seconds=job.at_seconds,
        locality=INDIFFERENT,
        curve=curve,
    )


def _costs(measured: Measured) -> Costs:
    """An end is noticed late, and holds its slots until then: it is paid for at the start."""
    whole = [start + end for start, end in zip(measured.starts, measured.ends, strict=True)]
    return Costs(
        "measured",
        start=_distribution("start", whole),
        resize=_distribution("resize", [*measured.grows, *measured.shrinks]),
    )


def _distribution(name: str, samples: Sequence[float]) -> Distribution:
    """The quantile function of what was measured."""
    ordered = sorted(max(sample, 0.0) for sample in samples)
    if len(ordered) == 1:
        return Distribution(name, ((0.0, ordered[0]),))
    last = len(ordered) - 1
    return Distribution(name, tuple((i / last, s) for i, s in enumerate(ordered)))
