"""Who may be given company, as columns: what a choice of groups knows of each job.

Jobs with the same width, profile, cap, tenancy, cores and memory are interchangeable: they are of
one *type*. A choice among types costs the same for a hundred jobs and for ten thousand.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from weft.model.snapshot import Bools, Floats, Ints
from weft.model.stages import StageProfile
from weft.perf.interleaving.group import columns_of

DEFAULT_CAP = 6.0
"""Nobody is slowed more than this, unless a queue says otherwise.

On Muri's traces a cap of 6 costs nothing on average, 4 costs 7 to 14 %, 2 costs 45 %.
"""

FINEST_GRID = 0.02


@dataclass(frozen=True, slots=True)
class Candidates:
    """One row per job, in order of priority. Profiles are given once and named by row.

    Jobs of one tenant may be put together; of several, only if all are `open` to it. `alone` are
    those who may have no company at all: exclusive ones, those on several nodes. Memory of GPUs is
    in the profile; `cores` and `host_gib` are for each GPU. `weight` is what a job's speed is worth
    beside that of the others.
    """

    gpus: Ints
    profile: Ints
    profiles: Sequence[StageProfile]
    cap: Floats
    tenant: Ints
    open: Bools
    alone: Bools
    cores: Floats
    host_gib: Floats
    weight: Floats
    grid: float = 0.0
    """Profiles that differ by less than this count as one; 0 tells all of them apart."""

    types: "Types" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", Types.of(self))

    def coarser(self) -> "Candidates":
        """The same jobs with fewer types."""
        return replace(self, grid=2.0 * self.grid or FINEST_GRID)

    @classmethod
    def of(
        cls,
        gpus: Sequence[int],
        profile: Sequence[int],
        profiles: Sequence[StageProfile],
        *,
        cap: float = DEFAULT_CAP,
    ) -> "Candidates":
        """Jobs of one tenant that take no cores worth counting and are worth the same."""
        rows = len(gpus)
        return cls(
            gpus=np.array(gpus, np.int64),
            profile=np.array(profile, np.int64),
            profiles=profiles,
            cap=np.full(rows, cap),
            tenant=np.zeros(rows, np.int64),
            open=np.ones(rows, np.bool_),
            alone=np.zeros(rows, np.bool_),
            cores=np.zeros(rows),
            host_gib=np.zeros(rows),
            weight=np.ones(rows),
        )

    def __len__(self) -> int:
        return len(self.gpus)

    @property
    def demand_gpus(self) -> int:
        return int(self.gpus.sum())


@dataclass(frozen=True, slots=True)
class Types:
    """Kinds of candidates that nothing tells apart, with the columns that forecasts are made of."""

    of_job: Ints
    first: Ints
    """A job of each type: whatever is asked of the type is asked of it."""

    count: Ints
    gpus: Ints
    stages: Floats
    alone_seconds: Floats
    memory_gib: Floats
    """Of one GPU at its peak; NaN where nobody knows."""

    @classmethod
    def of(cls, jobs: Candidates) -> "Types":
        """Candidates as types, in the order in which they first come."""
        keys = np.column_stack(
            [
                *(jobs.gpus, _classes(jobs)[jobs.profile], jobs.cap, _told_apart(jobs), jobs.open),
                *(jobs.alone, jobs.cores, jobs.host_gib, jobs.weight),
            ]
        )
        _, first, of_job, count = np.unique(
            keys, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        first = first[order]
        stages, alone = columns_of(jobs.profiles)
        return cls(
            rank[of_job.reshape(-1)],
            first,
            count[order],
            jobs.gpus[first],
            stages[jobs.profile[first]],
            alone[jobs.profile[first]],
            _memory_gib(jobs.profiles)[jobs.profile[first]],
        )

    def __len__(self) -> int:
        return len(self.first)


def _told_apart(jobs: Candidates) -> Ints:
    """The tenants, as far as it matters who they are: where all are open it does not."""
    closed = np.unique(jobs.tenant[~jobs.open])
    return np.where(np.isin(jobs.tenant, closed), jobs.tenant, -1)


def _classes(jobs: Candidates) -> Ints:
    """Profiles that count as one have one number: by how long they are, and by their stages' parts.

    Who is really put together is judged once more, by its own profile.
    """
    if not jobs.grid:
        return np.arange(len(jobs.profiles))
    stages, alone = columns_of(jobs.profiles)
    shape = np.column_stack([np.log(alone)[:, None], stages / alone[:, None]])
    memory = np.nan_to_num(_memory_gib(jobs.profiles), nan=-1.0)
    steps = np.column_stack([np.rint(shape / jobs.grid), np.ceil(memory)])
    found: Ints = np.unique(steps, axis=0, return_inverse=True)[1].reshape(-1)
    return found


def _memory_gib(profiles: Sequence[StageProfile]) -> Floats:
    known = [profile.gpu_memory_bytes for profile in profiles]
    return np.array([np.nan if one is None else one / 2**30 for one in known], np.float64)
