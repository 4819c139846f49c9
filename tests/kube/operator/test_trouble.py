"""The operator in trouble: exceptions in any callback, poisoned objects, a clock that is set, an
upgrade.

Each seed plays a term, or several where one ends, against a server that cannot be reached. Whatever
happened, jobs that train are never told to end, and a job that comes after the trouble is given a
seat. `python -m tools.explore --kind operator` plays other seeds.
"""

import asyncio
import contextlib
import inspect
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from tests.kube.newer_version import NewerSpec
from tests.kube.operator.stage import RUNNING, Raw, Stage
from weft.kube.metrics import Metrics
from weft.kube.operator.decider import Decider
from weft.kube.operator.executor.executor import Executor
from weft.kube.operator.faults import RESTS, Faults
from weft.kube.operator.intake import Intake
from weft.kube.operator.observation import stored_spec
from weft.kube.operator.observation.foreign_use import ForeignUse
from weft.kube.operator.observation.node_inventory import NodeInventory
from weft.kube.operator.status.status_writer import StatusWriter
from weft.kube.operator.term import Term
from weft.model.ids import JobId
from weft.model.state import State

SEEDS = 12
METRICS = Metrics()
PLACES = (Term, Intake, Decider, Executor, StatusWriter, NodeInventory, ForeignUse, Faults)
NO_CALLBACKS = ("now", "brain_state", "observed_jobs")  # asked by the test itself, or one line long
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


def callbacks() -> list[tuple[type, str]]:
    """Whatever a watch, a timer or a task may be in when it meets an exception."""
    return [
        (place, name)
        for place in PLACES
        for name, found in vars(place).items()
        if inspect.isfunction(found)
        and not inspect.iscoroutinefunction(found)
        and not name.startswith("__")
        and name not in NO_CALLBACKS
    ]


CALLBACKS = callbacks()


class Trouble:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.faults = Faults()
        self.poisoned: list[tuple[str, Raw]] = []
        self.newer: list[str] = []
        self.later: list[str] = []

    def stage(self) -> Stage:
        """What the API server has, in the eyes of a term that has just begun."""
        stage = Stage("backfill", faults=self.faults, metrics=METRICS)
        stage.queue("default")
        stage.job("a/trains", RUNNING)
        stage.pod("a/trains", epoch=1, seat=0, node="n0")
        for key in self.newer:
            self.show_newer(stage, key)
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
            self.unharmed(stage)
        with self.later_by(2 * RESTS.cap_seconds):  # whoever was set aside has rested by then
            for _ in range(4):  # a job may have to be blamed twice before it is set aside
                stage = self.stage()
                stage.job("a/after")
                with contextlib.suppress(Exception):
                    stage.term._begin()
                    break
            self.check(stage)

    async def lead(self, stage: Stage, number: int) -> None:
        """A term with one trouble."""
        troubles = (self.stumble, self.stumble, self.poison, self.set_clock, self.upgrade)
        trouble = self.random.choice(troubles)
        with trouble(stage, number):
            stage.term._begin()
            executor = asyncio.create_task(stage.term.executor.run())
            serial_queue = asyncio.create_task(stage.term.decider.serial_queue.run())
            writer = asyncio.create_task(stage.term.status_writer.run())
            await asyncio.sleep(0)
            self.live_on(stage, number)
            for _ in range(10):
                await asyncio.sleep(0)
            for task in (executor, serial_queue, writer):
                task.cancel()
            await asyncio.gather(executor, serial_queue, writer, return_exceptions=True)

    def live_on(self, stage: Stage, number: int) -> None:
        """What a watch brings; what breaks there would end the task of the watch."""
        self.later.append(f"b/job-{number}")
        with contextlib.suppress(*(type(make()) for make in ERRORS)):
            stage.job(self.later[-1])
            stage.node(f"n{number + 1}")
            stage.queue("default", limit=self.random.randint(8, 64))
            stage.term.intake.tell_nodes()
            stage.rounds()

    # --- troubles -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def stumble(self, stage: Stage, number: int) -> Iterator[None]:
        """The n-th call of a callback fails, for once."""
        (place, name), left = self.random.choice(CALLBACKS), [self.random.randint(0, 4)]
        real, error = getattr(place, name), self.random.choice(ERRORS)

        def stumbling(whose: object, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - as it is
            left[0] -= 1
            if left[0] == -1:
                raise error()
            return real(whose, *given, **named)

        with patch.object(place, name, stumbling):
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
        with self.later_by(self.random.choice((-86_400.0, -1.0, 3_600.0, 1e6))):
            yield

    @contextlib.contextmanager
    def later_by(self, seconds: float) -> Iterator[None]:
        wall = time.time
        with patch.object(time, "time", lambda: wall() + seconds):
            yield

    @contextlib.contextmanager
    def upgrade(self, stage: Stage, number: int) -> Iterator[None]:
        """A newer version leads for a term; the jobs that it took in stay when it is taken back."""
        self.newer.append(f"d/newer-{number}")
        with patch.object(stored_spec, "TrainingJobSpec", NewerSpec):
            self.show_newer(stage, self.newer[-1])
            yield

    def show_newer(self, stage: Stage, key: str) -> None:
        decision = {**RUNNING["decision"], "tempo": {"of": [1, 2]}}
        stage.job(key, {**RUNNING, "decision": decision, "mood": "brisk"}, cadence="brisk")
        stage.pod(key, epoch=1, seat=0, node="n0")

    # --- what must hold -----------------------------------------------------------------------

    def unharmed(self, stage: Stage) -> None:
        """Jobs that train are not being ended, neither in the brain nor on the server."""
        state, trains = stage.term.brain.state, ("a/trains", *self.newer)
        for key in trains:
            slot = state.slot_of.get(JobId(key))
            if slot is not None and not stage.term.decider.serial_queue.broken:
                assert state.state_of(slot) is State.RUNNING, key
        assert not stage.api.deleted
        names = tuple(f"/{key.partition('/')[2]}/status" for key in trains)
        told = [body["status"] for path, body in stage.api.patched if path.endswith(names)]
        assert {status.get("state", "Running") for status in told} <= {"Running"}

    def check(self, stage: Stage) -> None:
        """Scheduling goes on; who was set aside is looked after again when its time is over."""
        stage.rounds()
        keys = ("a/trains", "a/after", *self.newer, *self.later)
        for key in keys:
            if JobId(key) not in stage.term.brain.state.slot_of:
                stage.term.intake._meet(key)
        stage.rounds()
        self.unharmed(stage)
        for key in keys:
            assert stage.state(key).holds_seats, key


@pytest.mark.parametrize("seed", range(SEEDS))
def test_scheduling_goes_on_and_no_training_is_ended(seed: int) -> None:
    asyncio.run(Trouble(seed).play())
