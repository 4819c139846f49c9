"""Whole runs in which cores and memory are shared out: nothing twice, nobody slower, all end."""

import random
from collections import defaultdict

import pytest

from tests.builders import a_job, a_node
from weft.brain.brain import Brain, Settings
from weft.brain.event import NodeAdded, NodeChanged, NodeLost, Phase
from weft.model.cluster import Cluster
from weft.model.host import HostCurve, PerGpu
from weft.model.job import Job
from weft.perf.host import host_factor
from weft.policy.recipes import RECIPES
from weft.sim.costs import COSTS
from weft.sim.faults import NO_FAULTS, Faults
from weft.sim.world import Checks, World

UNTOLD = HostCurve.by_cores([(1, 0.4), (3, 1.0), (9, 2.5)])
CURVES = (
    HostCurve(
        (1.0, 3.0, 6.0, 12.0),
        (20.0, 60.0, 120.0),
        ((0.1, 0.3, 0.3), (0.1, 1.0, 1.0), (0.1, 1.7, 1.7), (0.1, 2.0, 2.9)),
    ),
    HostCurve.by_cores([(1, 0.4), (3, 1.0), (4, 1.15)]),
    HostCurve((1.0, 24.0), (20.0, 250.0), ((1.0, 1.0), (1.0, 1.0))),
    UNTOLD,
    None,
)
FAIR = PerGpu(3.0, 62.5)
NODES = [a_node(f"n{i}", 8, cpus=24.0, memory_gib=500.0) for i in range(3)]


def a_crowd(seed: int, count: int = 45, *, elastic: bool = False) -> list[Job]:
    """Jobs with and without GPUs, wide and narrow, of all host_samples."""
    draw, found, at = random.Random(f"crowd {seed}"), [], 0.0
    for number in range(count):
        at += draw.expovariate(1 / 120)
        seconds, name = draw.uniform(60.0, 6000.0), f"j{number}"
        if draw.random() < 0.2:
            cores = float(draw.choice((1, 4, 12, 24)))
            found.append(a_job(name, 0, at=at, seconds=seconds, cpus=cores))
            continue
        gpus = draw.choice((1, 1, 1, 2, 4, 12))
        width = (1, gpus) if elastic and draw.random() < 0.5 else None
        host = draw.choice(CURVES)
        found.append(
            a_job(
                name,
                gpus,
                at=at,
                seconds=seconds,
                width=width,
                cpus_per_gpu=3.0,
                memory_gib_per_gpu=60.0,
                host=host,
                tell_host=host is not UNTOLD,
            )
        )
    return found


def a_world(recipe: str, seed: int, faults: Faults = NO_FAULTS, *, elastic: bool = False) -> World:
    brain = Brain(RECIPES[recipe](host=True), settings=Settings(silence_seconds=300.0))
    jobs = a_crowd(seed, elastic=elastic)
    costs = COSTS["tacc"]
    return World(
        Cluster(tuple(NODES)),
        jobs,
        brain,
        costs=costs,
        faults=faults,
        seed=seed,
        checks=Checks.FULL,
    )


def all_ended(world: World) -> bool:
    return all(line.outcome == "succeeded" for line in world.record.jobs.values())


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("recipe", ["fifo", "srtf", "sensitivity", "maxmin"])
def test_in_good_weather_no_core_is_used_twice_and_nobody_is_slower_than_fair(
    recipe: str, seed: int
) -> None:
    world = a_world(recipe, seed, elastic=recipe == "maxmin")
    capacity = {node.id: (node.cpus, node.memory_gib) for node in NODES}
    fed = 0
    while world.pending:
        world.step()
        used: dict[str, PerGpu] = defaultdict(lambda: PerGpu(0.0, 0.0))
        for run in world.running():
            for seat in run.seats:
                cores, gib = used[seat.node]
                more = run.fed.cores * seat.gpus, run.fed.memory_gib * seat.gpus
                used[seat.node] = PerGpu(
                    cores + seat.cpus + more[0], gib + seat.memory_gib + more[1]
                )
            fed += run.fed.cores > 0
            host = run.job.truth.host
            if run.phase is Phase.RUNNING and host is not None:
                speed = host_factor(host, run.placement.seats, run.more_per_gpu)
                assert speed >= host.at(FAIR) - 1e-9, run.job.id
        for node, (cores, gib) in used.items():
            most_cores, most_gib = capacity[node]  # type: ignore[index]
            assert cores <= most_cores + 1e-6 and gib <= most_gib + 1e-6, (node, cores, gib)  # type: ignore[operator]
    world.run()
    assert all_ended(world) and fed


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("recipe", ["srtf", "sensitivity", "maxmin"])
def test_in_bad_weather_everything_ends_all_the_same(recipe: str, seed: int) -> None:
    """Messages are lost, late and repeated, jobs fail, a node goes, shrinks and comes back."""
    node = NODES[1]
    less = a_node("n1", 8, cpus=12.0, memory_gib=300.0)
    faults = Faults(
        job_failure=0.05,
        refuse_start=0.05,
        drop_report=0.1,
        repeat_report=0.1,
        drop_instruction=0.1,
        repeat_instruction=0.1,
        late_seconds=30.0,
        until_seconds=8000.0,
        planned=(
            NodeLost(2000.0, node.id),
            NodeAdded(3000.0, less),
            NodeChanged(5000.0, node),
        ),
    )
    world = a_world(recipe, seed, faults, elastic=recipe == "maxmin")
    world.run()
    over = {line.outcome for line in world.record.jobs.values()}
    assert over <= {"succeeded", "failed"}, over
    assert sum(line.outcome == "succeeded" for line in world.record.jobs.values()) > 35


def test_the_same_seed_gives_the_same_journal() -> None:
    assert a_world("srtf", 1).run().journal_hash == a_world("srtf", 1).run().journal_hash
