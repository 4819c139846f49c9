"""The brain's state: rows of jobs, nodes, queues and seats, and the few moves between them.

Usage is never counted up and down: it is summed from the seats that are held whenever somebody
asks (`seating`).
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from weft.brain.curvebook import CurveBook, is_learnt
from weft.brain.event import Past
from weft.brain.lifecycle import check_transition
from weft.brain.seating import Seating
from weft.brain.toll import Toll
from weft.model.cluster import Node
from weft.model.decision import Assignment
from weft.model.host import HostCurve
from weft.model.ids import GpuType, JobId, NodeId, QueueId
from weft.model.job import Job
from weft.model.kind import Kind, kind_of
from weft.model.placement import Placement
from weft.model.queue import QueueTree
from weft.model.reason import CAUSES, Cause, ReasonCode
from weft.model.snapshot import (
    Floats,
    Ints,
    JobColumns,
    SeatColumns,
    Snapshot,
)
from weft.model.state import State
from weft.perf.taste import Taste
from weft.policy.host.ladder import Ladder
from weft.policy.host.shares import Fair
from weft.policy.place.fabric import Fabric
from weft.policy.place.room import ROUNDING, Share, host_cpus, host_memory_gib
from weft.policy.tenancy.quota import QuotaTable

REASONS: tuple[ReasonCode, ...] = tuple(ReasonCode)
REASON_ROW: dict[ReasonCode, int] = {code: row for row, code in enumerate(REASONS, start=1)}
CAUSE_OF_ROW = np.array([0, *(int(code.cause) for code in REASONS)], np.int8)
PENDING = REASON_ROW[ReasonCode.ROUND_PENDING]
HISTORY = 10_000
STATES: tuple[State, ...] = tuple(State)


@dataclass(frozen=True, slots=True)
class Closed:
    """What is kept of a job that is over."""

    state: State
    at: float
    waits_seconds: tuple[float, ...]
    attained_gpu_seconds: float
    preemptions: int
    failures: int


class BrainState(Seating):
    """All rows, and the moves that keep them consistent."""

    def __init__(self, tree: QueueTree) -> None:
        super().__init__()
        self.booked: Floats = np.zeros((64, len(CAUSES) + 1))
        self.size = 0
        self.specs: list[Job | None] = []
        self.after_stop: list[State] = []
        self.slot_of: dict[JobId, int] = {}
        self.closed: dict[JobId, Closed] = {}
        self.next_assignment: dict[int, Assignment] = {}
        self.sequence = 0
        self._free_slots: list[int] = []

        self.curves = CurveBook()
        self.resize_cost = self.start_cost = self.stop_cost = Toll()
        self.kinds: list[Kind] = []
        self._kind_row: dict[Kind, int] = {}
        self.fair: Fair | None = None
        self.ladders: dict[int, Ladder] = {}
        self.tastes: dict[int, Taste] = {}
        self.tasted: dict[int, HostCurve] = {}
        self._tenants: dict[str, int] = {}
        self.finished: Floats = np.zeros(HISTORY)
        self.finished_count = 0
        self.counts_host = False
        self.set_tree(tree)
        self._views: tuple[int, int, JobColumns, SeatColumns] | None = None

    # --- what the state says ------------------------------------------------------------------

    def snapshot(self, now: float) -> Snapshot:
        if self._views is None or self._views[:2] != (self.size, self.seat_count):
            views = self.jobs.frozen(self.size), self.seats.frozen(self.seat_count)
            self._views = (self.size, self.seat_count, *views)
        count = min(self.finished_count, HISTORY)
        return Snapshot(
            now=now,
            jobs=self._views[2],
            nodes=self.fabric.nodes,
            seats=self._views[3],
            specs=self.specs,
            node_ids=self.node_ids,
            queue_ids=self.quota.ids,
            gpu_types=tuple(GpuType(name) for name in self.node_table.gpu_types),
            finished_gpu_seconds=self.finished[:count],
            curves=self.curves.table,
            resize_seconds=self.resize_cost.seconds,
            restart_seconds=self.start_cost.seconds + self.stop_cost.seconds,
        )

    @property
    def fabric(self) -> Fabric:
        return self.node_table.fabric

    @property
    def node_ids(self) -> list[NodeId]:
        return self.node_table.ids

    def state_of(self, slot: int) -> State:
        return STATES[int(self.jobs.state[slot])]

    def running_slots(self) -> Ints:
        return np.flatnonzero(
            self.jobs.active[: self.size] & (self.jobs.state[: self.size] == State.RUNNING)
        )

    def spec(self, slot: int) -> Job:
        spec = self.specs[slot]
        assert spec is not None, f"slot {slot} is empty"
        return spec

    def next_backoff(self, now: float) -> float | None:
        """When the next waiting job may be tried again; None if all may be now."""
        jobs = self.jobs
        later = jobs.active & (jobs.state == State.QUEUED) & (jobs.not_before > now)
        return float(jobs.not_before[later].min()) if later.any() else None

    def copied(self) -> "BrainState":
        """An independent copy, cheap enough for a forecast to run on from."""
        twin = copy(self)
        twin.jobs, twin.seats = self.jobs.copied(), self.seats.copied()
        twin.node_table = self.node_table.copied()
        twin.curves = self.curves.copied()
        twin.booked, twin.finished = self.booked.copy(), self.finished.copy()
        for name in ("specs", "assignments", "after_stop", "_free_slots", "_free_rows", "kinds"):
            setattr(twin, name, list(getattr(self, name)))
        for name in ("slot_of", "closed", "admitted", "next_assignment"):
            setattr(twin, name, dict(getattr(self, name)))
        for name in ("resizes", "feeding", "ladders", "tastes", "tasted"):
            setattr(twin, name, dict(getattr(self, name)))
        twin._kind_row, twin._tenants = dict(self._kind_row), dict(self._tenants)
        twin.seat_rows = [list(rows) for rows in self.seat_rows]
        twin.held_on = [dict(held) for held in self.held_on]
        twin.shrunk, twin.touched = set(self.shrunk), set(self.touched)
        twin.pledged_on = [dict(pledged) for pledged in self.pledged_on]
        twin._views = None
        return twin

    # --- jobs ---------------------------------------------------------------------------------

    def add_job(self, job: Job, at: float) -> int:
        slot = self._take_slot()
        self.specs[slot] = job
        kind = self._owed_kind(slot)
        self.slot_of[job.id] = slot
        jobs = self.jobs
        jobs.active[slot] = True
        jobs.state[slot] = State.QUEUED
        jobs.seq[slot] = self.sequence
        jobs.kind[slot] = self._intern_kind(kind)
        jobs.queue[slot] = self.queue_row.get(job.queue, -1)
        jobs.tenant[slot] = self._tenants.setdefault(job.tenant, len(self._tenants))
        jobs.priority[slot] = job.priority
        jobs.min_gpus[slot] = job.width.min_gpus
        jobs.max_gpus[slot] = job.width.max_gpus
        jobs.asked_gpus[slot] = job.width.asked_gpus
        jobs.cpus[slot] = host_cpus(kind, job.width.asked_gpus)
        jobs.memory_gib[slot] = host_memory_gib(kind, job.width.asked_gpus)
        jobs.preemptible[slot] = job.preemptible
        jobs.submitted[slot] = job.submit_seconds
        jobs.mark[slot] = at
        total = job.work.amount if job.work.known else np.nan
        jobs.work_total[slot] = jobs.work_low[slot] = jobs.work_high[slot] = total
        asked = job.width.asked_gpus
        jobs.pace[slot] = job.units_per_second(asked) if asked else 1.0
        jobs.curve[slot] = row = self.curves.stated(job)
        jobs.scale[slot] = jobs.pace[slot] / self.curves.table.likely[row, asked] if asked else 1.0
        if is_learnt(job) and not job.work.known:
            jobs.scale[slot] = 0.0  # in units that nobody has told yet
        jobs.reason[slot] = PENDING
        jobs.queued_since[slot] = at
        jobs.waiting_since[slot] = at
        jobs.rank[slot] = -1
        self.sequence += 1
        return slot

    def move(self, slot: int, new: State) -> None:
        """Change a job's state along a legal edge."""
        check_transition(self.spec(slot).id, self.state_of(slot), new)
        self.jobs.state[slot] = new

    def close(self, slot: int, state: State, at: float) -> None:
        """The job is over: keep a summary and give its row back."""
        self.move(slot, state)
        self.settle(slot, at)
        self.book_wait(slot, at, 0)
        spec, jobs = self.spec(slot), self.jobs
        if state is State.SUCCEEDED:
            self.finished[self.finished_count % HISTORY] = jobs.attained_gpu_seconds[slot]
            self.finished_count += 1
        self.closed[spec.id] = Closed(
            state=state,
            at=at,
            waits_seconds=tuple(self.booked[slot, 1:].tolist()),
            attained_gpu_seconds=float(jobs.attained_gpu_seconds[slot]),
            preemptions=int(jobs.preemptions[slot]),
            failures=int(jobs.failures[slot]),
        )
        self.admitted.pop(slot, None)
        self.curves.drop(int(jobs.curve[slot]))
        self.ladders.pop(slot, None)
        self.tasted.pop(slot, None)
        self.tastes.pop(slot, None)
        del self.slot_of[spec.id]
        self.specs[slot] = None
        self.assignments[slot] = None
        jobs.active[slot] = False
        self._free_slots.append(slot)

    def settle(self, slot: int, at: float) -> None:
        """Bring attained service and work done up to `at`."""
        jobs = self.jobs
        elapsed = at - jobs.mark[slot]
        if elapsed > 0:
            jobs.attained_gpu_seconds[slot] += jobs.gpu_rate[slot] * elapsed
            jobs.attained_share_seconds[slot] += jobs.share_rate[slot] * elapsed
            jobs.work_done[slot] += jobs.speed[slot] * elapsed
        jobs.mark[slot] = at

    def set_running(self, slot: int, at: float) -> None:
        self.settle(slot, at)
        self.set_pace(slot)
        self.jobs.started[slot] = self.jobs.resized[slot] = at

    def set_pace(self, slot: int) -> None:
        """Service and work go on as the seats that it holds allow."""
        self.jobs.gpu_rate[slot] = self.jobs.width[slot]
        self.jobs.share_rate[slot] = self._share_rate(slot)
        self.jobs.speed[slot] = self.speed_on(slot, self.placement(slot))

    def set_idle(self, slot: int, at: float, work_kept: float | None) -> None:
        """It runs no more; what is not kept is lost."""
        self.settle(slot, at)
        self.jobs.gpu_rate[slot] = self.jobs.share_rate[slot] = 0.0
        self.jobs.speed[slot] = 0.0
        if work_kept is not None:
            self.jobs.work_done[slot] = work_kept

    def recall(self, slot: int, past: Past) -> None:
        """What the world wrote down about the job before this brain met it."""
        jobs = self.jobs
        jobs.attained_gpu_seconds[slot] = past.attained_gpu_seconds
        jobs.attained_share_seconds[slot] = past.attained_gpu_seconds
        jobs.failures[slot] = past.failures
        jobs.refusals[slot] = past.refusals
        jobs.preemptions[slot] = past.preemptions

    def begin_wait(self, slot: int, at: float, reason: int) -> None:
        self.jobs.reason[slot] = reason
        self.jobs.queued_since[slot] = at
        self.jobs.waiting_since[slot] = at

    def book_wait(self, slot: int, at: float, reason: int) -> None:
        """Book the wait so far to its cause and go on with another (0: it waits no more)."""
        jobs = self.jobs
        cause = int(CAUSE_OF_ROW[jobs.reason[slot]])
        if cause:
            waited = at - jobs.waiting_since[slot]
            self.booked[slot, cause] += waited
            if cause == Cause.LOCALITY:
                jobs.locality_waited[slot] += waited
        jobs.reason[slot] = reason
        jobs.waiting_since[slot] = at

    def book_waits(self, slots: Ints, at: float, reasons: Ints) -> None:
        """The same for many at once; rows whose reason stays are left alone."""
        jobs = self.jobs
        changed = reasons != jobs.reason[slots]
        if not changed.any():
            return
        some = slots[changed]
        cause = CAUSE_OF_ROW[jobs.reason[some]]
        waited = at - jobs.waiting_since[some]
        self.booked[some, cause] += waited
        local = cause == Cause.LOCALITY
        if local.any():
            jobs.locality_waited[some[local]] += waited[local]
        jobs.reason[some] = reasons[changed]
        jobs.waiting_since[some] = at

    # --- seats --------------------------------------------------------------------------------

    def seats_are_free(self, slot: int) -> bool:
        """Whether a pledged job's seats could be held now beside all that is held."""
        by_node: dict[int, list[int]] = {}
        for row in self.seat_rows[slot]:
            by_node.setdefault(int(self.seats.node[row]), []).append(row)
        for node, rows in by_node.items():
            if not self.nodes.present[node] or self.nodes.cordoned[node]:
                return False
            held = sum(self.held_on[node].values())
            if held + int(self.seats.gpus[rows].sum()) > int(self.nodes.gpus[node]):
                return False
            if self.counts_host and not self._host_fits(node, rows):
                return False
        return self.quota_fits(slot, int(self.jobs.width[slot]))

    def host_fits(self, kind: Kind, shares: Sequence[Share]) -> bool:
        """Whether the nodes have the cores and the memory now, beside all that is held and fed."""
        return all(
            self._host_has(node, host_cpus(kind, gpus), host_memory_gib(kind, gpus))
            for node, gpus in shares
        )

    def quota_fits(self, slot: int, width: int) -> bool:
        """Whether the queue may hold so much more now, beside all that is still held."""
        queue = int(self.jobs.queue[slot])
        if queue < 0 or not width or not self.quota.restricted[queue]:
            return queue >= 0
        used = self.quota.sums(self.own_use(held_only=True))
        return all(used[s] + width <= self.quota.caps[s] for s in self.quota.paths[queue])

    def own_use(self, *, held_only: bool = False) -> list[int]:
        """GPUs by queue: of all who hold and do not release, and of pledges; or all held."""
        count = self.seat_count
        seats = self.seats
        mask = ~seats.pledged[:count] if held_only else ~seats.releasing[:count]
        mask = mask & (seats.slot[:count] >= 0)
        queues = self.jobs.queue[seats.slot[:count][mask]]
        gpus = seats.gpus[:count][mask]
        known = queues >= 0
        use = np.bincount(queues[known], gpus[known], minlength=len(self.quota.ids))
        return [int(value) for value in use]

    # --- nodes and queues ---------------------------------------------------------------------

    def put_node(self, node: Node) -> int:
        row = self.node_table.put(node)
        if row == len(self.held_on):
            self.held_on.append({})
            self.pledged_on.append({})
        self.touched.add(row)
        return row

    def lose_node(self, row: int) -> None:
        self.node_table.lose(row)

    def set_fair(self, fair: Fair | None) -> None:
        """What a GPU's fair share of its node is, where jobs are owed that and no more."""
        if fair == self.fair:
            return
        self.fair = fair
        self.touched.update(range(len(self.node_ids)))
        for slot in self.slot_of.values():
            self.jobs.kind[slot] = self._intern_kind(self._owed_kind(slot))

    def host_of(self, slot: int) -> HostCurve | None:
        """What is known or has been learnt of how its cores speed the job."""
        stated = self.spec(slot).host
        return stated if stated is None or stated.known else self.tasted.get(slot)

    def learn_host(self, slot: int, curve: HostCurve) -> None:
        """Measurements say so. What the job is owed stays what it asked for."""
        self.tasted[slot] = curve
        self.touched.update(self.nodes_of(slot))
        if self.fair is not None:
            self.ladders[slot] = self.fair.ladder(curve)

    def set_tree(self, tree: QueueTree) -> None:
        self.tree = tree
        self.quota = QuotaTable.of(tree)
        self.queue_row: dict[QueueId, int] = {q: row for row, q in enumerate(self.quota.ids)}
        for slot in self.slot_of.values():
            self.jobs.queue[slot] = self.queue_row.get(self.spec(slot).queue, -1)

    # --- helpers ------------------------------------------------------------------------------

    def speed_on(self, slot: int, placement: Placement) -> float:
        """Work per second on these seats, as far as anybody knows."""
        scale = float(self.jobs.scale[slot]) if is_learnt(self.spec(slot)) else 1.0
        return scale * self.pace_on(slot, placement) if placement.width else 1.0

    def pace_on(self, slot: int, placement: Placement, *, believing: bool = True) -> float:
        """The same up to a factor, which is not known before a first measurement.

        Without `believing` measurements, a job that states no curve scales without loss.
        """
        spec, jobs = self.spec(slot), self.jobs
        kind = self.kinds[int(jobs.kind[slot])]
        alone = None
        if is_learnt(spec) and placement.width:
            learnt = self.curves.table.likely[jobs.curve[slot], placement.width]
            alone = float(learnt if believing else placement.width)
        if spec.host is not None and not spec.host.known:
            spec = replace(spec, host=self.tasted.get(slot))
        return self.node_table.units_per_second(
            spec, placement, kind=kind, alone=alone, fed=self.fed(slot)
        )

    def _share_rate(self, slot: int) -> float:
        """The dominant share of the cluster that the job's seats are, in GPUs."""
        rows, seats, total = self.seat_rows[slot], self.seats, self.fabric.total
        shares = (
            float(self.jobs.width[slot]) / total.gpus,
            float(seats.cpus[rows].sum()) / total.cpus,
            float(seats.memory_gib[rows].sum()) / total.memory_gib,
        )
        return max(shares) * total.gpus

    def _host_fits(self, node: int, rows: list[int]) -> bool:
        seats = self.seats
        return self._host_has(
            node, float(seats.cpus[rows].sum()), float(seats.memory_gib[rows].sum())
        )

    def _host_has(self, node: int, cpus: float, memory_gib: float) -> bool:
        """Whether so much more fits on the node beside what is held there and what is fed."""
        others, seats = list(self.held_on[node]), self.seats
        cpus += float((seats.cpus[others] + seats.fed_cpus[others]).sum())
        memory_gib += float((seats.memory_gib[others] + seats.fed_gib[others]).sum())
        cpus_fit = cpus <= float(self.nodes.cpus[node]) + ROUNDING
        return cpus_fit and memory_gib <= float(self.nodes.memory_gib[node]) + ROUNDING

    def _owed_kind(self, slot: int) -> Kind:
        """What the job needs: as asked, or what it is owed where its host curve is known."""
        job = self.spec(slot)
        self.ladders.pop(slot, None)
        if self.fair is not None and slot in self.tasted:
            self.ladders[slot] = self.fair.ladder(self.tasted[slot])
        if self.fair is None or job.host is None or not job.host.known:
            return kind_of(job)
        ladder = self.fair.ladder(job.host)
        if ladder.rungs:
            self.ladders[slot] = ladder
        return self.fair.owed(kind_of(job), job.host)

    def _take_slot(self) -> int:
        if self._free_slots:
            slot = self._free_slots.pop()
            for column in self._all_job_columns():
                column[slot] = 0
            self.booked[slot] = 0.0
            self.seat_rows[slot].clear()
            return slot
        slot = self.size
        self.size += 1
        if slot >= len(self.jobs.active):
            self.jobs = self.jobs.grown(2 * slot)
            self.booked = np.vstack([self.booked, np.zeros_like(self.booked)])
        self.specs.append(None)
        self.assignments.append(None)
        self.seat_rows.append([])
        self.after_stop.append(State.QUEUED)
        return slot

    def _all_job_columns(self) -> list[Ints]:
        return [getattr(self.jobs, name) for name in JobColumns.__slots__]

    def _intern_kind(self, kind: Kind) -> int:
        row = self._kind_row.get(kind)
        if row is None:
            row = self._kind_row[kind] = len(self.kinds)
            self.kinds.append(kind)
            self.counts_host = self.counts_host or kind.counts_host or kind.cpus > 0
        return row
