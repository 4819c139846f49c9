"""The snapshot: the whole state as columns, so that a round is vector work.

A job, a node, a queue and a seat are rows; policies read columns (`snapshot.jobs.asked_gpus`)
and may look at one row as an object (`snapshot.job(slot)`). The columns are read-only views of
the brain's own table: taking a snapshot copies nothing. Rows of jobs are called slots; a slot
is given back when its job is over, so ties are broken by `seq`, the order of submission, and
never by slot.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from weft.model.ids import GpuType, JobId, NodeId, QueueId
from weft.model.menu import NO_MENUS, Menus
from weft.model.request import JobRequest
from weft.model.samples import NO_SAMPLES, Samples
from weft.model.state import State

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Small = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Columns:
    """A set of equally long arrays, one per field."""

    @classmethod
    def empty(cls, rows: int) -> Self:
        """All columns of one type are lines of one block, so that few writes clear a row."""
        dtypes = {Floats: np.float64, Ints: np.int64, Small: np.int8, Bools: np.bool_}
        columns: dict[str, npt.NDArray[Any]] = {}
        for annotation, dtype in dtypes.items():
            names = [f.name for f in fields(cls) if f.type == annotation]
            columns.update(zip(names, np.zeros((len(names), rows), dtype), strict=True))
        return cls(**columns)

    def blocks(self) -> list[npt.NDArray[Any]]:
        """What the columns are lines of."""
        found = {
            id(base): base for f in fields(self) if (base := getattr(self, f.name).base) is not None
        }
        return list(found.values())

    def grown(self, rows: int) -> Self:
        """A copy with room for `rows`, new ones zero."""
        bigger = self.empty(rows)
        for column in fields(self):
            old = getattr(self, column.name)
            getattr(bigger, column.name)[: len(old)] = old
        return bigger

    def frozen(self, rows: int) -> Self:
        """Read-only views of the first `rows` rows."""
        views = {}
        for column in fields(self):
            view = getattr(self, column.name)[:rows]
            view.flags.writeable = False
            views[column.name] = view
        return type(self)(**views)

    def copied(self) -> Self:
        return self.grown(len(getattr(self, fields(self)[0].name)))


@dataclass(slots=True)
class JobColumns(Columns):
    """One row per active job. `mark` is the moment up to which service and work are settled.

    `serial` counts the resizes of an epoch, `resizes` those of all epochs, `next_seat` the seats of
    an epoch; `live` jobs can be resized while they train. `menu` is one of the snapshot's menus and
    `scale` what a speed of 1 there means in work per second; `pace` is work per second at the
    asked width. Both are NaN as long as nobody knows what the job counts. `work_total` is the
    likely total, `work_low` and `work_high` its interval: equal where the total was claimed, NaN
    where nobody knows. `steady` counts the checks in a row that found the interval narrow;
    `explore` is a width at which the job is to be measured next (0: none).

    `saves_every_seconds` is the training that a stop can lose: 0 where the job saves on demand,
    infinite where it never does. A job is `spared` whose last run was stopped for
    others before it had saved anything. One that does not `yields` keeps its seats whoever ranks
    before it; what its queue has borrowed is reclaimed all the same. One is `shareable` that takes
    turns with others: its owner agreed, and its stages are known.

    `share_rate` is the dominant share of the cluster that a job is owed, in GPUs. `fed_cores` and
    `fed_gib` is what each of its GPUs has beyond that; `tunable` jobs can be fed while they train.
    """

    active: Bools
    state: Small
    seq: Ints
    kind: Ints
    queue: Ints
    tenant: Ints
    priority: Ints
    min_gpus: Ints
    max_gpus: Ints
    asked_gpus: Ints
    cpus: Floats
    memory_gib: Floats
    preemptible: Bools
    saves_every_seconds: Floats
    spared: Bools
    yields: Bools
    shareable: Bools
    submitted: Floats
    not_before: Floats
    epoch: Ints
    serial: Ints
    next_seat: Ints
    live: Bools
    width: Ints
    started: Floats
    resized: Floats
    resizes: Ints
    explore: Ints
    menu: Ints
    scale: Floats
    mark: Floats
    attained_gpu_seconds: Floats
    gpu_rate: Floats
    attained_share_seconds: Floats
    share_rate: Floats
    tunable: Bools
    fed_cores: Floats
    fed_gib: Floats
    fed_at: Floats
    fed_serial: Ints
    work_total: Floats
    work_low: Floats
    work_high: Floats
    steady: Ints
    work_done: Floats
    speed: Floats
    pace: Floats
    reason: Small
    queued_since: Floats
    waiting_since: Floats
    locality_waited: Floats
    rank: Ints
    level: Ints
    level_base: Floats
    preemptions: Ints
    failures: Ints
    refusals: Ints
    losses: Ints


@dataclass(slots=True)
class NodeColumns(Columns):
    """One row per node ever seen; a lost node keeps its row and is not `present`."""

    present: Bools
    cordoned: Bools
    gpus: Ints
    cpus: Floats
    memory_gib: Floats
    gpu_type: Ints
    rack: Ints
    pool: Ints


@dataclass(slots=True)
class SeatColumns(Columns):
    """One row per seat; rows of 0 in `slot` = -1 are unused. Pledged seats are not held yet.

    `slot` is the row of the party that has the seat (`model.party`): of a job alone, its own.
    """

    slot: Ints
    node: Ints
    gpus: Ints
    cpus: Floats
    memory_gib: Floats
    fed_cpus: Floats
    fed_gib: Floats
    pledged: Bools
    releasing: Bools


@dataclass(frozen=True, slots=True)
class JobView:
    """One job's row as an object."""

    id: JobId
    spec: JobRequest
    state: State
    width: int
    epoch: int
    attained_gpu_seconds: float
    remaining_seconds: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a policy may know, at one moment.

    `resize_seconds` is what a live resize has been measured to cost: so long training stands still;
    `restart_seconds` the same of a stop and the start after it.
    """

    now: float
    jobs: JobColumns
    nodes: NodeColumns
    seats: SeatColumns
    specs: Sequence[JobRequest | None]
    node_ids: Sequence[NodeId]
    queue_ids: Sequence[QueueId]
    gpu_types: Sequence[GpuType]
    finished: Samples = NO_SAMPLES
    menus: Menus = NO_MENUS
    resize_seconds: float = 0.0
    restart_seconds: float = 0.0

    def slots(self, *states: State) -> Ints:
        """Slots of active jobs in these states (in any state if none is named)."""
        mask = self.jobs.active
        if states:
            among = self.jobs.state == states[0]
            for state in states[1:]:
                among = among | (self.jobs.state == state)
            mask = mask & among
        return np.flatnonzero(mask)

    def attained(self, slots: Ints) -> Floats:
        """GPU-seconds of service that each job has had by now."""
        jobs = self.jobs
        return jobs.attained_gpu_seconds[slots] + jobs.gpu_rate[slots] * (
            self.now - jobs.mark[slots]
        )

    def attained_shares(self, slots: Ints) -> Floats:
        """Service as seconds of dominant share, in GPUs: cores and memory count beside the GPUs."""
        jobs = self.jobs
        return jobs.attained_share_seconds[slots] + jobs.share_rate[slots] * (
            self.now - jobs.mark[slots]
        )

    def work_done(self, slots: Ints) -> Floats:
        """Work that each has behind it by now, in its own unit."""
        jobs = self.jobs
        return jobs.work_done[slots] + jobs.speed[slots] * (self.now - jobs.mark[slots])

    def remaining_work(self, slots: Ints) -> Floats:
        """Work left, in each job's own unit; NaN where the total is unknown.

        A job that has exceeded its total by x is expected to need x more.
        """
        left: Floats = np.abs(self.jobs.work_total[slots] - self.work_done(slots))
        return left

    def exceeds_total(self, slots: Ints) -> Bools:
        """Jobs that have done more work than they were expected to need in all."""
        exceeds: Bools = self.work_done(slots) > self.jobs.work_total[slots]
        return exceeds

    def remaining_seconds(self, slots: Ints) -> Floats:
        """Seconds left at the asked width, alone and well placed; NaN where nobody knows."""
        return self.remaining_work(slots) / self.jobs.pace[slots]

    def remaining_interval(self, slots: Ints) -> tuple[Floats, Floats]:
        """The least and the most work that is left, in each job's own unit; NaN: nobody knows."""
        jobs, done = self.jobs, self.work_done(slots)
        low, high = jobs.work_low[slots] - done, jobs.work_high[slots] - done
        return np.maximum(low, 0.0), np.maximum(high, 0.0)

    def speeds(self, slots: Ints, widths: Ints) -> Floats:
        """Work per second of each job on so many GPUs, well placed, as its menu foretells."""
        jobs = self.jobs
        found: Floats = jobs.scale[slots] * self.menus.speeds(jobs.menu[slots], widths)
        return found

    def spec(self, slot: int) -> JobRequest:
        spec = self.specs[slot]
        assert spec is not None, f"slot {slot} holds no job"
        return spec

    def job(self, slot: int) -> JobView:
        spec, one = self.spec(slot), np.array([slot])
        return JobView(
            id=spec.id,
            spec=spec,
            state=State(int(self.jobs.state[slot])),
            width=int(self.jobs.width[slot]),
            epoch=int(self.jobs.epoch[slot]),
            attained_gpu_seconds=float(self.attained(one)[0]),
            remaining_seconds=float(self.remaining_seconds(one)[0]),
        )
