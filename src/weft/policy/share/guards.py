"""What keeps jobs apart: each guard is a column of answers over many groups at once.

Muri has none of these. A group that passes all of them is one that nobody has to fear: its memory
fits, no member is slowed beyond its cap, and together they do more than one after the other.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from weft.model.snapshot import Bools, Floats, Ints
from weft.perf.interleaving.cycle import MOST_MEMBERS
from weft.perf.interleaving.group import DECIDING, CycleModel, GroupForecasts, foretold_all
from weft.policy.share.candidates import Candidates

CONTEXT_GIB = 0.5
"""What a process of PyTorch takes on a GPU before its first tensor."""

RESERVE = 0.03
"""The driver's own part of a GPU's memory."""


class Guard(Enum):
    """Why jobs are not put together; the first that applies is told."""

    meaning: str

    def __new__(cls, label: str, meaning: str) -> "Guard":
        guard = object.__new__(cls)
        guard._value_ = label
        guard.meaning = meaning
        return guard

    NONE = "none", "nothing keeps them apart"
    ALONE = "alone", "one of them runs alone: it asked for that, or has several nodes"
    TENANT = "tenant", "they belong to tenants that have not agreed to share"
    MEMORY_UNKNOWN = "memory unknown", "nobody knows what one of them needs of a GPU's memory"
    MEMORY = "memory", "together they need more memory than a GPU has"
    CORES = "cores", "together they need more cores than there are beside a GPU"
    HOST_MEMORY = "host memory", "together they need more memory than there is beside a GPU"
    SLOWDOWN = "slowdown", "one of them would be slowed beyond its cap"
    GAIN = "gain", "together they would hardly do more than one after the other"
    RESTS = "rests", "such a party did harm not long ago, and rests"
    ROOM = "room", "beside nobody that may have company are the cores and memory that it needs"
    NOBODY = "nobody", "nobody of its width, queue and priority on one node may be joined now"
    FULL = "full", "who could be joined has as many companions as may be"
    FIRM = "firm", "who joins others has to be one that may be stopped, and it may not now"
    OVERDUE = "overdue", "it has waited so long that it is to have GPUs of its own"


ORDER = tuple(Guard)
ROW = {guard: row for row, guard in enumerate(ORDER)}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a GPU and its part of a node have, and how much a group must gain.

    A limit that is infinite guards nothing; memory that is unknown passes only then.
    """

    gpu_memory_gib: float = float("inf")
    cores_per_gpu: float = float("inf")
    host_gib_per_gpu: float = float("inf")
    least_gain: float = 1.02
    most_members: int = MOST_MEMBERS
    cycles: CycleModel = DECIDING

    @property
    def usable_gib(self) -> float:
        return self.gpu_memory_gib * (1.0 - RESERVE)


@dataclass(frozen=True, slots=True)
class Judged:
    """Groups of one size: who is in them (as types), their forecast, and what speaks against."""

    members: Ints
    forecast: GroupForecasts
    guard: Ints

    @property
    def passed(self) -> Bools:
        found: Bools = self.guard == ROW[Guard.NONE]
        return found


def judged(jobs: Candidates, members: Ints, limits: Limits) -> Judged:
    """Look at many groups of one size; `members[group, place]` are types of one width."""
    types = jobs.types
    forecast = foretold_all(types.stages[members], types.alone_seconds[members], limits.cycles)
    guard = np.zeros(len(members), np.int64)
    for name, breaks in _broken(jobs, members, forecast, limits):
        guard = np.where((guard == 0) & breaks, ROW[name], guard)
    return Judged(members, forecast, guard)


def _broken(
    jobs: Candidates, members: Ints, forecast: GroupForecasts, limits: Limits
) -> list[tuple[Guard, Bools]]:
    types = jobs.types
    rows = types.first[members]
    memory = types.memory_gib[members] + CONTEXT_GIB
    told = np.isfinite(limits.gpu_memory_gib)
    total = np.nan_to_num(memory).sum(axis=1)
    return [
        (Guard.ALONE, jobs.alone[rows].any(axis=1)),
        (Guard.TENANT, _strangers(jobs.tenant[rows], jobs.open[rows])),
        (Guard.MEMORY_UNKNOWN, np.isnan(memory).any(axis=1) & told),
        (Guard.MEMORY, total > limits.usable_gib),
        (Guard.CORES, jobs.cores[rows].sum(axis=1) > limits.cores_per_gpu),
        (Guard.HOST_MEMORY, jobs.host_gib[rows].sum(axis=1) > limits.host_gib_per_gpu),
        (Guard.SLOWDOWN, beyond_cap(forecast.slowdowns, jobs.cap[rows])),
        (Guard.GAIN, forecast.aggregate < limits.least_gain),
    ]


def beyond_cap(slowdowns: Floats, caps: Floats) -> Bools:
    """By party: whether a member would be. A cap of 1 is no company, not even one without cost."""
    beyond = (slowdowns > caps) | (caps <= 1.0)
    found: Bools = np.logical_or.reduce(beyond, axis=1)
    return found


def _strangers(tenants: Ints, open_to: Bools) -> Bools:
    """Whether they are of several tenants, and somebody shares only with its own."""
    found: Bools = (tenants != tenants[:, :1]).any(axis=1) & ~open_to.all(axis=1)
    return found
