"""Laws that hold for elastic jobs as for others: each was broken once, on an ordinary cluster."""

from random import Random

import pytest

from tests.builders import HOUR, a_cluster, a_job, a_node, a_queue, given, queues
from weft.brain.brain import Brain
from weft.brain.event import Event
from weft.brain.instruction import Instruction
from weft.model.cluster import Cluster
from weft.model.curve import Curve
from weft.model.ids import JobId
from weft.model.job import Job
from weft.model.queue import QueueTree
from weft.model.request import Locality, WorkUnit
from weft.model.truth import Work
from weft.policy.recipes import RECIPES
from weft.sim.world import Checks, World

ELASTIC = ("even", "maxmin", "optimus", "afs-l", "afs-p", "aiturbo", "weave")
SHARING = ("even", "maxmin", "optimus", "afs-l", "afs-p")
"""Recipes that give every job its least before anybody gets more."""

LONG = 100 * HOUR


def widths_after(
    hours: float, name: str, jobs: list[Job], cluster: Cluster, tree: QueueTree | None = None
) -> dict[str, int]:
    world = World(cluster, jobs, Brain(RECIPES[name](), tree=tree), checks=Checks.FULL)
    world.run(horizon_seconds=hours * HOUR)
    return {str(run.job.id): run.placement.width for run in world.running()}


def sagging(name: str, most: int, speed: float) -> Job:
    """Ten per cent lost at five GPUs, and linear from there: what a learnt curve looks like."""
    curve, work = Curve(((1, 1.0), (5, 4.5), (most, speed))), Work(1e9, WorkUnit.SAMPLES)
    return a_job(name, 4, width=(1, most), work=work, curve=curve)


@pytest.mark.parametrize("name", ["optimus", "afs-l", "afs-p", "weave"])
def test_a_step_that_costs_more_than_there_is_is_taken_in_part(name: str) -> None:
    cluster = a_cluster(nodes=8, gpus=8)
    assert widths_after(1.0, name, [sagging("a", 73, 66.0)], cluster) == {"a": 64}
    two = widths_after(1.0, name, [sagging("a", 40, 39.0), sagging("b", 40, 39.0)], cluster)
    assert sum(two.values()) == 64


@pytest.mark.parametrize("name", [*SHARING, "aiturbo"])
def test_a_job_grows_beside_itself_where_it_would_lose_by_growing_apart(name: str) -> None:
    cluster = a_cluster(a_node("n0", 3), a_node("n1", 1, rack="r1"), a_node("n2", 4, rack="r2"))
    rest = [a_job(f"b{i}", 1, seconds=HOUR / 2) for i in range(2)]
    job = a_job("a", 2, width=(2, 4), seconds=LONG, locality=Locality(0.5, 0.5))
    jobs = [a_job("full", 4, seconds=LONG, max_nodes=1), job, *rest]
    assert widths_after(1.0, name, jobs, cluster) == {"full": 4, "a": 3}


@pytest.mark.parametrize("name", [*SHARING, "aiturbo"])
def test_whose_surplus_nobody_could_take_grows_like_others(name: str) -> None:
    job = a_job("a", 4, width=(1, 8), seconds=LONG)
    never = a_job("never", 5, width=(5, 8), seconds=60.0, at=HOUR / 4, max_nodes=1)
    jobs = [a_job("b", 3, seconds=HOUR / 2), job, never]
    assert widths_after(1.0, name, jobs, a_cluster(nodes=2, gpus=4)) == {"a": 8}


@pytest.mark.parametrize("name", ELASTIC)
def test_a_job_in_a_limited_queue_grows_up_to_the_limit(name: str) -> None:
    tree = queues(a_queue("all"), a_queue("small", limit=4, parent="all"))
    job = a_job("a", 4, width=(1, 8), seconds=LONG, queue="small")
    assert widths_after(0.5, name, [job], a_cluster(nodes=1, gpus=8), tree) == {"a": 4}


@pytest.mark.parametrize("name", ELASTIC)
def test_what_a_limited_queue_may_not_have_others_get(name: str) -> None:
    tree = queues(a_queue("all"), a_queue("A", limit=2, parent="all"), a_queue("B", parent="all"))
    jobs = [
        a_job(one, 4, width=(1, 8), seconds=LONG, queue=queue, tenant=queue)
        for one, queue in (("a1", "A"), ("a2", "A"), ("b", "B"))
    ]
    found = widths_after(1.0, name, jobs, a_cluster(nodes=1, gpus=8), tree)
    assert (found["b"], sum(found.values())) == (6, 8)


@pytest.mark.parametrize("name", SHARING)
@pytest.mark.parametrize("many", ["xy", "xyz"])
def test_jobs_for_one_gpu_type_share_it_beside_idle_ones_of_another(name: str, many: str) -> None:
    cluster = a_cluster(a_node("a", type="A100"), a_node("v", type="V100"))
    jobs = [
        a_job(one, 4, width=(1, 8), seconds=LONG, at=60.0 * at, types=[("V100", 1.0)], tenant=one)
        for at, one in enumerate(many)
    ]
    found = widths_after(1.0, name, jobs, cluster)
    assert set(found) == set(many) and sum(found.values()) == 8


@pytest.mark.parametrize("name", SHARING)
def test_what_a_gang_that_cannot_be_seated_was_to_have_does_not_idle(name: str) -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(RECIPES[name]())
    scene.submit(*(a_job(one, 5, preemptible=False, seconds=LONG) for one in "xy")).decide()
    scene.submit(a_job("gang", 4, max_nodes=1, seconds=LONG)).decide()
    scene.submit(a_job("elastic", 1, width=(1, 6), seconds=LONG)).decide().live("elastic")
    scene.wait(2 * HOUR)
    assert sum(scene.nodes("elastic").values()) == 6


@pytest.mark.parametrize("name", SHARING)
def test_seats_that_a_job_grows_by_have_numbers_of_their_own(name: str) -> None:
    scene = given(a_cluster(nodes=1, gpus=4)).with_recipe(RECIPES[name]())
    scene.submit(a_job("other", 3, preemptible=False)).decide()
    scene.submit(a_job("elastic", 1, width=(1, 4), seconds=LONG)).decide().live("elastic")
    scene.finish("other").wait(2 * HOUR)
    state = scene.brain.state
    seats = state.placement(state.slot_of[JobId("elastic")]).seats
    assert sum(seat.gpus for seat in seats) == 4
    assert len({seat.number for seat in seats}) == len(seats) > 1


@pytest.mark.parametrize("name", ["fifo", "backfill", "even", "srtf", "las", "afs-l", "weave"])
@pytest.mark.parametrize("parent", [{"guaranteed": 8, "borrowing": False}, {"limit": 8}])
def test_a_guarantee_is_reclaimed_where_the_parents_cap_binds(
    name: str, parent: dict[str, object]
) -> None:
    tree = queues(
        a_queue("P", **parent),  # type: ignore[arg-type]
        a_queue("A", 4, parent="P"),
        a_queue("B", 4, parent="P"),
    )
    jobs = [a_job(f"b{i}", 4, seconds=50 * HOUR, queue="B") for i in range(2)]
    jobs.append(a_job("a", 4, seconds=HOUR, at=HOUR, queue="A"))
    world = World(a_cluster(nodes=2, gpus=8), jobs, Brain(RECIPES[name](), tree=tree))
    record = world.run(horizon_seconds=3 * HOUR)
    start = record.jobs[jobs[-1].id].first_start
    assert start is not None and start <= HOUR + 60.0


def test_a_whole_node_comes_free_behind_a_stream_of_single_gpus() -> None:
    rng, at = Random(0), 0.0
    jobs: list[Job] = []
    while at < 24 * HOUR:
        at += rng.expovariate(16 * 1.05 / HOUR)
        jobs.append(a_job(f"s{len(jobs)}", seconds=rng.uniform(0.5, 1.5) * HOUR, at=at))
    jobs.append(a_job("whole", 8, seconds=HOUR, at=3 * HOUR, max_nodes=1))
    world = World(a_cluster(nodes=2, gpus=8), jobs, Brain(RECIPES["backfill"](longest_wait=1e9)))
    start = world.run(horizon_seconds=20 * HOUR).jobs[jobs[-1].id].first_start
    assert start is not None and start < 8 * HOUR


class Clocked(Brain):
    """Notes when its rounds are."""

    def handle(self, event: Event) -> list[Instruction]:
        before = self.rounds
        said = super().handle(event)
        if self.rounds > before:
            self.times.append(event.at)
        return said

    times: list[float]


@pytest.mark.parametrize("name", ["weave", "tiresias", "backfill", "las"])
def test_a_period_is_kept_whatever_happens(name: str) -> None:
    brain = Clocked(RECIPES[name](period=300.0))
    brain.times = []
    jobs = [a_job(f"j{i}", 4, seconds=5000.0 + 700 * i, at=37.0 * i) for i in range(12)]
    World(a_cluster(nodes=2, gpus=8), jobs, brain).run()
    gaps = [later - sooner for sooner, later in zip(brain.times, brain.times[1:], strict=False)]
    assert len(gaps) > 10 and min(gaps) >= 300.0 - 1e-6
