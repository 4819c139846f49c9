"""Nothing of a job's truth reaches a decision but by what its world reports.

Two worlds get the same requests and other truths: lengths, curves, losses, speeds by GPU type,
costs of being spread. Line by line their journals must be the same bytes, up to a report that
tells the two apart.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import a_job, a_node
from weft.brain.brain import Brain
from weft.brain.event import Event
from weft.brain.instruction import Instruction
from weft.brain.journal import Journal, encode
from weft.model.cluster import Cluster
from weft.model.curve import Curve
from weft.model.host import HostCurve
from weft.model.ids import GpuType
from weft.model.job import Job
from weft.model.loss import LossCurve
from weft.model.request import GpuSpeed, Locality, WorkUnit
from weft.model.truth import JobTruth, Strain, Work
from weft.policy.recipes import RECIPES
from weft.sim.world import Checks, World

HORIZON_SECONDS = 2500.0
TELLING = {"JobMeasured", "JobFinished", "JobFailed", "JobReported", "InstructionDone"}
"""Events in which a world says how a job fares."""
PREEMPTIVE_AND_ELASTIC = ("fifo", "backfill", "srtf", "las", "gittins", "maxmin", "afs-l", "afs-p")
NAMED = (*PREEMPTIVE_AND_ELASTIC, "optimus", "aiturbo", "sensitivity", "weave")
TYPES = ("v100", "h100")
NODES = tuple(
    a_node(f"n{i}", 4, type=TYPES[i % 2], rack=f"r{i // 2}", cpus=16.0, memory_gib=64.0)
    for i in range(4)
)


class Lines(Journal):
    """Keeps every record as it would be written."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[str, bytes, bytes]] = []

    def record(self, event: Event, instructions: Sequence[Instruction]) -> None:
        name = type(event).__name__
        self.kept.append((name, encode(event, ()), encode(event, instructions)))


def lived(jobs: Sequence[Job], recipe: str) -> list[tuple[str, bytes, bytes]]:
    journal = Lines()
    brain = Brain(RECIPES[recipe]())
    World(Cluster(NODES), jobs, brain, journal=journal, checks=Checks.OFF).run(
        horizon_seconds=HORIZON_SECONDS
    )
    return journal.kept


def told_apart_after(jobs: Sequence[Job], others: Sequence[Job], recipe: str) -> int:
    """The records up to which both worlds are the same; what follows is a report."""
    one, other = lived(jobs, recipe), lived(others, recipe)
    for number, (here, there) in enumerate(zip(one, other, strict=False)):
        if here[2] != there[2]:
            assert here[1] != there[1], f"other instructions after the same {here[1]!r}"
            assert {here[0], there[0]} & TELLING, f"{here[1]!r} and {there[1]!r}"
            return number
    return min(len(one), len(other))


def requests(rng: Random) -> list[Job]:
    """Jobs of which much is told, or little."""
    found, at = [], 0.0
    for number in range(rng.randint(3, 14)):
        at += rng.choice((0.0, 10.0, 400.0))
        gpus = rng.choice((1, 2, 4, 6))
        truth = a_truth(rng, gpus, rng.choice(tuple(WorkUnit)))
        types = rng.choice(((), (("v100", 1.0), ("h100", 2.0))))
        job = a_job(
            f"j{number}",
            gpus,
            at=at,
            types=types,
            width=rng.choice((None, (1, gpus + 2))),
            work=truth.work,
            curve=truth.curve,
            loss=truth.loss,
            host=truth.host,
            cpus_per_gpu=2.0,
            tell_work=rng.random() < 0.5,
            tell_curve=rng.random() < 0.5,
            tell_host=rng.random() < 0.5,
            locality=Locality(),
            saves_on_demand=rng.random() < 0.5,
            checkpoint_interval_seconds=rng.choice((0.0, 300.0)),
        )
        found.append(job)
    return found


def a_truth(rng: Random, asked: int, unit: WorkUnit) -> JobTruth:
    """Any at all."""
    top = rng.uniform(0.5, 50.0)
    curve = Curve(((1, top), (4, top * rng.uniform(1.0, 4.0)), (8, top * rng.uniform(4.0, 8.0))))
    target = rng.choice((None, 1.0))
    return JobTruth(
        work=Work(rng.uniform(10.0, 20_000.0), unit),
        asked_gpus=asked,
        curve=rng.choice((None, curve)) if unit is WorkUnit.SECONDS else curve,
        host=rng.choice((None, HostCurve.by_cores([(1.0, 0.5), (2.0, 1.0), (6.0, 2.0)]))),
        loss=rng.choice((None, LossCurve(rng.uniform(0.0, 0.1), 0.2, 0.5, target=target))),
        gpu_types=tuple(GpuSpeed(GpuType(name), rng.uniform(0.2, 3.0)) for name in TYPES),
        locality=Locality(rng.uniform(0.0, 0.5), rng.uniform(0.0, 0.5)),
        checkpoint_interval_seconds=rng.choice((0.0, 100.0)),
        saves_on_demand=rng.random() < 0.5,
        strains=rng.choice((None, Strain(0.5, 0.5, 0.5))),
        minds=rng.choice((None, Strain(0.0, 1.0, 0.5))),
    )


def with_other_truths(jobs: Sequence[Job], rng: Random) -> list[Job]:
    """Some part of it is another one, or all of it."""
    return [replace(job, truth=_another(job, rng)) for job in jobs]


def _another(job: Job, rng: Random) -> JobTruth:
    drawn = a_truth(rng, job.width.asked_gpus, job.request.unit)
    parts = ("work", "loss", "gpu_types", "locality", "saves_on_demand", "strains", "minds")
    changed = {name: getattr(drawn, name) for name in parts if rng.random() < 0.5}
    if drawn.curve is not None and rng.random() < 0.5:
        changed["curve"] = drawn.curve
    return replace(job.truth, **changed)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), recipe=st.sampled_from(NAMED))
def test_another_truth_changes_nothing_before_it_is_reported(seed: int, recipe: str) -> None:
    jobs = requests(Random(seed))
    told_apart_after(jobs, with_other_truths(jobs, Random(f"other {seed}")), recipe)


def test_worlds_run_together_for_a_while_before_they_are_told_apart() -> None:
    """The property would hold as well of worlds that differ from the first line."""
    lengths = []
    for seed in range(12):
        jobs = requests(Random(seed))
        others = with_other_truths(jobs, Random(f"other {seed}"))
        lengths.append(told_apart_after(jobs, others, "weave"))
    assert sorted(lengths)[len(lengths) // 2] > len(NODES) + 3


@pytest.mark.parametrize("part", ["work", "curve", "locality", "gpu_types", "target_loss"])
def test_a_request_that_tells_the_truth_is_found(part: str) -> None:
    job = a_job("a", 2, width=(1, 4), loss=LossCurve(0.1, 0.2, 0.5, target=1.0))
    leaks: dict[str, Any] = {
        "work": None,
        "curve": None,
        "locality": Locality(0.3, 0.3),
        "gpu_types": (GpuSpeed(GpuType("v100"), 0.5),),
        "target_loss": 0.7,
    }
    leaking = replace(job, request=replace(job.request, **{part: leaks[part]}))
    with pytest.raises(AssertionError):
        told_apart_after([job], [leaking], "weave")
