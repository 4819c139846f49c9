"""What workers of the simulated world measure, when they tell it, and how far off they are."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.builders import a_cluster, a_job
from weft.brain.brain import Brain
from weft.brain.event import Event, JobMeasured
from weft.brain.instruction import Instruction
from weft.brain.journal import Journal
from weft.model.claim import StageClaim
from weft.model.curve import Curve
from weft.model.job import Job
from weft.model.loss import LossCurve
from weft.model.request import WorkUnit
from weft.model.stages import StageProfile
from weft.model.truth import Work
from weft.perf.interleaving.group import MURI_OVERHEAD, CycleModel
from weft.policy.recipe import Recipe
from weft.policy.recipes import afs_p, even, fifo
from weft.sim.costs import Costs, constant
from weft.sim.telling import SILENT, Telling
from weft.sim.world import Checks, World
from weft.spec.recipe import make_recipe

SECRET = Curve(((1, 10.0), (2, 18.0), (4, 30.0), (8, 40.0)))
LOSS = LossCurve.through(first=5.0, target=1.0, floor=0.5, steps=40_000.0, noise=0.01)
SAMPLES = Work(40_000.0, WorkUnit.SAMPLES)
REAL = StageProfile(
    iteration_seconds=1.0, storage_seconds=0.5, gpu_seconds=0.4, gpu_memory_bytes=1 << 30
)
CLAIMED = replace(REAL, gpu_seconds=0.1)


class Listener(Journal):
    """Keeps all measurements that reach the brain."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[JobMeasured] = []

    def record(self, event: Event, instructions: Sequence[Instruction]) -> None:
        super().record(event, instructions)
        if isinstance(event, JobMeasured):
            self.told.append(event)

    def of(self, job: str) -> list[JobMeasured]:
        return [event for event in self.told if event.job == job]


def a_secret(name: str = "job", gpus: int = 8, **fields: Any) -> Job:
    """A job of which nobody has said how it scales, nor how long it is."""
    untold = {"tell_curve": False, "tell_work": False}
    return a_job(name, gpus, **{"curve": SECRET, "work": SAMPLES, **untold, **fields})


def a_member(
    name: str = "job", *, claims: StageProfile, shareable: bool = True, seconds: float = 1000.0
) -> Job:
    """One that may take turns, and says what its steps do, rightly or not."""
    job = a_job(name, 1, seconds=seconds)
    request = replace(job.request, shareable=shareable, stages=StageClaim(claims))
    return Job(request, replace(job.truth, stages=REAL))


def heard(
    *jobs: Job,
    recipe: Recipe | None = None,
    seed: int = 0,
    nodes: int = 2,
    gpus: int = 8,
    **parts: Any,
) -> Listener:
    """All that is told until everything has ended."""
    journal, brain = Listener(), Brain(recipe or fifo())
    cluster = a_cluster(nodes=nodes, gpus=gpus)
    world = World(cluster, jobs, brain, seed=seed, journal=journal, checks=Checks.FULL, **parts)
    record = world.run()
    assert all(line.outcome == "succeeded" for line in record.jobs.values())
    return journal


# --- when -----------------------------------------------------------------------------------------


def test_the_first_news_comes_after_a_while_and_then_every_so_often() -> None:
    """40 000 samples at 40 per second are a thousand seconds."""
    told = heard(a_secret(at=7.0)).of("job")
    assert [event.at for event in told] == [7.0 + 60.0 + 120.0 * n for n in range(8)]
    assert [event.seconds for event in told] == [60.0] + [120.0] * 7, "each second once"


def test_times_can_be_chosen() -> None:
    told = heard(a_secret(), telling=Telling(after_seconds=100.0, every_seconds=400.0)).of("job")
    assert [event.at for event in told] == [100.0, 500.0, 900.0]


def test_in_a_silent_world_nobody_measures() -> None:
    """As in simulators whose schedulers are told all there is to know."""
    assert not heard(a_secret(), telling=SILENT).told


def test_what_takes_place_before_training_is_not_measured() -> None:
    costs = Costs("slow", start=constant(30.0))
    told = heard(a_secret(), costs=costs).of("job")
    assert (told[0].at, told[0].seconds) == (90.0, 60.0)
    assert told[0].work_done == pytest.approx(60.0 * 40.0)


def test_a_job_that_ends_before_says_nothing() -> None:
    short = a_secret(work=Work(40.0 * 59.0, WorkUnit.SAMPLES))
    assert not heard(short).told


def test_after_a_change_of_width_it_takes_a_while_again() -> None:
    """A second job comes after 300 s and takes half of the node."""
    jobs = a_secret(width=(1, 8)), a_job("late", 4, at=300.0, seconds=500.0)
    told = heard(*jobs, recipe=even(hold=0.0), nodes=1).of("job")
    before = [event for event in told if event.gpus == 8 and event.at < 300.0]
    after = [event for event in told if event.gpus == 4]
    assert [event.at for event in before] == [60.0, 180.0]
    assert after[0].at - 60.0 == pytest.approx(300.0, abs=6.0)
    assert after[0].seconds == pytest.approx(60.0)
    assert all(event.gpus in (4, 8) for event in told)


# --- what -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("gpus", [1, 2, 3, 8])
@pytest.mark.parametrize("error", [0.0, 0.02, 0.2])
def test_a_speed_is_the_truth_within_the_error(gpus: int, error: float) -> None:
    telling = Telling(every_seconds=30.0, error=error)
    work = Work(1000.0 * SECRET.at(gpus), WorkUnit.SAMPLES)
    told = heard(a_secret(gpus=gpus, work=work), telling=telling).of("job")
    truth = SECRET.at(gpus)
    off = [event.units_per_second / truth - 1.0 for event in told]
    assert len(off) > 20
    assert max(map(abs, off)) <= error + 1e-12
    if error:
        assert min(off) < -error / 4 and max(off) > error / 4, "to both sides"
        assert len(set(off)) == len(off), "drawn anew each time"


def test_the_width_the_nodes_and_the_work_are_told_as_they_are() -> None:
    told = heard(a_secret(gpus=16, cpus_per_gpu=3.0)).of("job")
    assert {(event.gpus, event.nodes, event.cpus) for event in told} == {(16, 2, 48.0)}
    for event in told:
        assert event.work_done == pytest.approx(event.at * 40.0)
        assert (event.epoch, event.work_total, event.loss) == (1, None, None)


def test_a_loss_is_told_where_there_is_one() -> None:
    told = heard(a_secret(loss=LOSS)).of("job")
    losses = [event.loss for event in told if event.loss is not None]
    assert len(losses) == len(told) == 8
    truth = [LOSS.at(event.work_done) for event in told]
    assert losses == pytest.approx(truth, rel=0.05)
    assert losses != truth, "with noise"
    assert losses[0] > losses[-1]


def test_stages_are_told_that_are_others_than_were_claimed() -> None:
    """Some time after its start, and then seldom, as there is nothing else to say."""
    told = heard(a_member(claims=CLAIMED, seconds=2000.0)).of("job")
    assert [event.at for event in told] == [60.0, 960.0, 1860.0]
    for event in told:
        assert event.stages is not None
        assert event.stages.gpu_seconds == pytest.approx(REAL.gpu_seconds, rel=0.02)
        assert event.stages.gpu_memory_bytes == REAL.gpu_memory_bytes
    assert len({event.stages for event in told}) == len(told), "drawn anew each time"


def test_of_stages_that_were_claimed_as_they_are_nothing_is_told() -> None:
    private = a_member("private", claims=CLAIMED, shareable=False)
    assert not heard(a_member(claims=REAL), private).told


def test_who_takes_turns_tells_of_stages_as_they_are_there() -> None:
    slower = CycleModel(overhead=MURI_OVERHEAD).slower(2)
    pair = [a_member("one", claims=CLAIMED), a_member("other", claims=REAL, seconds=2500.0)]
    recipe, cycles = make_recipe("fifo(interleave=true)"), CycleModel(overhead=MURI_OVERHEAD)
    told = heard(*pair, recipe=recipe, nodes=1, gpus=1, cycles=cycles).told
    in_turns = [event for event in told if event.stages_in_turns is not None]
    assert {event.job for event in in_turns} == {"one"}, "of the other all is known"
    for event in in_turns:
        assert event.stages is None and event.stages_in_turns is not None
        assert event.stages_in_turns.gpu_seconds == pytest.approx(
            slower * REAL.gpu_seconds, rel=0.02
        )


def test_who_takes_turns_does_not_know_what_it_would_do_alone() -> None:
    pair = [a_member("one", claims=CLAIMED), a_member("other", claims=CLAIMED, seconds=2500.0)]
    told = heard(*pair, recipe=make_recipe("fifo(interleave=true)"), nodes=1, gpus=1).told
    alone = [event for event in told if event.stages is not None]
    assert {event.job for event in told} == {"one", "other"}
    assert {event.job for event in alone} == {"other"}, "the one that was left"
    assert alone[0].at > max(event.at for event in told if event.job == "one")


# --- of whom --------------------------------------------------------------------------------------


def test_of_jobs_with_nothing_to_learn_nothing_is_told() -> None:
    stated = a_secret("stated", tell_curve=True)
    plain = a_job("plain", 2, seconds=1000.0)
    journal = heard(stated, plain, a_secret("secret"), a_job("lossy", 2, loss=LOSS))
    assert {event.job for event in journal.told} == {"secret", "lossy"}


def test_whether_there_is_news_of_a_job() -> None:
    telling = Telling()
    assert telling.tells_of(a_secret()) and telling.tells_of(a_job(loss=LOSS))
    assert not telling.tells_of(a_job()) and not telling.tells_of(a_secret(tell_curve=True))


# --- the same again -------------------------------------------------------------------------------


def test_the_same_seed_tells_the_same_and_another_one_does_not() -> None:
    jobs = [a_secret(f"job{n}", 4, width=(1, 4), at=50.0 * n, loss=LOSS) for n in range(4)]
    one, again = (heard(*jobs, recipe=afs_p(hold=0.0), seed=1) for _ in range(2))
    other = heard(*jobs, recipe=afs_p(hold=0.0), seed=2)
    assert one.told == again.told
    assert one.digest == again.digest
    assert one.told != other.told


def test_what_is_told_of_one_job_does_not_depend_on_the_others() -> None:
    alone = heard(a_secret()).of("job")
    crowd = heard(a_secret(), a_secret("other", 4), a_secret("third", 2, loss=LOSS)).of("job")
    assert alone == crowd


# --- what comes of it -----------------------------------------------------------------------------


def test_a_brain_learns_the_curve_from_what_it_is_told() -> None:
    journal, brain = Listener(), Brain(afs_p(hold=0.0))
    work = Work(1e6, WorkUnit.SAMPLES)
    secret = a_secret(width=(1, 8), work=work)
    World(a_cluster(nodes=1, gpus=8), [secret], brain, journal=journal).run(horizon_seconds=600.0)
    assert {event.gpus for event in journal.of("job")} == {8, 4, 2}
    learnt = brain.state.menus.table.likely[brain.state.jobs.menu[0]]
    for width in (2, 4, 8):
        assert learnt[width] == pytest.approx(SECRET.at(width), rel=0.04)
