"""Victims in columns against victims one by one: who clears a node, and what is free without whom.

A thousand jobs sit on nodes of eight GPUs, a few of them spread, some in company. A random part of
them is asked for, a part of the nodes cannot be used, and a part of the seats is on offer already.
"""

from dataclasses import dataclass
from functools import cache
from random import Random
from unittest.mock import patch

import numpy as np
import pytest

from tests.brain.test_company import COMPUTES, LOADS, recipe
from weft.brain.brain import Brain
from weft.brain.round import victims as victims_module
from weft.brain.round.victims import LOOKS, MANY_MORE, Victim, Victims
from weft.brain.state.brain_state import BrainState
from weft.model.cluster import Cluster
from weft.model.ids import JobId
from weft.model.job import Job
from weft.model.request import INDIFFERENT, Width
from weft.model.snapshot import Bools, Ints
from weft.model.state import State
from weft.model.truth import Work
from weft.policy.place.room import Room
from weft.sim.world import Checks, World

NODES, NODE_GPUS, JOBS = 250, 8, 1300
WIDTHS = (1, 1, 1, 1, 2, 4, 8, 12, 16)
SETTLED_SECONDS = 300.0


@cache
def crowded() -> BrainState:
    """More than fit, so that some join others; each with cores of its own."""
    rng = Random(0)
    jobs = [
        Job.told(
            id=JobId(f"j{number}"),
            width=Width.fixed(rng.choice(WIDTHS)),
            work=Work(1e6),
            stages=rng.choice((LOADS, COMPUTES)),
            shareable=True,
            saves_on_demand=True,
            locality=INDIFFERENT,
            cpus_per_gpu=rng.choice((0.5, 1.0, 1.5)),
        )
        for number in range(JOBS)
    ]
    brain = Brain(recipe())
    world = World(Cluster.uniform(NODES, NODE_GPUS), jobs, brain, checks=Checks.OFF)
    while world.now < SETTLED_SECONDS and world.pending:
        world.step()
    return brain.state


@dataclass
class Question:
    """What chance asks, and the plain way to answer it."""

    victims: Victims
    mask: Bools
    room: Room

    @classmethod
    def drawn(cls, rng: Random) -> "Question":
        state = crowded()
        jobs, company = state.jobs, state.seating.company
        running = np.flatnonzero((jobs.state == State.RUNNING) & jobs.active).tolist()
        leads = [slot for slot in running if not company.is_companion(slot)]
        rng.shuffle(leads)
        alone = [slot for slot in leads if not company.shares(slot)]
        rows = [row for slot in alone for row in state.seating.seat_rows[slot]]
        offered = {row for row in rows if rng.random() < 0.05}
        share = rng.choice((0.05, 0.5, 1.0))
        return cls(
            Victims(state, np.array(leads), np.arange(len(leads)), offered),
            np.array([rng.random() < share for _ in leads], bool),
            Room(
                np.array([rng.choice((0, 0, 0, 0, 1, 3)) for _ in range(NODES)]),
                np.array([rng.random() for _ in range(NODES)]),
                np.array([rng.random() for _ in range(NODES)]),
            ),
        )

    @property
    def asked(self) -> list[Victim]:
        """Worst first."""
        return [self.victims[index] for index in np.flatnonzero(self.mask).tolist()]

    def clears(self, width: int) -> tuple[int, list[Victim]] | None:
        free, gone = self.room.copy(), list[Victim]()
        for victim in self.asked:
            free.give(victim.seats)
            gone.append(victim)
            done = [node for node, *_ in victim.seats if free.gpus[node] >= width]
            if done:
                node = min(done)
                return node, [one for one in gone if node in _nodes(one)]
        return None


@pytest.fixture(autouse=True)
def some_nodes_cannot_be_used() -> object:
    there = np.array([Random(f"node {row}").random() < 0.9 for row in range(NODES)])
    with patch.object(victims_module, "usable", lambda _: there):
        yield


@pytest.mark.parametrize("seed", range(20))
def test_the_node_that_the_worst_can_clear(seed: int) -> None:
    asks = Question.drawn(Random(seed))
    for width in (1, 2, 4, 7, 8, 9):
        free: Ints = asks.room.gpus
        assert asks.victims.one_node(asks.mask, free, width) == asks.clears(width)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_free_without_them(seed: int) -> None:
    asks = Question.drawn(Random(seed))
    plain = asks.room.copy()
    for victim in asks.asked:
        plain.give(victim.seats)
    found = asks.victims.room_without(asks.mask, asks.room)
    assert found.gpus.tolist() == plain.gpus.tolist()
    assert found.cpus == pytest.approx(plain.cpus)
    assert found.memory_gib == pytest.approx(plain.memory_gib)


@pytest.mark.parametrize("seed", range(5))
def test_who_sits_on_some_nodes(seed: int) -> None:
    asks, rng = Question.drawn(Random(seed)), Random(seed)
    nodes = np.array([rng.random() < 0.1 for _ in range(NODES)])
    found = asks.victims.sitting_on(nodes).tolist()
    count = len(asks.victims.slots)
    assert found == [any(nodes[list(_nodes(asks.victims[index]))]) for index in range(count)]


def test_the_crowd_is_as_mixed_as_it_says() -> None:
    state = crowded()
    assert state.seat_count > MANY_MORE * LOOKS[0], "else no short look is taken"
    assert state.seating.company
    assert state.seating.any_spread
    assert state.counts_host


def _nodes(victim: Victim) -> set[int]:
    return {node for node, *_ in victim.seats}
