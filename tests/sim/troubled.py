"""Worlds in which programs, nodes and services are at fault, and what is promised of failures.

Drawn apart from everything else, so that a seed without troubles is the world that it always was.
What follows from a failure is computed here once more from what the brain was told, in the dullest
way: who struck a service, who may be tried again, and which nodes may be set aside.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING

from tests.sim.hardships import no_later
from tests.sim.promise import PromiseBroken
from weft.brain.brain import Settings
from weft.brain.event import Event, JobFailed, NodeChecked, ServiceAsked, WorkerLost
from weft.brain.instruction import Instruction, Resize, Start
from weft.failure.classes import FailureClass, Retry
from weft.failure.diagnosis import Diagnosis
from weft.failure.health import Health
from weft.failure.lines import Stream
from weft.model.cluster import Cluster
from weft.model.ids import JobId, NodeId
from weft.model.job import Job
from weft.model.state import State
from weft.sim.faults import Faults
from weft.sim.troubles import Ailment, BadNode, Outage, Said, Troubles

if TYPE_CHECKING:
    from tests.sim.random_world import RandomWorld

SHARE_OF_WORLDS = 0.35
APP, KERNEL = Stream.APP, Stream.KERNEL
XID = ((KERNEL, "NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus."),)
HUNG = ((APP, "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=X)"),)
ENDS: tuple[tuple[Said, ...], ...] = (
    ((APP, "KeyError: 'head'"),),
    ((APP, "FileNotFoundError: [Errno 2] No such file or directory: '/data/a.bin'"),),
    ((APP, "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"),),
    ((APP, "Segmentation fault (core dumped)"),),
    ((APP, "RuntimeError: CUDA error: uncorrectable ECC error encountered"),),
    ((APP, "something that no rule names"),),
    ((Stream.PLATFORM, "container OOMKilled (exit code 137)"),),
    ((APP, "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed."),),
    HUNG,
    XID,
)
HDFS = "java.net.ConnectException: Call From a to b:8020 failed on connection exception"
STRIKES, USERS, WINDOW_SECONDS = 5, 2, 600.0
LATE_SECONDS = 3600.0
MOST_SAME, MOST_ON_SERVICE = 3, 6


class Trouble(StrEnum):
    """What is to be met in worlds of this kind."""

    ILL = "job ill"
    BAD_NODE = "node bad"
    OUTAGE = "service out"
    OPENED = "breaker opened"
    SET_ASIDE = "node set aside"
    BACK = "node back after a check"
    STOPPED = "stopped by class"
    KEPT_OFF = "kept off a node"


def troubled(seed: int) -> bool:
    return Random(f"trouble {seed}").random() < SHARE_OF_WORLDS


def with_troubles(seed: int, faults: Faults, jobs: tuple[Job, ...], cluster: Cluster) -> Faults:
    """Some jobs are ill, some nodes bad, and a store is out once or twice."""
    rng, until = Random(f"troubles {seed}"), faults.until_seconds
    ill = rng.choice((0.0, 0.2, 0.6))
    bad = rng.choice((0.0, 0.2, 0.5))
    return replace(
        faults,
        troubles=Troubles(
            ailments={job.id: _ailment(rng) for job in jobs if rng.random() < ill},
            bad_nodes=tuple(
                _bad_node(rng, node.id, until) for node in cluster.nodes if rng.random() < bad
            ),
            outages=tuple(_outage(rng, until) for _ in range(rng.choice((0, 1, 1, 2)))),
            until_seconds=until,
        ),
    )


def with_patience(seed: int, settings: Settings) -> Settings:
    rng = Random(f"patience {seed}")
    return replace(
        settings,
        breaker_seconds=rng.choice((120.0, 600.0)),
        avoid_seconds=rng.choice((30.0, 300.0, 1800.0)),
    )


def _ailment(rng: Random) -> Ailment:
    return Ailment(
        lines=rng.choice(ENDS),
        after_seconds=rng.choice((0.0, 1.0, 40.0, 300.0, 4000.0)),
        again=rng.choice((0.0, 0.5, 1.0)),
        needs_gpus=rng.choice((0, 0, 2)),
    )


def _bad_node(rng: Random, node: NodeId, until: float) -> BadNode:
    begin = rng.uniform(0.0, until / 2)
    return BadNode(
        node=node,
        lines=rng.choice((XID, XID, ENDS[4], HUNG)),
        begin_seconds=begin,
        end_seconds=min(begin + rng.uniform(0.0, until), until),
        share=rng.choice((0.5, 1.0)),
        after_seconds=rng.choice((5.0, 60.0)),
        passes_checks=rng.random() < 0.2,
    )


def _outage(rng: Random, until: float) -> Outage:
    begin = rng.uniform(0.0, until / 2)
    return Outage(
        service="hdfs",
        lines=((APP, HDFS),),
        begin_seconds=begin,
        end_seconds=min(begin + rng.choice((200.0, 1000.0)), until),
        share=rng.choice((0.6, 1.0)),
        within_seconds=rng.choice((20.0, 100.0)),
    )


@dataclass(slots=True)
class Tried:
    """What a job has failed of since it last saved something."""

    saved: float = -1.0
    fingerprint: str = ""
    attempts: int = 0
    gained: bool = False


@dataclass(slots=True)
class FailureWatch:
    """Follows what the brain hears of failures, and what it does about them."""

    seen: Counter[str]
    tried: dict[JobId, Tried] = field(default_factory=dict)
    struck: dict[str, dict[JobId, tuple[float, str]]] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    aside: frozenset[NodeId] = frozenset()
    ordered: set[tuple[JobId, int, int]] = field(default_factory=set)
    promised: dict[JobId, frozenset[NodeId]] = field(default_factory=dict)
    """Jobs whose seats others still leave, and what they kept off when they were promised them."""

    service: dict[JobId, str] = field(default_factory=dict)
    ran: float = 0.0
    written: Health | None = None
    was_set: bool = False

    def before(self, world: "RandomWorld", event: Event) -> None:
        """While the run that failed still holds its seats."""
        if not isinstance(event, JobFailed | WorkerLost) or event.diagnosis is None:
            return
        state = world.brain.state
        slot = state.incarnation(event.job, event.epoch)
        if slot is None:
            return
        stops = state.state_of(slot) is State.STOPPING
        if stops and (isinstance(event, WorkerLost) or state.after_stop[slot] is State.CANCELLED):
            return
        running = state.state_of(slot) is not State.STARTING
        self.ran = world.now - float(state.jobs.started[slot]) if running else 0.0
        if isinstance(event, JobFailed):
            self._failed(world, event, event.diagnosis)
        else:
            self.service[event.job] = event.diagnosis.service

    def heard(self, world: "RandomWorld", event: Event, instructions: list[Instruction]) -> None:
        if world.auditor.rebuilding:
            return
        self._asides(world, event)
        if isinstance(event, JobFailed) and event.diagnosis is not None:
            self._judged(world, event, event.diagnosis)
        elif isinstance(event, ServiceAsked) and event.answers:
            self.open.discard(event.service)
            self.struck.pop(event.service, None)
        self._breakers(world)
        for instruction in instructions:
            if isinstance(instruction, Start):
                self._started(world, instruction)
            elif isinstance(instruction, Resize):
                self._takes_no_seat_aside(world, instruction)
        self._promises(world)

    def forget_brain(self, world: "RandomWorld") -> None:
        """What was written down is handed to the next one."""
        self.written = world.health
        self.promised = {}

    def clock_set(self, now: float, seconds: float) -> None:
        """Who struck when, by the clock of the next brain."""
        for struck in self.struck.values():
            for job, (at, user) in struck.items():
                struck[job] = (min(at + seconds, now), user)
        self.was_set = True

    def rebuilt(self, world: "RandomWorld") -> None:
        """It knows as much as the one before, and nothing of the future (F5)."""
        health = world.brain.state.failures.health
        if self.written is not None and health != no_later(self.written, world.now):
            raise PromiseBroken("F5", f"after a crash {health} is believed, not {self.written}")
        for job, slot in world.brain.state.slot_of.items():
            kept, retry = world.retries.get(job), world.brain.state.failures.retries.get(slot)
            if kept is not None and retry is not None:
                late = tuple((what, min(at, world.now)) for what, at in kept.spent)
                kept = replace(kept, spent=late)
            if kept != retry:
                raise PromiseBroken("F5", f"{job}: {retry} is believed, {kept} was written down")

    # --- retries ------------------------------------------------------------------------------

    def _failed(self, world: "RandomWorld", event: JobFailed, found: Diagnosis) -> None:
        now = self.tried.setdefault(event.job, Tried())
        now.gained = now.attempts > 0 and int(event.work_kept) > now.saved
        if int(event.work_kept) > now.saved:
            now.saved, now.attempts, now.fingerprint = int(event.work_kept), 0, ""
        held = bool(found.service) and world.request(event.job).max_retries > 0
        if held and found.service in self.open:
            self.service[event.job] = found.service
            return
        now.attempts = now.attempts + 1 if found.fingerprint == now.fingerprint else 1
        now.fingerprint = found.fingerprint
        self.service[event.job] = found.service
        if found.service:
            self._strike(world, event, found.service)

    def _judged(self, world: "RandomWorld", event: JobFailed, found: Diagnosis) -> None:
        """Whoever has no try left is over (F1)."""
        over = event.job not in world.brain.state.slot_of
        now = self.tried.get(event.job)
        if over:
            self.seen[Trouble.STOPPED] += 1
        if now is None or over or found.service in self.open or not now.attempts:
            return
        most = MOST_ON_SERVICE if found.kind is FailureClass.SERVICE else MOST_SAME
        final = found.cure in (Retry.STOP, Retry.CHANGE) and self.ran <= LATE_SECONDS
        again = found.cure is Retry.CONFIRM and now.attempts > 1
        if now.attempts >= most or again or (final and not now.gained):
            raise PromiseBroken("F1", f"{event.job} is tried again after {found}, {now}")

    # --- services -----------------------------------------------------------------------------

    def _strike(self, world: "RandomWorld", event: JobFailed, service: str) -> None:
        struck = self.struck.setdefault(service, {})
        struck[event.job] = (event.at, world.request(event.job).tenant)
        recent = [user for at, user in struck.values() if at > event.at - WINDOW_SECONDS]
        if len(recent) >= STRIKES and len(set(recent)) >= USERS and service not in self.open:
            self.open.add(service)
            self.seen[Trouble.OPENED] += 1

    def _breakers(self, world: "RandomWorld") -> None:
        """What should be open is, unless nobody has answered for too long (F2)."""
        health, settings = world.brain.state.failures.health, world.brain.settings
        for service in list(self.open):
            breaker = health.breaker(service)
            if breaker.is_open:
                continue
            if breaker.answered_seconds is None:
                raise PromiseBroken("F2", f"{service} should wait, and jobs may use it")
            self.open.discard(service)  # nobody answered: jobs find out for themselves
            self.struck.pop(service, None)
            if settings.breaker_seconds > world.now and not self.was_set:
                raise PromiseBroken("F2", f"{service} is used again too early")

    def _started(self, world: "RandomWorld", start: Start) -> None:
        service = self.service.get(start.job, "")
        if service in self.open and self._is_new(world, start):
            raise PromiseBroken("F2", f"{start.job} is started into {service}, which is out")
        self._takes_no_seat_aside(world, start)
        away = self.promised.get(start.job)
        if away is None:
            away = _kept_off(world, world.brain.state.slot_of[start.job])
        if away:
            self.seen[Trouble.KEPT_OFF] += 1
        if away & set(start.assignment.placement.nodes) and self._is_new(world, start):
            raise PromiseBroken("F4", f"{start.job} is started on {away}, which failed it")

    def _promises(self, world: "RandomWorld") -> None:
        """Seats that others still leave stay promised, though a better node comes meanwhile."""
        state, before = world.brain.state, self.promised
        self.promised = {}
        for slot in state.seating.admitted:
            job = state.spec(slot).id
            away = self.promised[job] = before.get(job, _kept_off(world, slot))
            if job not in before and away & set(state.placement(slot).nodes):
                raise PromiseBroken("F4", f"{job} is promised seats on {away}, which failed it")

    # --- nodes --------------------------------------------------------------------------------

    def _is_new(self, world: "RandomWorld", start: Start) -> bool:
        return start.epoch > world.auditor.starts.get(start.job, (0, None))[0]

    def _is_first(self, world: "RandomWorld", what: Start | Resize) -> bool:
        if isinstance(what, Start):
            return self._is_new(world, what)
        order = what.job, what.epoch, what.serial
        first = order not in self.ordered
        self.ordered.add(order)
        return first

    def _takes_no_seat_aside(self, world: "RandomWorld", what: Start | Resize) -> None:
        """Nothing begins on a node that is set aside (F3)."""
        if not self._is_first(world, what):
            return  # said again
        known = world.auditor.numbers.get((what.job, what.epoch), set())
        had = set() if isinstance(what, Start) else known
        for seat in what.assignment.placement.seats:
            if seat.node in self.aside and seat.number not in had:
                raise PromiseBroken("F3", f"{what.job} gets {seat}, and that node is set aside")

    def _asides(self, world: "RandomWorld", event: Event) -> None:
        """A pool gives no more than its share, and nobody comes back unchecked (F3)."""
        after = frozenset(one.node for one in world.brain.state.failures.health.aside)
        for node in after - self.aside:
            self.seen[Trouble.SET_ASIDE] += 1
            self._within_share(world, node, after)
        for node in self.aside - after:
            if not isinstance(event, NodeChecked) or event.node != node or not event.passed:
                raise PromiseBroken("F3", f"{node} came back at {event}")
            self.seen[Trouble.BACK] += 1
        self.aside = after

    def _within_share(self, world: "RandomWorld", node: NodeId, after: frozenset[NodeId]) -> None:
        pool = {
            one.id
            for one in world.nodes.values()
            if one.pool == world.node(node).pool and world.is_present(one.id)
        }
        most = max(int(0.05 * len(pool)), 1 if len(pool) > 1 else 0)
        if len(after & pool) > most:
            raise PromiseBroken("F3", f"{sorted(after & pool)} of {len(pool)} nodes are set aside")


def _kept_off(world: "RandomWorld", slot: int) -> frozenset[NodeId]:
    """Nodes that failed the job and that it would rather not come back to, as things are now."""
    state = world.brain.state
    return state.kinds[int(state.jobs.kind[slot])].avoid
