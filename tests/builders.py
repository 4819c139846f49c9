"""Words to write scenarios with: jobs, clusters and queues in one line, and a brain led by hand.

    given(a_cluster(nodes=2, gpus=8)).submit(a_job("gang", gpus=16)).decide().expect(
        "gang", starts_on("n0", "n1")
    )

A `Scene` is the smallest possible world. It acknowledges every instruction at once unless told to
`stay_silent`, follows the wakes that the brain asks for, and checks every invariant after every
event, so that no scenario can pass on a broken state.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Self, TypeVar

import numpy as np

from weft.brain.brain import Brain, Settings
from weft.brain.event import (
    Event,
    InstructionDone,
    InstructionRefused,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobReported,
    JobSubmitted,
    NodeAdded,
    NodeChanged,
    NodeLost,
    Phase,
    QueueChanged,
    Tick,
    Verb,
    WorkerLost,
)
from weft.brain.instruction import Feed, Instruction, Preempt, Resize, Start, Stop, Wake
from weft.brain.invariants import check, demand
from weft.brain.state.node_table import NodeTable
from weft.failure.diagnosis import Diagnosis
from weft.failure.evidence import UNEXPLAINED, Failure
from weft.model.cluster import Cluster, Gpu, Node
from weft.model.ids import GpuType, JobId, NodeId, PoolId, QueueId, RackId, TenantId
from weft.model.job import Job
from weft.model.menu import NO_MENUS, Menus
from weft.model.placement import Placement, Seat
from weft.model.queue import Queue, QueueTree
from weft.model.reason import Reason, ReasonCode
from weft.model.request import INDIFFERENT, GpuSpeed, JobRequest, Width
from weft.model.snapshot import Ints, JobColumns, SeatColumns, Snapshot
from weft.model.state import State
from weft.model.suit import PLAIN, Offering
from weft.model.truth import Work
from weft.policy.recipe import Recipe
from weft.policy.recipes import backfill
from weft.policy.size.requested import Size
from weft.policy.supply import Purse, Supply

HOUR = 3600.0
ANSWERED = (Start, Resize, Feed, Preempt, Stop)

I = TypeVar("I", bound=Instruction)  # noqa: E741

# --- values -------------------------------------------------------------------------------------


def a_job(
    name: str = "job",
    gpus: int = 1,
    *,
    seconds: float = HOUR,
    queue: str = "default",
    tenant: str = "default",
    at: float = 0.0,
    types: Iterable[tuple[str, float]] = (),
    width: tuple[int, int] | None = None,
    **fields: Any,
) -> Job:
    """A job that does not mind being spread and saves when it is stopped, unless it is said."""
    low, high = width or (gpus, gpus)
    return Job.told(
        **{
            "id": JobId(name),
            "width": Width(low, high, gpus),
            "work": Work(seconds),
            "queue": QueueId(queue),
            "tenant": TenantId(tenant),
            "submit_seconds": at,
            "gpu_types": tuple(GpuSpeed(GpuType(kind), speed) for kind, speed in types),
            "locality": INDIFFERENT,
            "saves_on_demand": True,
            **fields,
        }
    )


def a_request(name: str = "job", gpus: int = 1, **fields: Any) -> JobRequest:
    """What is told of such a job."""
    return a_job(name, gpus, **fields).request


def jobs(count: int, prefix: str = "job", gpus: int = 1, **fields: Any) -> list[Job]:
    return [a_job(f"{prefix}{i}", gpus, **fields) for i in range(count)]


def a_node(
    name: str,
    gpus: int = 8,
    *,
    type: str = "gpu",
    rack: str = "r0",
    pool: str = "pool",
    cpus: float | None = None,
    memory_gib: float | None = None,
    cordoned: bool = False,
    offering: Offering = PLAIN,
) -> Node:
    return Node(
        id=NodeId(name),
        gpus=gpus,
        gpu=Gpu(GpuType(type)),
        cpus=cpus,
        memory_gib=memory_gib,
        rack=RackId(rack),
        pool=PoolId(pool),
        cordoned=cordoned,
        offering=offering,
    )


def a_cluster(*named: Node, nodes: int = 0, gpus: int = 8, racks: int = 1) -> Cluster:
    """Equal nodes n0, n1, …; or exactly the nodes that are named."""
    return Cluster(named) if named else Cluster.uniform(nodes or 1, gpus, racks=racks)


def a_queue(
    name: str,
    guaranteed: int | None = None,
    limit: int | None = None,
    *,
    parent: str | None = None,
    borrowing: bool = True,
) -> Queue:
    return Queue(
        id=QueueId(name),
        parent=None if parent is None else QueueId(parent),
        guaranteed_gpus=guaranteed,
        limit_gpus=limit,
        borrowing=borrowing,
    )


def queues(*given_queues: Queue) -> QueueTree:
    return QueueTree(given_queues)


def seats(**gpus_by_node: int) -> Placement:
    return Placement(tuple(Seat(NodeId(node), gpus) for node, gpus in gpus_by_node.items()))


# --- a brain led by hand ------------------------------------------------------------------------


def given(cluster: Cluster) -> "Scene":
    return Scene(cluster)


class Scene:
    """A brain, its cluster and a hand that answers. Every step returns the scene itself."""

    def __init__(self, cluster: Cluster) -> None:
        self.now = 0.0
        self.instructions: list[Instruction] = []
        self.rounds: list[list[Instruction]] = []
        self._cluster = cluster
        self._recipe = backfill()
        self._tree: QueueTree | None = None
        self._settings: Settings | None = None
        self._brain: Brain | None = None
        self._answers = True
        self._wakes: list[float] = []  # when the brain asked to be woken, soonest first

    # --- the stage: only before the first event

    def with_recipe(self, recipe: Recipe, **changed: Any) -> Self:
        self._recipe = replace(recipe, **changed)
        return self

    def with_queues(self, *given_queues: Queue) -> Self:
        self._tree = queues(*given_queues)
        return self

    def with_settings(self, **times: Any) -> Self:
        self._settings = Settings(**times)
        return self

    @property
    def brain(self) -> Brain:
        if self._brain is None:
            self._brain = Brain(self._recipe, tree=self._tree, settings=self._settings)
            for node in self._cluster.nodes:
                self.send(NodeAdded(self.now, node))
        return self._brain

    # --- what happens

    def submit(self, *submitted: Job) -> Self:
        """Submitted now: the job carries the scene's time, and its request is all that is told."""
        for job in submitted:
            self.send(JobSubmitted(self.now, replace(job.request, submit_seconds=self.now)))
        return self

    def tick(self, seconds: float = 0.0) -> Self:
        """Time passes in one leap, then the brain is told the time."""
        self.now += seconds
        return self.send(Tick(self.now))

    def wait(self, seconds: float) -> Self:
        """Time passes, and the brain is woken whenever it has asked for it."""
        end = self.now + seconds
        while self._wakes and self._wakes[0] <= end:
            self._wake()
        self.now = end
        return self

    def decide(self) -> Self:
        """Leap to the next round and hold it."""
        brain, before = self.brain, self.brain.rounds
        while brain.rounds == before:
            assert self._wakes, "the brain has asked for no further round"
            self._wake()
        return self

    def cancel(self, job: str) -> Self:
        return self.send(JobCancelled(self.now, JobId(job)))

    def finish(self, *names: str) -> Self:
        for job in names:
            self.send(JobFinished(self.now, JobId(job), self.epoch(job)))
        return self

    def fail(
        self,
        job: str,
        *,
        kept: float = 0.0,
        failure: Failure = UNEXPLAINED,
        found: Diagnosis | None = None,
    ) -> Self:
        return self.send(JobFailed(self.now, JobId(job), self.epoch(job), kept, failure, found))

    def lose_worker(self, job: str, node: str, failure: Failure = UNEXPLAINED) -> Self:
        return self.send(WorkerLost(self.now, JobId(job), self.epoch(job), NodeId(node), failure))

    def report(
        self,
        job: str,
        phase: Phase,
        *,
        done: float = 0.0,
        epoch: int | None = None,
        placement: Placement | None = None,
        **news: Any,
    ) -> Self:
        number = self.epoch(job) if epoch is None else epoch
        return self.send(JobReported(self.now, JobId(job), number, phase, done, placement, **news))

    def live(self, *names: str) -> Self:
        """These can be resized while they train."""
        for job in names:
            self.report(job, Phase.RUNNING, live=True)
        return self

    def tunable(self, *names: str) -> Self:
        """Cores and memory of these can be changed while they train."""
        for job in names:
            self.report(job, Phase.RUNNING, tunable=True)
        return self

    def add(self, node: Node) -> Self:
        return self.send(NodeAdded(self.now, node))

    def change(self, node: Node) -> Self:
        return self.send(NodeChanged(self.now, node))

    def lose(self, node: str) -> Self:
        return self.send(NodeLost(self.now, NodeId(node)))

    def edit(self, queue: Queue) -> Self:
        return self.send(QueueChanged(self.now, queue))

    def done(
        self,
        job: str,
        verb: Verb,
        *,
        kept: float | None = None,
        epoch: int | None = None,
        serial: int = 0,
    ) -> Self:
        number = self.epoch(job) if epoch is None else epoch
        return self.send(InstructionDone(self.now, JobId(job), number, verb, kept, serial))

    def refuse(
        self, job: str, verb: Verb = Verb.START, *, epoch: int | None = None, serial: int = 0
    ) -> Self:
        number = self.epoch(job) if epoch is None else epoch
        return self.send(InstructionRefused(self.now, JobId(job), number, verb, "no", serial))

    # --- who answers

    def stay_silent(self) -> Self:
        """From now on nothing is acknowledged but by `done`, `refuse` and `report`."""
        self._answers = False
        return self

    def answer_again(self) -> Self:
        self._answers = True
        return self

    # --- what can be seen

    def epoch(self, job: str) -> int:
        return int(self.brain.state.jobs.epoch[self.brain.state.slot_of[JobId(job)]])

    def state(self, job: str) -> State:
        brain_state = self.brain.state
        slot = brain_state.slot_of.get(JobId(job))
        return brain_state.closed[JobId(job)].state if slot is None else brain_state.state_of(slot)

    def nodes(self, job: str) -> dict[str, int]:
        """Node by node, the GPUs that the job holds or was pledged."""
        slot = self.brain.state.slot_of.get(JobId(job))
        assignment = None if slot is None else self.brain.state.seating.assignments[slot]
        if assignment is None:
            return {}
        return {str(node): gpus for node, gpus in assignment.placement.gpus_by_node.items()}

    def reasons(self, job: str) -> list[Reason]:
        return self.brain.explain(JobId(job))

    def waited(self, job: str) -> np.ndarray:
        """Seconds booked so far, by cause."""
        state = self.brain.state
        if JobId(job) in state.closed:
            return np.array([0.0, *state.closed[JobId(job)].waits_seconds])
        row: np.ndarray = state.waits.booked[state.slot_of[JobId(job)]]
        return row

    def last(self, kind: type[I], job: str | None = None) -> I:
        """The latest instruction of that kind (about that job)."""
        found = self.all(kind, job)
        assert found, f"no {kind.__name__} for {job or 'anybody'}"
        return found[-1]

    def all(self, kind: type[I], job: str | None = None) -> list[I]:
        return [
            instruction
            for instruction in self.instructions
            if isinstance(instruction, kind) and job in (None, getattr(instruction, "job", None))
        ]

    def running(self) -> set[str]:
        state = self.brain.state
        return {job for job, slot in state.slot_of.items() if state.state_of(slot) is State.RUNNING}

    def expect(self, job: str, *expectations: "Expectation") -> Self:
        for expectation in expectations:
            expectation(self, job)
        return self

    # --- the world's part

    def send(self, *events: Event) -> Self:
        inbox = list(events)
        while inbox:
            event = inbox.pop(0)
            brain = self.brain
            answered = brain.handle(event)
            demand(check(brain.state, brain.decision))
            self.instructions += answered
            if brain.decision is not None:
                self.rounds.append(answered)
            self._wakes += [wake.at for wake in answered if isinstance(wake, Wake)]
            self._wakes.sort()
            if self._answers:
                inbox += [a for a in map(self._acknowledge, answered) if a is not None]
        return self

    def _acknowledge(self, instruction: Instruction) -> Event | None:
        if not isinstance(instruction, ANSWERED):
            return None
        stops = isinstance(instruction, Preempt | Stop)
        kept = self._work_done(instruction.job) if stops else None
        serial = instruction.serial if isinstance(instruction, Resize | Feed) else 0
        who = (instruction.job, instruction.epoch, instruction.verb)
        return InstructionDone(self.now, *who, kept, serial)

    def _work_done(self, job: JobId) -> float | None:
        slot = self.brain.state.slot_of.get(job)
        if slot is None:
            return None
        columns = self.brain.state.jobs
        elapsed = self.now - float(columns.mark[slot])
        return float(columns.work_done[slot]) + float(columns.speed[slot]) * elapsed

    def _wake(self) -> None:
        self.now = max(self.now, self._wakes.pop(0))
        self.send(Tick(self.now))


# --- what is expected ---------------------------------------------------------------------------

Expectation = Callable[[Scene, str], None]


def starts_on(*nodes: str, gpus: tuple[int, ...] = ()) -> Expectation:
    """Told to start, on exactly these nodes (and so many GPUs of each)."""

    def expectation(scene: Scene, job: str) -> None:
        placement = scene.last(Start, job).assignment.placement
        by_node: dict[str, int] = {seat.node: seat.gpus for seat in placement.seats}
        assert sorted(by_node) == sorted(nodes), f"{job} starts on {by_node}"
        if gpus:
            assert tuple(by_node[node] for node in nodes) == gpus, f"{job} starts on {by_node}"

    return expectation


def is_now(state: State) -> Expectation:
    def expectation(scene: Scene, job: str) -> None:
        assert scene.state(job) is state, f"{job} is {scene.state(job).name}, not {state.name}"

    return expectation


runs = is_now(State.RUNNING)


def waits_because(code: ReasonCode, **numbers: float | str) -> Expectation:
    """It waits, and this comes first among the reasons it is given (with these numbers)."""

    def expectation(scene: Scene, job: str) -> None:
        state = scene.state(job)
        assert state in (State.QUEUED, State.ADMITTED), f"{job} is {state.name}"
        first = scene.reasons(job)[0]
        assert first.code is code, f"{job}: {first.code.name}: {first.text}"
        assert first.text and first.remedy
        told = {name: first.numbers[name] for name in numbers}
        assert told == numbers, f"{job}: {first.text} {told}"

    return expectation


def also_waits_because(code: ReasonCode) -> Expectation:
    def expectation(scene: Scene, job: str) -> None:
        told = [reason.code for reason in scene.reasons(job)]
        assert code in told, f"{job}: {told}"

    return expectation


def yields_to(beneficiary: str) -> Expectation:
    def expectation(scene: Scene, job: str) -> None:
        told = scene.last(Preempt, job).beneficiary
        assert told == beneficiary, f"{job} yields to {told}"

    return expectation


def is_never_preempted(scene: Scene, job: str) -> None:
    assert scene.all(Preempt, job) == [], f"{job} was preempted"


# --- tables for policies ------------------------------------------------------------------------


def a_snapshot(
    *rows: dict[str, Any],
    now: float = 1000.0,
    nodes: Cluster | None = None,
    menus: Menus = NO_MENUS,
) -> Snapshot:
    """A snapshot of jobs whose columns are written down one by one; `seq` counts from 0."""
    columns = JobColumns.empty(len(rows))
    columns.active[:] = True
    columns.asked_gpus[:] = 1
    columns.pace[:] = 1.0
    columns.scale[:] = 1.0
    columns.rank[:] = -1
    columns.mark[:] = now
    columns.seq[:] = range(len(rows))
    for slot, row in enumerate(rows):
        for name, value in row.items():
            getattr(columns, name)[slot] = value
    table = node_table(nodes or a_cluster(nodes=1, gpus=8))
    return Snapshot(
        now=now,
        jobs=columns,
        nodes=table.fabric.nodes,
        seats=SeatColumns.empty(0),
        specs=[None] * len(rows),
        node_ids=table.ids,
        queue_ids=(),
        gpu_types=(),
        menus=menus,
    )


def sized(size: Size, snapshot: Snapshot, slots: Ints) -> Ints:
    """The widths under all that the cluster has, without quotas."""
    return size(snapshot, slots, Supply.of(snapshot, slots))


def a_purse(gpus: int) -> Purse:
    """One budget for everybody."""
    return Purse([gpus], [(0,)])


def node_table(cluster: Cluster) -> NodeTable:
    table = NodeTable()
    for node in cluster.nodes:
        table.put(node)
    return table
