"""How a group of jobs is believed to run on the same GPUs: its cycle, and what each member loses.

In a cycle a member does one iteration or, if its iterations are short, several: locked step for
step to a long one it would be slowed by the ratio of the two. How fast the group is as a whole is
A, the sum of what each member keeps of its own speed; two jobs that fill each other's gaps
perfectly have A = 2. Muri weighs groups by how busy resources are instead, which prefers four equal
jobs that hardly gain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from weft.model.stages import RESOURCES, StageProfile
from weft.perf.interleaving.cycle import best_cycles, offsets_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

NO_OVERHEAD: Mapping[int, float] = MappingProxyType({})
MURI_OVERHEAD: Mapping[int, float] = MappingProxyType({1: 1.015, 2: 1.33, 3: 1.5, 4: 1.37})
"""By members: what Muri's authors multiply iterations of groups with, and of jobs alone."""

REMEMBERED = 4_096
"""Forecasts of single groups, of the newest that were asked for."""

MOST_ITERATIONS = 8
"""A member does no more iterations than this in one cycle."""


@dataclass(frozen=True, slots=True)
class CycleModel:
    """How cycles are computed; `DECIDING` is ours, `LOCK_STEP` as published."""

    overhead: Mapping[int, float] = field(default_factory=lambda: NO_OVERHEAD)
    ratios: bool = True
    """Whether members with short iterations may do several in a cycle."""

    at_least_alone: bool = True
    """Whether a cycle lasts as long as the slowest member alone; stages sum to less than that."""

    def slower(self, members: int) -> float:
        """How many times longer the cycle of so many takes than its stages say."""
        return self.overhead.get(members, 1.0) / self.overhead.get(1, 1.0)


DECIDING = CycleModel()
LOCK_STEP = CycleModel(overhead=MURI_OVERHEAD, ratios=False, at_least_alone=False)


@dataclass(frozen=True, slots=True)
class GroupForecast:
    """One group, predicted: seconds of its cycle, and per member iterations, offset, slowdown."""

    cycle_seconds: float
    iterations: tuple[int, ...]
    offsets: tuple[int, ...]
    slowdowns: tuple[float, ...]
    utilisation: float
    """Muri's gamma: the mean share of the cycle in which a resource is busy."""

    @property
    def aggregate(self) -> float:
        """A: how many times one job's work the group does in the same time."""
        return sum(1.0 / slowdown for slowdown in self.slowdowns)

    @property
    def worst_slowdown(self) -> float:
        return max(self.slowdowns)

    def slower(self, times: float) -> "GroupForecast":
        """The same group, if it takes so many times longer."""
        if times == 1.0:
            return self
        return replace(
            self,
            cycle_seconds=self.cycle_seconds * times,
            slowdowns=tuple(slowdown * times for slowdown in self.slowdowns),
            utilisation=self.utilisation / times,
        )


@dataclass(frozen=True, slots=True)
class GroupForecasts:
    """Many groups of one size, as columns; rows are groups."""

    cycle_seconds: Floats
    iterations: Ints
    way: Ints
    slowdowns: Floats
    utilisation: Floats

    @property
    def aggregate(self) -> Floats:
        found: Floats = (1.0 / self.slowdowns).sum(axis=1)
        return found

    @property
    def worst_slowdown(self) -> Floats:
        found: Floats = self.slowdowns.max(axis=1)
        return found

    def one(self, group: int) -> GroupForecast:
        members = self.slowdowns.shape[1]
        return GroupForecast(
            float(self.cycle_seconds[group]),
            tuple(self.iterations[group].tolist()),
            offsets_of(members)[int(self.way[group])],
            tuple(self.slowdowns[group].tolist()),
            float(self.utilisation[group]),
        )


def columns_of(profiles: Sequence[StageProfile]) -> tuple[Floats, Floats]:
    """Stages and iterations of many profiles, to be gathered by group."""
    stages = np.array([profile.stages_seconds for profile in profiles], np.float64)
    alone = np.array([profile.iteration_seconds for profile in profiles], np.float64)
    return stages.reshape(len(profiles), len(RESOURCES) + 1), alone


def foretold(members: Sequence[StageProfile], model: CycleModel = DECIDING) -> GroupForecast:
    """One group."""
    overhead = tuple(sorted(model.overhead.items()))
    return _remembered(tuple(members), overhead, model.ratios, model.at_least_alone)


@lru_cache(maxsize=REMEMBERED)
def _remembered(
    members: tuple[StageProfile, ...],
    overhead: tuple[tuple[int, float], ...],
    ratios: bool,
    at_least_alone: bool,
) -> GroupForecast:
    """A cluster has few programs: the same groups come up in every round."""
    stages, alone = columns_of(members)
    model = CycleModel(dict(overhead), ratios, at_least_alone)
    return foretold_all(stages[None], alone[None], model).one(0)


def foretold_all(stages: Floats, alone: Floats, model: CycleModel) -> GroupForecasts:
    """Groups of one size: `stages[group, member, column]`, `alone[group, member]`.

    With ratios both are tried, every member once in a cycle and as often as fits into the longest
    iteration, and the one with more work done is taken.
    """
    once = np.ones(alone.shape, np.int64)
    found = _forecasts(stages, alone, once, model)
    if not model.ratios or alone.shape[1] == 1:
        return found
    longest = alone.max(axis=1, initial=0.0, keepdims=True)
    often = np.clip(np.floor(longest / alone).astype(np.int64), 1, MOST_ITERATIONS)
    return _better(found, _forecasts(stages, alone, often, model))


def _forecasts(stages: Floats, alone: Floats, often: Ints, model: CycleModel) -> GroupForecasts:
    members = alone.shape[1]
    work = stages * often[:, :, None]
    cycle, way = _alone(alone) if members == 1 else best_cycles(work)
    slowest = (alone * often).max(axis=1, initial=0.0)
    cycle = np.maximum(cycle, slowest) if model.at_least_alone else np.where(cycle, cycle, slowest)
    slower = model.slower(members)
    slowdowns = (cycle * slower)[:, None] / (alone * often)
    busy = work.sum(axis=(1, 2)) / (len(RESOURCES) * cycle)
    return GroupForecasts(cycle * slower, often, way, slowdowns, busy)


def _alone(alone: Floats) -> tuple[Floats, Ints]:
    return alone[:, 0], np.zeros(len(alone), np.int64)


def _better(one: GroupForecasts, other: GroupForecasts) -> GroupForecasts:
    """Group by group the forecast with the higher aggregate; the first one if they are equal."""
    take = other.aggregate > one.aggregate
    return GroupForecasts(
        np.where(take, other.cycle_seconds, one.cycle_seconds),
        np.where(take[:, None], other.iterations, one.iterations),
        np.where(take, other.way, one.way),
        np.where(take[:, None], other.slowdowns, one.slowdowns),
        np.where(take, other.utilisation, one.utilisation),
    )
