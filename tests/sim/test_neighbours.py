"""Neighbours slow each other in the simulated world as Philly's operators measured it."""

from dataclasses import replace

import pytest

from tests.builders import a_cluster, a_job, seats
from weft.brain.brain import Brain
from weft.brain.event import Phase
from weft.model.ids import JobId
from weft.model.job import Job
from weft.model.placement import Placement
from weft.model.request import Locality
from weft.model.truth import Strain
from weft.policy.recipes import RECIPES
from weft.sim.neighbours import RESNET_MINDS, RESNET_STRAINS, Neighbours
from weft.sim.run import Run
from weft.sim.world import World

ONE_SERVER, TWO_SERVERS = 114.8, 98.0
RESNET_LOCALITY = Locality(per_node_doubling=ONE_SERVER / TWO_SERVERS - 1.0)


def a_resnet(name: str, gpus: int = 2, *, seconds: float = 100.0) -> Job:
    return strained(a_job(name, gpus, seconds=seconds), RESNET_STRAINS, RESNET_MINDS)


def strained(job: Job, strains: Strain | None, minds: Strain | None = None) -> Job:
    return replace(job, truth=replace(job.truth, strains=strains, minds=minds))


def running(job: Job, placement: Placement) -> Run:
    run = Run(job, 1, placement.numbered(), 0.0, 0.0)
    run.phase = Phase.RUNNING
    return run


def images_per_second(*runs: Run) -> float:
    """Of the first, beside the others."""
    first, nodes = runs[0], len(runs[0].placement.nodes)
    spread = RESNET_LOCALITY.slowdown(nodes=nodes, fewest_nodes=1)
    by_name = {run.job.id: run for run in runs}
    return ONE_SERVER / spread / Neighbours(by_name).slowdown(first)


def test_phillys_two_servers() -> None:
    """One server, two servers, and two servers with neighbours on them or on their network."""
    here = running(a_resnet("r"), seats(a=2))
    apart = running(a_resnet("r"), seats(a=1, b=1))
    on_servers = [running(a_resnet(f"n{node}", 3), seats(**{node: 3})) for node in "ab"]
    network = Strain(network=1 / 3)
    on_network = running(strained(a_job("net", 6), network), seats(a=3, b=3))
    assert images_per_second(here) == pytest.approx(114.8)
    assert images_per_second(apart) == pytest.approx(98.0)
    assert images_per_second(apart, *on_servers) == pytest.approx(75.6, abs=0.05)
    assert images_per_second(apart, on_network) == pytest.approx(74.1, abs=0.05)


def test_who_sits_on_one_node_neither_uses_nor_minds_the_network() -> None:
    network = Strain(network=1.0)
    one = running(strained(a_job("one", 1), network, network), seats(a=1))
    beside = running(strained(a_job("two", 2), network, network), seats(a=1, b=1))
    both = {run.job.id: run for run in (one, beside)}
    assert Neighbours(both).slowdown(one) == Neighbours(both).slowdown(beside) == 1.0


def test_a_gang_goes_at_the_pace_of_its_slowest_node() -> None:
    pcie = Strain(pcie=1.0)
    gang = running(strained(a_job("gang", 2), None, Strain(pcie=0.5)), seats(a=1, b=1))
    beside = running(strained(a_job("beside"), pcie), seats(b=1))
    assert Neighbours({r.job.id: r for r in (gang, beside)}).slowdown(gang) == 1.5


def test_more_than_all_cannot_be_taken() -> None:
    one = running(strained(a_job("one"), None, Strain(host=0.5)), seats(a=1))
    others = [running(strained(a_job(f"o{n}"), Strain(host=0.9)), seats(a=1)) for n in range(3)]
    everybody = {run.job.id: run for run in (one, *others)}
    assert Neighbours(everybody).slowdown(one) == 1.5


def test_others_go_faster_when_a_neighbour_leaves() -> None:
    """Fifty seconds beside it, half again as slow; the rest alone."""
    minds = strained(a_job("minds", 1, seconds=100.0), None, Strain(pcie=0.5))
    short = strained(a_job("short", 1, seconds=50.0), Strain(pcie=1.0))
    brain = Brain(RECIPES["backfill"]())
    record = World(a_cluster(nodes=1, gpus=4), [minds, short], brain).run()
    ended = {job: line.ended for job, line in record.jobs.items()}
    begun = record.jobs[JobId("minds")].first_start
    assert ended[JobId("short")] is not None and begun is not None
    assert ended[JobId("minds")] == pytest.approx(begun + 50.0 + (100.0 - 50.0 / 1.5))


def test_nobody_who_minds_nothing_is_spoken_of() -> None:
    """A world without strains sends the messages that it always did."""
    plain = [a_job(f"j{n}", 1, seconds=5000.0) for n in range(3)]
    loud = [strained(job, Strain(pcie=1.0)) for job in plain]
    digests = {
        World(a_cluster(nodes=1, gpus=4), jobs, Brain(RECIPES["backfill"]())).run().journal_hash
        for jobs in (plain, loud)
    }
    assert len(digests) == 1
