"""What a stop leaves of a job's work, and that jobs which take turns end all the same."""

from typing import Any

import pytest

from tests.builders import a_cluster, a_job
from weft.brain.brain import Brain
from weft.brain.event import Event, InstructionDone, Verb
from weft.brain.instruction import Instruction
from weft.brain.journal import Journal
from weft.policy.recipes import RECIPES
from weft.sim.record import Record
from weft.sim.world import Checks, World


class Kept(Journal):
    """What is told of the work that a preempted job can go on from."""

    def __init__(self) -> None:
        super().__init__()
        self.work: list[float | None] = []

    def record(self, event: Event, instructions: list[Instruction]) -> None:  # type: ignore[override]
        super().record(event, instructions)
        if isinstance(event, InstructionDone) and event.verb is Verb.PREEMPT:
            self.work.append(event.work_kept)


def interrupted(**fields: Any) -> tuple[Kept, Record]:
    """A job of an hour makes way for one of ten minutes after 2000 s."""
    journal = Kept()
    jobs = [a_job("long", 1, seconds=3600.0, **fields), a_job("short", 1, seconds=600.0, at=2000.0)]
    brain = Brain(RECIPES["srtf"](min_run=0.0, spacing=0.0))
    world = World(a_cluster(nodes=1, gpus=1), jobs, brain, journal=journal, checks=Checks.FULL)
    return journal, world.run()


@pytest.mark.parametrize(("every", "kept"), [(300.0, 1800.0), (1000.0, 2000.0), (1999.0, 1999.0)])
def test_who_does_not_save_on_demand_falls_back_to_its_last_checkpoint(
    every: float, kept: float
) -> None:
    journal, record = interrupted(saves_on_demand=False, checkpoint_interval_seconds=every)
    assert journal.work == [pytest.approx(kept)]
    line = record.jobs[next(iter(record.jobs))]
    assert line.ended == pytest.approx(3600.0 + 600.0 + 2000.0 - kept)


def test_who_saves_on_demand_loses_nothing() -> None:
    journal, record = interrupted(saves_on_demand=True, checkpoint_interval_seconds=1999.0)
    assert journal.work == [pytest.approx(2000.0)]
    assert record.jobs[next(iter(record.jobs))].ended == pytest.approx(4200.0)


@pytest.mark.parametrize("every", [5000.0, 0.0])
def test_nobody_yields_by_rank_in_the_middle_of_what_it_has_not_saved(every: float) -> None:
    journal, _ = interrupted(saves_on_demand=False, checkpoint_interval_seconds=every)
    assert journal.work == []


@pytest.mark.parametrize("every", [5000.0, 0.0])
def test_who_has_hardly_run_yields_once_and_is_spared_then(every: float) -> None:
    """Both short jobs come a minute after the long one has begun."""
    journal = Kept()
    jobs = [
        a_job("long", 1, seconds=3600.0, saves_on_demand=False, checkpoint_interval_seconds=every),
        a_job("short", 1, seconds=600.0, at=60.0),
        a_job("later", 1, seconds=600.0, at=720.0),
    ]
    brain = Brain(RECIPES["srtf"](min_run=0.0, spacing=0.0))
    world = World(a_cluster(nodes=1, gpus=1), jobs, brain, journal=journal, checks=Checks.FULL)
    record = world.run()
    assert journal.work == [0.0]
    assert [line.preemptions for line in record.jobs.values()] == [1, 0, 0]


@pytest.mark.parametrize("recipe", ["las", "tiresias", "gittins", "fair", "sensitivity", "srtf"])
def test_jobs_that_take_turns_end(recipe: str) -> None:
    """Half an hour between checkpoints, and a quarter of an hour is all that a recipe promises."""
    jobs = [
        a_job(f"j{n}", 8, seconds=6000.0 + n, at=10.0 * n, saves_on_demand=False, tenant=f"t{n}")
        for n in range(4)
    ]
    world = World(a_cluster(nodes=1, gpus=8), jobs, Brain(RECIPES[recipe]()), checks=Checks.FULL)
    record = world.run(horizon_seconds=100_000.0)
    assert {line.outcome for line in record.jobs.values()} == {"succeeded"}
