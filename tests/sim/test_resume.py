"""A world that begins in the middle goes on as if it had been there from the beginning."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.builders import a_job, a_node
from tests.sim.checks import fingerprint
from weft.brain.brain import Brain, Settings
from weft.brain.event import (
    Event,
    InstructionDone,
    JobCancelled,
    JobFinished,
    NodeAdded,
    NodeLost,
    Phase,
    Tick,
)
from weft.brain.instruction import Instruction
from weft.brain.journal import Journal, encode
from weft.model.cluster import Cluster
from weft.model.curve import Curve
from weft.model.errors import SpecError
from weft.model.host import HostCurve
from weft.model.ids import JobId, NodeId
from weft.model.job import Job
from weft.model.loss import LossCurve
from weft.model.request import Locality, WorkUnit
from weft.model.truth import Work
from weft.policy.recipes import RECIPES
from weft.sim.costs import TACC, Costs, constant
from weft.sim.faults import NO_FAULTS, Faults
from weft.sim.moment import InFlight, Moment
from weft.sim.sampled import sampled
from weft.sim.world import Checks, World

NODES = [
    a_node(f"n{number}", 8, rack=f"r{number % 2}", cpus=32.0, memory_gib=500.0)
    for number in range(4)
]
CURVE = Curve(((1, 10.0), (2, 18.0), (4, 30.0), (8, 40.0)))
HOST = HostCurve.by_cores([(1, 0.4), (3, 1.0), (9, 2.5)])
LOSS = LossCurve.through(first=5.0, target=1.0, floor=0.5, steps=4_000.0, noise=0.01)
COSTLY = Costs(
    "costly",
    start=TACC,
    stop=constant(2.0),
    resize=TACC.scaled(3.0),
    resize_pause=constant(3.0),
    move=TACC,
)
ROUGH = Faults(
    job_failure=0.15,
    refuse_start=0.1,
    planned=(
        NodeLost(1000.0, NodeId("n1")),
        JobCancelled(1500.0, JobId("j7")),
        JobCancelled(1700.0, JobId("j9")),
        NodeAdded(2000.0, NODES[1]),
        NodeLost(2600.0, NodeId("n0")),
        NodeAdded(3000.0, NODES[0]),
    ),
)


class Lines(Journal):
    """Keeps each line by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[bytes] = []

    def record(self, event: Event, instructions: Sequence[Instruction]) -> None:
        self.records += 1
        self.lines.append(encode(event, instructions))


def a_workload(seed: int, count: int = 36) -> list[Job]:
    """Wide, narrow and elastic jobs, many at one instant, of which much is told or little."""
    draw, found, at = Random(f"resume {seed}"), [], 0.0
    for number in range(count):
        at += draw.choice((0.0, 0.0, draw.expovariate(1 / 150)))
        gpus = draw.choice((1, 1, 2, 2, 4, 8, 12))
        elastic = draw.random() < 0.5
        host = draw.choice((None, None, HOST))
        samples = draw.random() < 0.3
        seconds = draw.choice((600.0, 1800.0, draw.uniform(60.0, 3000.0)))
        found.append(
            a_job(
                f"j{number}",
                gpus,
                at=at,
                width=(max(gpus // 2, 1), min(2 * gpus, 16)) if elastic else None,
                work=Work(20.0 * seconds, WorkUnit.SAMPLES) if samples else Work(seconds),
                curve=CURVE if samples or elastic else None,
                tell_curve=draw.random() < 0.5,
                tell_work=draw.random() < 0.6,
                loss=draw.choice((None, LOSS)),
                locality=draw.choice((Locality(), Locality(0.5, 0.5))),
                cpus_per_gpu=3.0,
                memory_gib_per_gpu=30.0,
                host=host,
                tell_host=draw.random() < 0.5,
                checkpoint_interval_seconds=draw.choice((0.0, 300.0)),
                saves_on_demand=draw.random() < 0.5,
                priority=draw.choice((0, 0, 0, 1)),
                program=draw.choice(("", "train")),
            )
        )
    return found


def a_world(recipe: str, seed: int, *, costs: Costs = COSTLY, faults: Faults = NO_FAULTS) -> World:
    settings = Settings(answer_seconds=30.0, silence_seconds=400.0)
    return World(
        Cluster(tuple(NODES)),
        a_workload(seed),
        Brain(RECIPES[recipe](host=recipe == "weave"), settings=settings),
        costs=costs,
        faults=faults,
        seed=seed,
        journal=Lines(),
        checks=Checks.OFF,
    )


def lines_of(world: World) -> list[bytes]:
    assert isinstance(world.journal, Lines)
    return world.journal.lines


def resumed(world: World, jobs: Sequence[Job]) -> World:
    """Another world that begins where this one is."""
    now = world.now
    return World.resume(
        world.brain.copied(),
        {job.id: job.truth for job in jobs},
        moment=world.moment(),
        coming=[job for job in jobs if job.submit_seconds > now],
        costs=world.costs,
        faults=world.faults,
        seed=world.record.seed,
        journal=Lines(),
        checks=Checks.OFF,
    )


SEEDS = range(1)
AHEAD_SECONDS = 1_500.0
SIGHTS: dict[str, Callable[[InFlight], bool]] = {
    "anything": lambda run: True,
    "a start": lambda run: run.phase is Phase.STARTING,
    "a stop": lambda run: run.phase is Phase.STOPPING,
    "a resize": lambda run: run.target is not None,
    "a pause": lambda run: run.since > run.foreseen,
    "news": lambda run: run.news > run.version,
}

TELLING_SIGHTS = {
    "las": ("a start", "a stop"),
    "backfill": ("a start", "news"),
    "weave": ("a resize", "a pause"),
    "afs-l": ("a resize", "a stop"),
}


def go_to(world: World, at: float, sight: str) -> None:
    """Run to an instant that shows a run like this, or to one that does not a while later."""
    world.run(horizon_seconds=at)
    while not any(map(SIGHTS[sight], world.moment().runs)):
        if world._agenda.next_at > at + 500.0:
            break
        world.run(horizon_seconds=world._agenda.next_at)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("costs", "faults"),
    [(COSTLY, NO_FAULTS), (COSTLY, ROUGH), (Costs("free"), ROUGH)],
    ids=["costly", "rough", "free"],
)
@pytest.mark.parametrize("recipe", ["las", "backfill", "weave", "afs-l"])
def test_the_rest_of_a_run_is_the_same_to_the_byte(
    recipe: str, costs: Costs, faults: Faults, seed: int
) -> None:
    jobs, world = a_workload(seed), a_world(recipe, seed, costs=costs, faults=faults)
    draw, twins = Random(f"{recipe} {costs.name} {seed}"), []
    sights = [*TELLING_SIGHTS[recipe], draw.choice(list(SIGHTS))]
    instants = sorted(draw.uniform(0.0, 3_500.0) for _ in sights)
    for at, sight in zip(instants, sights, strict=True):
        go_to(world, at, sight)
        twins.append((len(lines_of(world)), world.now, resumed(world, jobs)))
    whole = world.run(horizon_seconds=world.now + AHEAD_SECONDS)
    ends = {job: line.ended for job, line in whole.jobs.items()}
    for begun, at, twin in twins:
        record = twin.run(horizon_seconds=at + AHEAD_SECONDS)
        lines = lines_of(twin)
        assert lines == lines_of(world)[begun : begun + len(lines)]
        ended = {job: line.ended for job, line in record.jobs.items() if line.ended is not None}
        assert ended.items() <= ends.items()
        assert len(lines) > 20


# --- what a moment says is what holds -------------------------------------------------------------


def two_runs(**changed: Any) -> tuple[World, list[InFlight]]:
    """Two equal jobs that have run for 100 s, and what is known of them with something changed."""
    twins = [a_job(name, seconds=1000.0, checkpoint_interval_seconds=0.0) for name in "ab"]
    hasty = [Job(job.request, replace(job.truth, saves_on_demand=False)) for job in twins]
    world = World(Cluster.uniform(1, 8), hasty, Brain(RECIPES["fifo"]()))
    world.run(horizon_seconds=100.0)
    world.brain.handle(Tick(100.0))
    return world, [replace(run, **changed) for run in world.moment().runs]


def go_on(world: World, runs: Sequence[InFlight], faults: Faults = NO_FAULTS) -> list[Event]:
    """All that the brain hears from there on."""
    journal = Heard()
    truths = {run.job.id: run.job.truth for run in world.running()}
    brain, moment = world.brain.copied(), Moment(tuple(runs))
    World.resume(brain, truths, moment=moment, journal=journal, faults=faults).run()
    return journal.events


class Heard(Journal):
    """Keeps what the brain heard."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []

    def record(self, event: Event, instructions: Sequence[Instruction]) -> None:
        self.events.append(event)


def test_of_two_that_end_at_once_the_first_is_the_one_that_was_put_down_first() -> None:
    world, (a, b) = two_runs()
    later = replace(a, order=b.order._replace(end=b.order.end + 1))
    for runs, names in (([a, b], ["a", "b"]), ([later, b], ["b", "a"])):
        ends = [event for event in go_on(world, runs) if isinstance(event, JobFinished)]
        assert [(end.at, end.job) for end in ends] == [(1000.0, name) for name in names]


def test_a_run_that_breaks_keeps_what_was_saved() -> None:
    world, runs = two_runs(saved=70.0)
    node = world.brain.state.node_ids[0]
    lost = Faults(planned=(NodeLost(50.0, node), NodeLost(200.0, node)))
    heard = go_on(world, runs, lost)
    kept = [event.work_kept for event in heard if isinstance(event, InstructionDone)]
    assert kept == [70.0, 70.0]
    assert len([event for event in heard if isinstance(event, NodeLost)]) == 1


def test_a_run_is_as_fast_as_its_world_has_measured() -> None:
    world, runs = two_runs(units_per_second=2.0, work_done=100.0, since=100.0, foreseen=100.0)
    ends = [event.at for event in go_on(world, runs) if isinstance(event, JobFinished)]
    assert ends == [550.0, 550.0]


# --- what is believed, where nobody can look ------------------------------------------------------


def forecast(world: World, seed: int, coming: Sequence[Job] = ()) -> World:
    brain = world.brain.copied()
    return World.resume(
        brain,
        sampled(brain, seed),
        coming=coming,
        costs=world.costs,
        seed=seed,
        journal=Lines(),
        checks=Checks.TOUCHED,
    )


@pytest.mark.parametrize("recipe", ["las", "weave"])
def test_a_forecast_runs_everything_to_its_end(recipe: str) -> None:
    jobs, world = a_workload(3), a_world(recipe, 3)
    go_to(world, 1000.0, "a resize" if recipe == "weave" else "a stop")
    before, coming = fingerprint(world.brain), [j for j in jobs if j.submit_seconds > world.now]
    first, again, other = (forecast(world, seed, coming) for seed in (0, 0, 1))
    record = first.run()
    for each in (again, other):
        each.run(horizon_seconds=world.now + 500.0)
    assert fingerprint(world.brain) == before
    assert {line.outcome for line in record.jobs.values()} == {"succeeded"}
    assert len(record.jobs) == len(world.brain.state.slot_of) + len(coming)
    begin = lines_of(again)
    assert lines_of(first)[: len(begin)] == begin
    assert lines_of(other)[: len(begin)] != begin


def test_where_all_is_told_and_free_a_forecast_is_what_happens() -> None:
    told = [a_job(f"j{n}", n % 5 + 1, at=60.0 * n, seconds=900.0 + 31 * n) for n in range(40)]
    world = World(Cluster.uniform(2, 8), told, Brain(RECIPES["las"]()), journal=Lines())
    world.run(horizon_seconds=1500.0)
    coming = [job for job in told if job.submit_seconds > world.now]
    foretold, happened = forecast(world, 5, coming).run(), world.run()
    for job, line in foretold.jobs.items():
        assert line.ended == pytest.approx(happened.jobs[job].ended)


def a_brain(*jobs: Job, seconds: float = 0.0) -> Brain:
    """After so long, with all of them running."""
    world = World(Cluster.uniform(8, 8), jobs, Brain(RECIPES["fifo"]()))
    world.run(horizon_seconds=1.0)
    brain = world.brain.copied()
    brain.handle(Tick(seconds))
    return brain


def totals(brain: Brain, name: str, seeds: int = 200) -> list[float]:
    return sorted(sampled(brain, seed)[JobId(name)].work.amount for seed in range(seeds))


def test_what_was_claimed_is_believed_until_it_is_exceeded() -> None:
    brain = a_brain(a_job("job", 2, seconds=1000.0))
    assert set(totals(brain, "job", 5)) == {1000.0}
    brain.handle(Tick(1500.0))
    assert min(totals(brain, "job", 5)) > 1500.0


def test_an_unknown_length_is_that_of_a_job_that_needed_more_than_this_one_has_had() -> None:
    brain = a_brain(a_job("job", 2, tell_work=False), seconds=500.0)
    for needed in range(1, 501):
        brain.state.finished.add(4.0 * needed)
    found = totals(brain, "job")
    assert 500.0 <= found[0] < 520.0
    assert 980.0 < found[-1] <= 1000.0
    assert found[100] == pytest.approx(750.0, abs=60.0)


def test_without_any_past_a_job_may_take_as_long_again() -> None:
    brain = a_brain(a_job("job", 2, tell_work=False), seconds=10_000.0)
    found = totals(brain, "job")
    assert 10_000.0 <= found[0] < 11_000.0
    assert 29_000.0 < found[-1] <= 30_000.0


def test_eight_in_ten_lie_within_the_interval() -> None:
    brain = a_brain(a_job("job", 1, tell_work=False))
    jobs, slot = brain.state.jobs, brain.state.slot_of[JobId("job")]
    jobs.work_low[slot], jobs.work_total[slot], jobs.work_high[slot] = 500.0, 600.0, 1000.0
    found = totals(brain, "job", 400)
    assert 0.74 < sum(500.0 <= total <= 1000.0 for total in found) / 400 < 0.86
    brain.handle(Tick(900.0))
    assert min(totals(brain, "job", 50)) > 900.0


def test_an_unknown_curve_is_the_one_that_was_learnt() -> None:
    job = a_job(
        "job",
        4,
        width=(1, 8),
        work=Work(1e6, WorkUnit.SAMPLES),
        curve=CURVE,
        tell_curve=False,
    )
    world = World(Cluster.uniform(1, 8), [job], Brain(RECIPES["weave"]()))
    world.run(horizon_seconds=3_000.0)
    truth = sampled(world.brain, 0)[job.id]
    assert truth.curve is not None
    for gpus in (2, 4, 8):
        assert truth.units_per_second(gpus) == pytest.approx(CURVE.at(gpus), rel=0.1)


def test_a_job_without_a_truth_is_named() -> None:
    brain = a_brain(a_job("job"))
    with pytest.raises(SpecError, match="job job is active"):
        World.resume(brain, {})


@pytest.mark.parametrize(
    ("least", "draw", "expected"), [(0, 0.25, 4.0), (6, 0.5, 7.1), (29, 0.5, 44.5), (99, 0.5, 99)]
)
def test_what_has_not_come_so_far_comes_later(least: float, draw: float, expected: float) -> None:
    assert TACC.beyond(least, draw) == pytest.approx(expected)
    assert constant(2.0).beyond(least, draw) == max(2.0, least)
