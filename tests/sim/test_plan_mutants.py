"""Worlds with plans notice when one of the defences of a choice is missing."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import patch

import numpy as np
import pytest

from tests.sim.limited import chooses_plans
from tests.sim.play import play
from tests.sim.promise import PromiseBroken
from tests.sim.random_world import draw
from weft.brain.protocol.dispatch import Dispatch
from weft.brain.round.bidding import Bidding
from weft.brain.round.outcome import Granted
from weft.model.decision import Assignment
from weft.model.errors import WeftError
from weft.model.placement import Placement
from weft.model.plan import ExecutionPlan
from weft.perf.plans import options as options_module
from weft.perf.plans.columns import PlanColumns
from weft.perf.plans.memory import PeakMemory
from weft.policy.plans.planning import Planning

MOST_SEEDS = 40
Mutant = Callable[[], AbstractContextManager[None]]


@contextmanager
def memory_is_not_asked() -> Iterator[None]:
    """Plans that do not fit a GPU are offered."""
    with _anew(), patch.object(PeakMemory, "fits", lambda self, _: np.ones(len(self.total), bool)):
        yield


@contextmanager
def promises_are_forgotten() -> Iterator[None]:
    """Whatever is worth most, however slow."""
    with (
        patch.object(Planning, "keeping_promise", lambda self, bid: bid.options),
        patch.object(Bidding, "_promised", lambda self, spec, found: 0.0),
    ):
        yield


@contextmanager
def the_plan_does_not_follow_the_width() -> Iterator[None]:
    """A job that is started anew computes as it did, on as many GPUs as there are."""

    def as_before(self: Dispatch, granted: Granted) -> Assignment:
        seats = self.seats(granted.slot, granted.shares, 0, cores=granted.cores)
        return Assignment(granted.width, Placement(seats), ExecutionPlan(data=1))

    with patch.object(Dispatch, "assignment", as_before):
        yield


@contextmanager
def replicas_do_not_divide_the_batch() -> Iterator[None]:
    """A plan for a batch that is three times as large."""

    def other(plan: ExecutionPlan, width: int) -> ExecutionPlan:
        return ExecutionPlan(data=width, accumulation_steps=3)

    with (
        _anew(),
        patch.object(
            PlanColumns,
            "plan",
            lambda self, row: other(ExecutionPlan(), int(self.width[row])),
        ),
    ):
        yield


MUTANTS: dict[str, Mutant] = {
    one.__name__: one
    for one in (
        memory_is_not_asked,
        promises_are_forgotten,
        the_plan_does_not_follow_the_width,
        replicas_do_not_divide_the_batch,
    )
}


@contextmanager
def _anew() -> Iterator[None]:
    """Nothing that was remembered before, and nothing remembered of this."""
    options_module.options.cache_clear()
    try:
        yield
    finally:
        options_module.options.cache_clear()


@pytest.mark.parametrize("name", MUTANTS)
def test_a_missing_defence_of_plans_is_noticed(name: str) -> None:
    seeds = [seed for seed in range(4 * MOST_SEEDS) if chooses_plans(seed)][:MOST_SEEDS]
    with MUTANTS[name]():
        for seed in seeds:
            try:
                play(draw(seed), most_steps=3000)
            except (PromiseBroken, WeftError) as broken:
                if not str(broken).startswith("I7: no rest"):
                    return
    pytest.fail(f"no seed of {seeds} notices {name}")
