"""The brain's state: rows of jobs, nodes, queues and seats, and the few moves between them.

Usage is never counted up and down: it is summed from the seats that are held (`seating`).
"""

from copy import copy

import numpy as np

from weft.brain.event import Past
from weft.brain.state.closed import Closed, ClosedJobs
from weft.brain.state.failure_book import FailureBook
from weft.brain.state.finished import Finished
from weft.brain.state.job_table import JobTable
from weft.brain.state.lifecycle import check_transition
from weft.brain.state.measured_cost import MeasuredCost
from weft.brain.state.menubook import MenuBook, is_learnt
from weft.brain.state.neighbour_book import NeighbourBook
from weft.brain.state.node_table import NodeTable
from weft.brain.state.plan_book import PlanBook
from weft.brain.state.runnable import RunnableWidths
from weft.brain.state.seating import Seating
from weft.brain.state.turns import ALONE, Turn, Turns
from weft.brain.state.vacancy import Vacancy
from weft.brain.state.waits import PENDING, Waits
from weft.model.cluster import Node
from weft.model.decision import Assignment
from weft.model.host import HostCurve, PerGpu
from weft.model.ids import GpuType, JobId, NodeId, QueueId
from weft.model.kind import Kind, kind_of
from weft.model.placement import Placement
from weft.model.plan import AS_WRITTEN, ExecutionPlan
from weft.model.queue import QueueTree
from weft.model.request import JobRequest
from weft.model.snapshot import (
    Ints,
    JobColumns,
    NodeColumns,
    SeatColumns,
    Snapshot,
)
from weft.model.state import State
from weft.perf.host_samples import HostSamples
from weft.perf.speed import Traits
from weft.policy.host.core_ladder import Ladder
from weft.policy.host.shares import Fair
from weft.policy.place.fabric import Fabric
from weft.policy.place.room import host_cpus, host_memory_gib
from weft.policy.tenancy.quota import QuotaLedger, QuotaTable

STATES: tuple[State, ...] = tuple(State)
QUEUED = State.QUEUED


class BrainState:
    """All rows, and the moves that keep them consistent.

    `queued` counts the jobs that wait, `ranged` those whose width can change.
    """

    def __init__(self, tree: QueueTree) -> None:
        self.job_table = JobTable()
        self.node_table = NodeTable()
        self.seating = Seating(self.job_table, self.node_table)
        self.vacancy = Vacancy(self.seating, self.node_table)
        self.waits = Waits(self.job_table)
        self.specs: list[JobRequest | None] = []
        self.after_stop: list[State] = []
        self.plans: list[ExecutionPlan] = []
        self.plan_book = PlanBook()
        self.slot_of: dict[JobId, int] = {}
        self.closed = ClosedJobs()
        self.next_assignment: dict[int, Assignment] = {}
        self.sequence = 0
        self.queued = self.ranged = 0

        self.menus = MenuBook()
        self.resize_cost = self.start_cost = self.stop_cost = MeasuredCost()
        self.kinds: list[Kind] = []
        self._kind_row: dict[Kind, int] = {}
        self.fair: Fair | None = None
        self.ladders: dict[int, Ladder] = {}
        self.host_samples: dict[int, HostSamples] = {}
        self.host_learnt: dict[int, HostCurve] = {}
        self._tenants: dict[str, int] = {}
        self.finished = Finished()
        self.failures = FailureBook()
        self.turns, self.neighbours, self.runnable = Turns(), NeighbourBook(), RunnableWidths()
        self.counts_host = False
        self.set_tree(tree)
        self._types: tuple[GpuType, ...] = ()
        self._views: tuple[int, int, JobColumns, SeatColumns] | None = None

    # --- what the state says ------------------------------------------------------------------

    def snapshot(self, now: float) -> Snapshot:
        if self._views is None or self._views[:2] != (self.size, self.seat_count):
            views = self.jobs.frozen(self.size), self.seats.frozen(self.seat_count)
            self._views = (self.size, self.seat_count, *views)
        return Snapshot(
            now=now,
            jobs=self._views[2],
            nodes=self.fabric.nodes,
            seats=self._views[3],
            specs=self.specs,
            node_ids=self.node_ids,
            queue_ids=self.quota.ids,
            gpu_types=self._gpu_types(),
            finished=self.finished.samples,
            menus=self.menus.table,
            resize_seconds=self.resize_cost.seconds,
            restart_seconds=self.start_cost.seconds + self.stop_cost.seconds,
        )

    def _gpu_types(self) -> tuple[GpuType, ...]:
        names = self.node_table.gpu_types
        if len(names) != len(self._types):
            self._types = tuple(GpuType(name) for name in names)
        return self._types

    @property
    def jobs(self) -> JobColumns:
        return self.job_table.columns

    @property
    def size(self) -> int:
        """Rows of jobs, whether in use or not."""
        return self.job_table.size

    @property
    def seats(self) -> SeatColumns:
        return self.seating.seats

    @property
    def seat_count(self) -> int:
        """Rows of seats, whether in use or not."""
        return self.seating.seat_count

    @property
    def nodes(self) -> NodeColumns:
        return self.node_table.columns

    @property
    def node_row(self) -> dict[NodeId, int]:
        return self.node_table.row

    @property
    def fabric(self) -> Fabric:
        return self.node_table.fabric

    @property
    def node_ids(self) -> list[NodeId]:
        return self.node_table.ids

    def state_of(self, slot: int) -> State:
        return STATES[int(self.jobs.state[slot])]

    def incarnation(self, job: JobId, epoch: int) -> int | None:
        """The slot, if that is the incarnation that holds seats now."""
        slot = self.slot_of.get(job)
        if slot is None or int(self.jobs.epoch[slot]) != epoch:
            return None
        return slot if self.state_of(slot).holds_seats else None

    def placement(self, slot: int) -> Placement:
        """Of a job that has seats."""
        return self.seating.placement(slot)

    def nodes_of(self, slot: int) -> list[int]:
        """Rows of the nodes that the job has seats on, once for each seat."""
        return self.seating.nodes_of(slot)

    def fed(self, slot: int) -> PerGpu:
        """What each GPU of the job holds beyond what its seat says."""
        return self.seating.fed(slot)

    def running_slots(self) -> Ints:
        return np.flatnonzero(
            self.jobs.active[: self.size] & (self.jobs.state[: self.size] == State.RUNNING)
        )

    def spec(self, slot: int) -> JobRequest:
        spec = self.specs[slot]
        assert spec is not None, f"slot {slot} is empty"
        return spec

    def copied(self) -> "BrainState":
        """An independent copy, cheap enough for a forecast to run on from."""
        twin = copy(self)
        twin.job_table, twin.node_table = self.job_table.copied(), self.node_table.copied()
        twin.seating = self.seating.copied(twin.job_table, twin.node_table)
        twin.vacancy = Vacancy(twin.seating, twin.node_table)
        for name in ("menus", "turns", "failures", "plan_book", "neighbours", "runnable"):
            setattr(twin, name, getattr(self, name).copied())
        twin.waits, twin.finished = self.waits.copied(twin.job_table), self.finished.copied()
        for name in ("specs", "after_stop", "plans", "kinds"):
            setattr(twin, name, list(getattr(self, name)))
        for name in ("slot_of", "next_assignment", "ladders", "host_samples"):
            setattr(twin, name, dict(getattr(self, name)))
        twin.host_learnt, twin.closed = dict(self.host_learnt), self.closed.copied()
        twin._kind_row, twin._tenants = dict(self._kind_row), dict(self._tenants)
        twin._views = None
        return twin

    # --- jobs ---------------------------------------------------------------------------------

    def add_job(self, job: JobRequest, at: float) -> int:
        slot = self._take_slot()
        self.specs[slot] = job
        kind = self._owed_kind(slot)
        self.slot_of[job.id] = slot
        jobs = self.jobs
        jobs.active[slot], jobs.state[slot] = True, State.QUEUED
        jobs.seq[slot] = self.sequence
        jobs.kind[slot] = self._intern_kind(kind)
        jobs.queue[slot] = self.queue_row.get(job.queue, -1)
        jobs.tenant[slot] = self._tenants.setdefault(job.tenant, len(self._tenants))
        jobs.priority[slot] = job.priority
        jobs.min_gpus[slot] = job.width.min_gpus
        jobs.max_gpus[slot] = job.width.max_gpus
        asked = jobs.asked_gpus[slot] = job.width.asked_gpus
        jobs.cpus[slot] = host_cpus(kind, asked)
        jobs.memory_gib[slot] = host_memory_gib(kind, asked)
        jobs.preemptible[slot] = job.preemptible
        jobs.yields[slot] = job.preemptible and job.yields
        jobs.shareable[slot] = job.shareable and job.stages is not None and asked > 0
        jobs.saves_every_seconds[slot] = job.saves_every_seconds
        jobs.submitted[slot] = job.submit_seconds
        jobs.mark[slot] = at
        total = np.nan if job.work is None else job.work.amount
        jobs.work_total[slot] = jobs.work_low[slot] = jobs.work_high[slot] = total
        jobs.pace[slot] = job.units_per_second(asked) if asked else 1.0
        jobs.menu[slot] = self.menus.stated(job)
        jobs.scale[slot] = jobs.pace[slot] / self.likely_speed(slot, asked) if asked else 1.0
        if is_learnt(job) and job.work is None:
            jobs.scale[slot] = np.nan  # in units that nobody has told yet
        jobs.reason[slot] = PENDING
        jobs.queued_since[slot] = jobs.waiting_since[slot] = at
        jobs.rank[slot] = -1
        self.sequence += 1
        self.queued += 1
        self.ranged += job.width.elastic
        return slot

    def move(self, slot: int, new: State) -> None:
        """Change a job's state along a legal edge."""
        old = self.state_of(slot)
        check_transition(self.spec(slot).id, old, new)
        self.jobs.state[slot] = new
        self.queued += (new == QUEUED) - (old == QUEUED)

    def close(self, slot: int, state: State, at: float, why: str = "") -> None:
        """The job is over: keep a summary and give its row back."""
        self.move(slot, state)
        self.settle(slot, at)
        self.waits.book(slot, at, 0)
        spec, jobs = self.spec(slot), self.jobs
        if state is State.SUCCEEDED:
            self.finished.add(float(jobs.attained_gpu_seconds[slot]))
        self.closed[spec.id] = Closed(
            state=state,
            at=at,
            # `or`: nearly all are zero, and may be one and the same number
            waits_seconds=tuple(spent or 0.0 for spent in self.waits.booked[slot, 1:].tolist()),
            attained_gpu_seconds=float(jobs.attained_gpu_seconds[slot]),
            preemptions=int(jobs.preemptions[slot]),
            failures=int(jobs.failures[slot]),
            why=why,
            diagnosis=self.failures.last.get(slot) if state is State.FAILED else None,
        )
        for book in (self.failures, self.turns, self.neighbours, self.runnable):
            book.forget(slot)
        self.seating.forget_party(slot)
        self.menus.drop(int(jobs.menu[slot]))
        self.plan_book.close(slot, spec.id, float(jobs.attained_gpu_seconds[slot]))
        for known in (self.ladders, self.host_learnt, self.host_samples):
            known.pop(slot, None)
        self.ranged -= spec.width.elastic
        del self.slot_of[spec.id]
        self.specs[slot] = None
        self.job_table.give_back(slot)

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
        self.pace_company_anew(slot, at)

    def set_pace(self, slot: int, *, without: int = -1) -> None:
        """Service and work go on as its seats allow, and those who take turns with it."""
        turn = self.turn(slot, without=without)
        self.jobs.gpu_rate[slot] = self.jobs.width[slot] * turn.share
        self.jobs.share_rate[slot] = self._share_rate(slot) * turn.share
        self.jobs.speed[slot] = self.speed_on(slot, self.placement(slot)) / turn.slowdown

    def turn(self, slot: int, *, without: int = -1) -> Turn:
        """What those who take turns with it leave it, but for one that goes."""
        company = self.seating.company
        if not company.shares(slot):
            return ALONE
        there = [
            other
            for other in company.members(slot)
            if other == slot or (other != without and self.state_of(other) is State.RUNNING)
        ]
        return self.turns.of([self.spec(other).stages for other in there], there.index(slot))

    def pace_company_anew(self, slot: int, at: float, *, leaves: bool = False) -> None:
        """It begins or ends to take turns with others: they go on at another pace."""
        company = self.seating.company
        if not company.shares(slot):
            return
        for other in company.members(slot):
            self.turns.changed[other] = at
            if other != slot and self.state_of(other) is State.RUNNING:
                self.settle(other, at)
                self.set_pace(other, without=slot if leaves else -1)

    def set_idle(self, slot: int, at: float, work_kept: float | None) -> None:
        """It runs no more; what is not kept is lost."""
        self.settle(slot, at)
        self.jobs.gpu_rate[slot] = self.jobs.share_rate[slot] = 0.0
        self.jobs.speed[slot] = 0.0
        if work_kept is not None:
            self.jobs.work_done[slot] = work_kept
        self.pace_company_anew(slot, at, leaves=True)

    def spare_later(self, slot: int, at: float) -> None:
        """It is stopped for others: if nothing was saved in this run, it is to be spared next."""
        jobs = self.jobs
        jobs.spared[slot] = at - jobs.started[slot] < jobs.saves_every_seconds[slot]

    def recall(self, slot: int, past: Past, now: float) -> None:
        """What the world wrote down about the job before this brain met it."""
        jobs = self.jobs
        jobs.attained_gpu_seconds[slot] = past.attained_gpu_seconds
        jobs.attained_share_seconds[slot] = past.attained_gpu_seconds
        jobs.failures[slot] = past.failures
        jobs.refusals[slot] = past.refusals
        jobs.preemptions[slot] = past.preemptions
        jobs.losses[slot] = past.losses
        if past.retry is not None:
            self.failures.retries[slot] = past.retry.as_of(now)

    # --- seats --------------------------------------------------------------------------------

    def quota_fits(self, slot: int, width: int, use: QuotaLedger) -> bool:
        """Whether the queue may hold so much more beside what is used."""
        queue = int(self.jobs.queue[slot])
        return queue >= 0 and use.refusing(queue, width) is None

    def use(self, *, held_only: bool) -> QuotaLedger:
        """What all queues use (`own_use`), where a queue is limited; whoever starts jobs keeps it
        up to date."""
        own = self.own_use(held_only=held_only) if self.quota.limited else [0] * len(self.quota.ids)
        return QuotaLedger(self.quota, own)

    def own_use(self, *, held_only: bool = False) -> list[int]:
        """GPUs by queue: of all parties that stay and of pledges; or of all that hold."""
        count, seats = self.seat_count, self.seats
        mask = ~seats.pledged[:count] if held_only else ~seats.releasing[:count]
        mask = mask & (seats.slot[:count] >= 0)
        queues = self.jobs.queue[seats.slot[:count][mask]]
        gpus = seats.gpus[:count][mask]
        known = queues >= 0
        use = np.bincount(queues[known], gpus[known], minlength=len(self.quota.ids))
        return [int(gpus) for gpus in use]

    # --- nodes and queues ---------------------------------------------------------------------

    def put_node(self, node: Node) -> int:
        row = self.node_table.put(node)
        self.seating.add_node(row)
        self.plan_book.see_nodes(self.node_table.specs)
        return row

    def lose_node(self, row: int) -> None:
        self.node_table.lose(row)

    def set_fair(self, fair: Fair | None) -> None:
        """What a GPU's fair share of its node is, where jobs are owed that and no more."""
        if fair == self.fair:
            return
        self.fair = fair
        self.seating.touched.update(range(len(self.node_ids)))
        for slot in self.slot_of.values():
            self.tell_kind(slot)

    def tell_kind(self, slot: int) -> None:
        """Where the job can go may have changed."""
        owed, job = self._owed_kind(slot), self.spec(slot).id
        self.jobs.kind[slot] = self._intern_kind(self.failures.kind(slot, owed, job, self.fabric))

    def host_of(self, slot: int) -> HostCurve | None:
        """What is claimed or has been learnt of how its cores speed the job."""
        claim = self.spec(slot).host
        return self.host_learnt.get(slot) if claim is None else claim.curve

    def learn_host(self, slot: int, curve: HostCurve) -> None:
        """Measurements say so. What the job is owed stays what it asked for."""
        self.host_learnt[slot] = curve
        self.seating.touched.update(self.nodes_of(slot))
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
        """Work per second on these seats; 0 as long as nobody knows what it counts."""
        scale = float(self.jobs.scale[slot]) if is_learnt(self.spec(slot)) else 1.0
        if not placement.width:
            return 1.0
        return 0.0 if np.isnan(scale) else scale * self.pace_on(slot, placement)

    def likely_speed(self, slot: int, gpus: int) -> float:
        """What the job's menu says of so many GPUs, in the menu's own unit."""
        return self.menus.table.speed(int(self.jobs.menu[slot]), gpus)

    def pace_on(self, slot: int, placement: Placement, *, believing: bool = True) -> float:
        """The same up to a factor, which is not known before a first measurement.

        Without `believing` measurements, a job that states no curve scales without loss.
        """
        spec, jobs = self.spec(slot), self.jobs
        if not placement.width:
            return 1.0
        kind = self.kinds[int(jobs.kind[slot])]
        type_speed = spec.type_speed(self.node_table.gpu_type(placement))
        if spec.splits is not None:
            return self.plan_book.speed(slot, spec, self.plans[slot], placement) * type_speed
        if is_learnt(spec):
            learnt = self.likely_speed(slot, placement.width)
            alone = float(learnt if believing else placement.width)
        else:
            alone = spec.units_per_second(placement.width)
        traits = Traits(alone, type_speed, spec.locality, self.host_of(slot))
        return self.node_table.units_per_second(placement, traits, kind=kind, fed=self.fed(slot))

    def _share_rate(self, slot: int) -> float:
        """The dominant share of the cluster that the job's seats are, in GPUs."""
        rows, seats, total = self.seating.seat_rows[slot], self.seats, self.fabric.total
        share = float(self.jobs.width[slot]) / total.gpus
        if self.counts_host:
            share = max(
                share,
                float(seats.cpus[rows].sum()) / total.cpus,
                float(seats.memory_gib[rows].sum()) / total.memory_gib,
            )
        return share * total.gpus

    def _owed_kind(self, slot: int) -> Kind:
        """What the job needs: as asked, or what it is owed where it claims a host curve."""
        job = self.spec(slot)
        self.ladders.pop(slot, None)
        if self.fair is not None and slot in self.host_learnt:
            self.ladders[slot] = self.fair.ladder(self.host_learnt[slot])
        curve = None if job.host is None else job.host.curve
        if self.fair is None or curve is None:
            return kind_of(job)
        ladder = self.fair.ladder(curve)
        if ladder.rungs:
            self.ladders[slot] = ladder
        return self.fair.owed(kind_of(job), curve)

    def _take_slot(self) -> int:
        slot = self.job_table.take()
        self.seating.add_party(slot)
        self.waits.clear(slot)
        if slot < len(self.specs):
            self.plans[slot] = AS_WRITTEN
            return slot
        self.specs.append(None)
        self.after_stop.append(State.QUEUED)
        self.plans.append(AS_WRITTEN)
        return slot

    def _intern_kind(self, kind: Kind) -> int:
        row = self._kind_row.get(kind)
        if row is None:
            row = self._kind_row[kind] = len(self.kinds)
            self.kinds.append(kind)
            self.counts_host = self.counts_host or kind.counts_host or kind.cpus > 0
        return row
