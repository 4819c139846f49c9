"""The operator in trouble: exceptions in any callback, poisoned objects, a clock that is set.

Each seed plays a term, or several where one ends, against a server that cannot be reached. Whatever
happened, jobs that train are never told to end, and a job that comes after the trouble is given a
seat. `WEFT_THOROUGH=1` plays 100 seeds, otherwise 25 are played.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from tests.kube.stage import RUNNING, Raw, Stage
from weft.kube.metrics import Metrics
from weft.kube.operator.faults import Faults
from weft.kube.operator.term import Term
from weft.model.ids import JobId
from weft.model.state import State

SEEDS = 100 if os.environ.get("WEFT_THOROUGH") else 25
METRICS = Metrics()
CALLBACKS = (
    "_job_changed",
    "_pod_changed",
    "_foreign_changed",
    "_node_changed",
    "_queue_changed",
    "_tell_nodes",
    "_tick",
    "_take",
    "_decided",
    "_see_standing",
    "look",
    "standing",
)
ERRORS: tuple[Callable[[], Exception], ...] = (
    lambda: KeyError("missing"),
    lambda: ZeroDivisionError("by nothing"),
    lambda: OverflowError("too large"),
    lambda: AssertionError("never"),
)
POISON: tuple[Raw, ...] = (
    {"state": "Running", "decision": "none"},
    {"state": "Running", "decision": {"epoch": "x", "seats": []}},
    {"state": "Starting", "decision": {"epoch": 2**70, "seats": [{"node": "n0", "gpus": 1}]}},
    {"state": "Queued", "past": {"failures": -5, "attainedGpuSeconds": 1e400}},
    {"conditions": [{}], "state": "Running"},
    {"state": "Running", "decision": {"epoch": 1, "seats": [{"node": "n0", "gpus": 10**30}]}},
)


class Trouble:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.faults = Faults()
        self.poisoned: list[tuple[str, Raw]] = []
        self.later: list[str] = []

    def stage(self) -> Stage:
        """What the API server has, in the eyes of a term that has just begun."""
        stage = Stage("backfill", faults=self.faults, metrics=METRICS)
        stage.queue("default")
        stage.job("a/trains", RUNNING)
        stage.pod("a/trains", epoch=1, seat=0, node="n0")
        for key, status in self.poisoned:
            stage.job(key, status)
        for key in self.later:
            stage.job(key)
        return stage

    async def play(self) -> None:
        for number in range(3):
            stage = self.stage()
            with contextlib.suppress(*(type(make()) for make in ERRORS)):
                await self.lead(stage, number)
        for _ in range(4):  # a job may have to be blamed twice before it is set aside
            stage = self.stage()
            stage.job("a/after")
            with contextlib.suppress(Exception):
                stage.term._begin()
                break
        self.check(stage)

    async def lead(self, stage: Stage, number: int) -> None:
        """A term with one trouble."""
        trouble = self.random.choice((self.stumble, self.poison, self.set_clock))
        with trouble(stage, number):
            stage.term._begin()
            hands = asyncio.create_task(stage.term.hands.run())
            turns = asyncio.create_task(stage.term._turns.run())
            await asyncio.sleep(0)
            self.live_on(stage, number)
            for _ in range(10):
                await asyncio.sleep(0)
            for task in (hands, turns):
                task.cancel()
            await asyncio.gather(hands, turns, return_exceptions=True)
            self.unharmed(stage)

    def live_on(self, stage: Stage, number: int) -> None:
        """What a watch brings; what breaks there would end the task of the watch."""
        self.later.append(f"b/job-{number}")
        with contextlib.suppress(*(type(make()) for make in ERRORS)):
            stage.job(self.later[-1])
            stage.node(f"n{number + 1}")
            stage.queue("default", limit=self.random.randint(8, 64))
            stage.term._tell_nodes()
            stage.rounds()

    # --- troubles -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def stumble(self, stage: Stage, number: int) -> Iterator[None]:
        """The n-th call of a callback fails, for once."""
        name, left = self.random.choice(CALLBACKS), [self.random.randint(0, 4)]
        real, error = getattr(Term, name), self.random.choice(ERRORS)

        def stumbling(term: Term, *given: Any) -> Any:  # noqa: ANN401 - whatever it takes
            left[0] -= 1
            if left[0] == -1:
                raise error()
            return real(term, *given)

        with patch.object(Term, name, stumbling):
            yield

    @contextlib.contextmanager
    def poison(self, stage: Stage, number: int) -> Iterator[None]:
        """An object that nobody expected."""
        key = f"c/poison-{number}"
        self.poisoned.append((key, self.random.choice(POISON)))
        stage.job(*self.poisoned[-1])
        stage.node(f"p{number}", gpus=self.random.choice(("1e30", "-4", "NaN", "many")))
        yield

    @contextlib.contextmanager
    def set_clock(self, stage: Stage, number: int) -> Iterator[None]:
        wall, by = time.time, self.random.choice((-86_400.0, -1.0, 3_600.0, 1e6))
        with patch.object(time, "time", lambda: wall() + by):
            yield

    # --- what must hold -----------------------------------------------------------------------

    def unharmed(self, stage: Stage) -> None:
        """The job that trains is not being ended, as far as the brain knows of it."""
        state = stage.term.brain.state
        slot = state.slot_of.get(JobId("a/trains"))
        if slot is not None:
            assert state.state_of(slot) is State.RUNNING

    def check(self, stage: Stage) -> None:
        """Scheduling goes on; who was set aside is looked after again when its time is over."""
        stage.rounds()
        keys = ("a/trains", "a/after", *self.later)
        for key in keys:
            if JobId(key) not in stage.term.brain.state.slot_of:
                stage.term._meet(key)
        stage.rounds()
        self.unharmed(stage)
        for key in keys:
            assert stage.state(key).holds_seats, key


@pytest.mark.parametrize("seed", range(SEEDS))
def test_scheduling_goes_on_and_no_training_is_ended(seed: int) -> None:
    asyncio.run(Trouble(seed).play())
