"""The promises of the scheduler, checked after every event, with the truth read from the world.

The numbers I1 to I13 are those of the reliability notes. What runs is read from the world's runs
and not from what the brain believes; quota, feasibility and waiting time are computed here once
more in the dullest way, so that this file shares no mistake with the code that it judges.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import isclose
from typing import TYPE_CHECKING

import numpy as np

from tests.sim import idle
from tests.sim.apart import Apart, rested_are_thought_of
from tests.sim.company import companions_of, gpus_by_node, party_of, sound_company
from tests.sim.limited import chosen_too_small, nothing_stands_still
from tests.sim.moving import HoldWatch
from tests.sim.overdue import Overdue
from tests.sim.plans import lawful
from tests.sim.promise import PromiseBroken
from tests.sim.strained import learnt_within_bounds
from tests.sim.troubled import FailureWatch
from weft.brain.brain import Brain
from weft.brain.event import (
    Event,
    InstructionDone,
    InstructionRefused,
    JobCancelled,
    JobFailed,
    JobReported,
    NodeAdded,
    NodeChanged,
    NodeChecked,
    NodeLost,
    Phase,
    QueueChanged,
    Tick,
    WorkerLost,
)
from weft.brain.instruction import Instruction, Preempt, Resize, Start, Stop, Wake
from weft.brain.state.brain_state import BrainState
from weft.brain.state.waits import REASONS
from weft.model.cluster import Node
from weft.model.decision import Assignment
from weft.model.ids import JobId, NodeId, QueueId
from weft.model.placement import Placement
from weft.model.queue import QueueTree
from weft.model.reason import ReasonCode
from weft.model.request import JobRequest
from weft.model.state import State
from weft.policy.recipe import Passing, Recipe
from weft.policy.size.requested import NetworkPacked, packed_width
from weft.sim.run import Run

if TYPE_CHECKING:
    from tests.sim.random_world import RandomWorld

NEVER = frozenset(
    {ReasonCode.CONSTRAINT_NEVER, ReasonCode.QUOTA_NEVER, ReasonCode.CONSTRAINT_QUEUE}
)
"""Reasons that say: not in this cluster and under this quota, however long you wait."""
SHORT_OF_NODES = frozenset(
    {
        ReasonCode.HEALTH_LOST,
        ReasonCode.CAPACITY_HOST,
        ReasonCode.CONSTRAINT_TYPE,
        ReasonCode.FRAGMENTED,
    }
)
"""Reasons that a job may be left with whose nodes are gone for good."""
EXPLAIN_EVERY = 20
RECOUNT_EVERY = 4
COPY_EVERY = 400
NO_LIMIT = 1 << 60
LITTLE_SECONDS = 300.0
SOON = 1e-6


class Auditor:
    """Looks at one world after every step and remembers what it needs to judge the next."""

    def __init__(self, world: "RandomWorld") -> None:
        self.world = world
        self.looks = 0
        self.starts: dict[JobId, tuple[int, Assignment]] = {}
        self.begun: dict[JobId, int] = {}
        self.speeds: dict[tuple[JobId, int], float] = {}
        self.numbers: dict[tuple[JobId, int], set[int]] = {}
        self.serials: dict[tuple[JobId, int], tuple[int, Assignment]] = {}
        self.reached: dict[JobId, float] = {}
        self.strangers: set[tuple[JobId, int]] = set()
        self.shrunk: dict[NodeId, int] = {}
        self.waited: dict[JobId, float] = {}
        self.waiting: list[JobId] = []
        self.admitted: list[JobId] = []
        self.failed: dict[JobId, set[int]] = {}
        self.not_before: dict[JobId, float] = {}
        self.seen: Counter[str] = Counter()
        self.cut_short: frozenset[JobId] = frozenset()
        self.closed = 0
        self.last_event = 0.0
        self.rebuilding = False
        self.narrow = idle.Narrow()
        self.apart = Apart()
        self.overdue = Overdue()
        self.failures = FailureWatch(self.seen)
        self.holds = HoldWatch(self.seen)

    # --- one event -----------------------------------------------------------------------------

    def before(self, event: Event) -> None:
        state = self.world.brain.state
        self.admitted = [state.spec(slot).id for slot in state.seating.admitted]
        if isinstance(event, NodeChanged):
            used = gpus_by_node(self.world.running())[event.node.id]
            self.shrunk[event.node.id] = max(used, self.shrunk.get(event.node.id, 0))
        elif isinstance(event, JobCancelled) and event.job in state.slot_of:
            self.seen[f"cancelled {state.state_of(state.slot_of[event.job]).name}"] += 1
        elif isinstance(event, JobFailed) and event.diagnosis is None:
            self._note_failure(event)
        self.failures.before(self.world, event)
        self.holds.before(self.world)

    def _note_failure(self, event: JobFailed) -> None:
        """How often it failed, and until when it must therefore wait."""
        state, settings = self.world.brain.state, self.world.brain.settings
        slot = state.slot_of.get(event.job)
        if slot is None or int(state.jobs.epoch[slot]) != event.epoch:
            return
        if chosen_too_small(state, event):
            return
        if state.state_of(slot).holds_seats:
            epochs = self.failed.setdefault(event.job, set())
            epochs.add(event.epoch)
            pause = settings.backoff_seconds * 2.0 ** (len(epochs) - 1)
            self.not_before[event.job] = event.at + min(pause, settings.backoff_cap_seconds)

    def heard(self, event: Event, instructions: list[Instruction]) -> None:
        self._clock(event)
        if self.rebuilding:
            self._undisturbed(instructions)
        self.failures.heard(self.world, event, instructions)
        self.holds.heard(self.world)
        learnt_within_bounds(self.world)
        nothing_stands_still(self.world)
        self._pledges_kept(event)
        self._ended_for_cause()
        started = set()
        for instruction in instructions:
            if isinstance(instruction, Start):
                if instruction.epoch != self.starts.get(instruction.job, (0, None))[0]:
                    if not instruction.assignment.party:  # else others hold the GPUs already
                        started.add(instruction.job)
                    self._may_start(instruction, event.at)
                self._started(instruction)
            elif isinstance(instruction, Resize):
                if self._resized(instruction):
                    started.add(instruction.job)
            elif isinstance(instruction, Preempt):
                self._preempted(instruction)
            elif isinstance(instruction, Stop) and instruction.why in ("unknown", "superseded"):
                self.strangers.add((instruction.job, instruction.epoch))
        self._quota(started)
        self._seats_are_used(event)

    def _seats_are_used(self, event: Event) -> None:
        """Rounds come in time and not too often, and leave nothing idle that somebody needs."""
        if not self.rebuilding:
            rested_are_thought_of(self.world)
        if self.world.brain.decision is not None:
            self.apart.look(self.world)
            idle.nobody_waits_beside_room(self.world)
            idle.guarantees_are_served(self.world)
            self.narrow.look(self.world)
        if _changes_supply(event):
            self.overdue.forget()
        self.overdue.look(self.world)

    def _clock(self, event: Event) -> None:
        """Waiting time, kept by a stopwatch; the brain's bookings must add up to it (I13)."""
        for job in self.waiting:
            self.waited[job] = self.waited.get(job, 0.0) + event.at - self.last_event
        self.last_event = event.at
        state = self.world.brain.state
        size = state.size
        status = state.jobs.state[:size].tolist()
        self.waiting = [j for j, slot in state.slot_of.items() if status[slot] <= State.ADMITTED]
        jobs = state.jobs
        open_wait = np.where(jobs.reason[:size] > 0, event.at - jobs.waiting_since[:size], 0.0)
        booked = (state.waits.booked[:size].sum(axis=1) + open_wait).tolist()
        for job, slot in state.slot_of.items():
            if not same_seconds(booked[slot], self.waited.get(job, 0.0)):
                raise PromiseBroken(
                    "I13 waits",
                    f"{job} waited {self.waited.get(job, 0.0)} s, booked {booked[slot]}",
                )
        for job in self.waiting:
            if not jobs.reason[state.slot_of[job]]:
                raise PromiseBroken("I13 waits", f"{job} waits and nobody says why")

    def _pledges_kept(self, event: Event) -> None:
        """A job that others made room for starts, unless it, a node or a queue changed (I11)."""
        state = self.world.brain.state
        for job in self.admitted:
            slot = state.slot_of.get(job)
            if slot is None:
                if not isinstance(event, JobCancelled):
                    raise PromiseBroken("I11", f"{job} lost its pledge and its life at {event}")
            elif state.state_of(slot) is State.QUEUED and not _breaks_pledges(event):
                raise PromiseBroken("I11", f"{job} lost its pledge at {event}")
            elif state.state_of(slot) is State.QUEUED:
                self.seen["pledge withdrawn"] += 1
            elif state.state_of(slot) is State.STARTING:
                self.seen["pledge kept"] += 1
        for slot in state.seating.admitted:
            assignment = state.seating.assignments[slot]
            assert assignment is not None
            self._take_seats(state.spec(slot).id, assignment)

    def _ended_for_cause(self) -> None:
        """Over is over, and for a reason that the world knows of (I4)."""
        world, closed = self.world, self.world.brain.state.closed
        if len(closed) == self.closed:
            return
        for job in list(closed)[self.closed :]:
            end, spec = closed[job], world.request(job)
            lawful = {
                State.SUCCEEDED: world.finished(job),
                State.CANCELLED: job in world.cancelled,
                State.FAILED: end.failures > spec.max_retries or end.diagnosis is not None,
            }
            if not lawful[end.state]:
                raise PromiseBroken("I4", f"{job} ended as {end.state.name} without cause")
            if job in world.running_ids():
                raise PromiseBroken("I5", f"{job} is {end.state.name} and still runs")
            if not same_seconds(sum(end.waits_seconds), self.waited.get(job, 0.0)):
                raise PromiseBroken("I13 waits", f"{job} ended with {end.waits_seconds} booked")
        self.closed = len(closed)

    def _may_start(self, start: Start, at: float) -> None:
        """Wanted, within its retries, rested after a failure, and on nodes that take seats (I4)."""
        world, job = self.world, start.job
        if job in world.cancelled:
            raise PromiseBroken("I4", f"{job} was cancelled and is started")
        if len(self.failed.get(job, ())) > world.request(job).max_retries:
            raise PromiseBroken("I4", f"{job} failed {self.failed[job]} and is started again")
        if at < self.not_before.get(job, 0.0) - SOON:
            raise PromiseBroken("I4", f"{job} must rest until {self.not_before[job]}, not {at}")
        self._take_seats(job, start.assignment)

    def _take_seats(self, job: JobId, assignment: Assignment) -> None:
        for name in assignment.placement.nodes:
            if self.world.node(name).cordoned or not self.world.is_present(name):
                raise PromiseBroken("I1", f"{job} is given seats on {name}, which takes none")

    def _started(self, start: Start) -> None:
        """Epochs rise; the same epoch means the same seats (I5, I9); a gang is whole (I2)."""
        epoch, assignment = self.starts.get(start.job, (0, None))
        if start.epoch < epoch or (start.epoch == epoch and start.assignment != assignment):
            raise PromiseBroken("I5", f"{start} after epoch {epoch} with {assignment}")
        if start.epoch > epoch and start.assignment.party:
            self.seen["joined"] += 1
        self.starts[start.job] = (start.epoch, start.assignment)
        self.numbers[start.job, start.epoch] = set(start.assignment.placement.numbers)
        whole_gang(self.world.request(start.job), start.assignment, self.world.nodes)
        lawful(self.world.brain.state, self.world.request(start.job), start.assignment)

    def _resized(self, resize: Resize) -> bool:
        """Whether it grows: by seats with new numbers, or it only loses some, never all."""
        key, placement = (resize.job, resize.epoch), resize.assignment.placement
        serial, before = self.serials.get(key, (0, None))
        if resize.serial < serial or (resize.serial == serial and resize.assignment != before):
            raise PromiseBroken("I9", f"{resize} after resize {serial} to {before}")
        run = self.world.run_of(resize.job)
        if resize.serial == serial or run is None or run.epoch != resize.epoch:
            return False
        self.serials[key] = (resize.serial, resize.assignment)
        held = run.numbers
        used = self.numbers.setdefault(key, set()) | held
        added = placement.numbers - used
        self.seen["resized"] += 1
        if not placement.numbers & held or len(placement.numbers) != len(placement.seats):
            raise PromiseBroken("I2", f"{resize} leaves nobody who could lead, or has a seat twice")
        if not run.live:
            raise PromiseBroken("I2", f"{resize} of a job that cannot be resized")
        if added and used & held - placement.numbers:
            raise PromiseBroken("I2", f"{resize} takes seats away and adds some")
        self.numbers[key] = used | added
        fresh = Assignment(0, placement.only(added))
        self._take_seats(resize.job, fresh)
        whole_gang(self.world.request(resize.job), resize.assignment, self.world.nodes)
        return bool(added)

    def _preempted(self, preempt: Preempt) -> None:
        """For a job that got seats, of no lower rank, after the time that was promised (I11)."""
        world, state = self.world, self.world.brain.state
        decision, spared = world.brain.decision, set(self.cut_short)
        assert decision is not None
        self._note_cut(preempt.job)
        if any(moved.job == preempt.job for moved in decision.moves):
            self._moved(preempt)
            return
        why = next(p for p in decision.preemptions if p.job == preempt.job)
        victim, other = world.request(preempt.job), world.request(why.beneficiary)
        slot = state.slot_of.get(why.beneficiary)
        if slot is None or state.state_of(slot) is State.QUEUED:
            raise PromiseBroken("I11", f"{victim.id} yields to {other.id}, which still waits")
        if not victim.preemptible:
            raise PromiseBroken("I11", f"{victim.id} must not be preempted")
        self.seen["reclaimed" if why.reclaim else "preempted"] += 1
        if why.reclaim:
            return
        if other.priority < victim.priority:
            raise PromiseBroken("I11", f"{victim.id} yields to {other.id} of lower priority")
        yielding, run = world.brain.recipe.yielding, world.run_of(victim.id)
        least = 0.0 if yielding is None else yielding.min_run_seconds
        ran = np.inf if run is None else world.now - run.begun
        told = world.now - float(state.jobs.started[state.slot_of[victim.id]])
        hardly = told <= LITTLE_SECONDS + SOON and victim.id not in spared
        if not hardly and (yielding is None or not yielding.reshuffle):
            least = max(least, victim.saves_every_seconds)
        if run is not None and ran < least - SOON:
            raise PromiseBroken("I11", f"{victim.id} ran {ran} of {least} s, then {other.id} came")

    def _note_cut(self, job: JobId) -> None:
        """Whether what it trained since it began is lost: then it is spared the next time."""
        run = self.world.run_of(job)
        saves_every = self.world.request(job).saves_every_seconds
        cut = run is not None and self.world.now - run.begun < saves_every
        self.cut_short = (self.cut_short | {job}) if cut else (self.cut_short - {job})

    def _moved(self, preempt: Preempt) -> None:
        """It gives way to nobody but itself, and only if it may be stopped at all (I11)."""
        self.seen["moved"] += 1
        if preempt.beneficiary != preempt.job or not self.world.request(preempt.job).preemptible:
            raise PromiseBroken("I11", f"{preempt} is no move of a job that may be moved")

    def _quota(self, started: set[JobId]) -> None:
        """Whoever gets seats: what is held, and what will be, is within the cap (I3)."""
        tree, state = self.world.tree, self.world.brain.state
        admitted = {state.spec(slot).id for slot in state.seating.admitted}.difference(
            self.admitted
        )
        if not (started or admitted) or not any_quota(tree):
            return
        held, staying, firm = Counter[QueueId](), Counter[QueueId](), Counter[QueueId]()
        for job, holds, stays in self._parties(state):
            for step in path(tree, self.world.request(job).queue):
                held[step] += holds
                staying[step] += stays
                firm[step] += stays * (not self.world.request(job).preemptible)
        for job in sorted(started | admitted):
            spec = self.world.request(job)
            for step in path(tree, spec.queue) if state.jobs.width[state.slot_of[job]] else ():
                now, later = held[step] * (job in started), staying[step]
                if max(now, later) > cap(tree, step):
                    raise PromiseBroken(
                        "I3",
                        f"{job} got seats: {step} holds {now}, soon {later} of {cap(tree, step)}",
                    )
                if tree.divided and not spec.preemptible and firm[step] > tree.guaranteed(step):
                    raise PromiseBroken("I3", f"{job} is kept beyond what {step} is promised")

    def _parties(self, state: BrainState) -> Iterator[tuple[JobId, int, int]]:
        """A member of each, the GPUs that they hold, and those that they will hold."""
        found: dict[str, tuple[JobId, int, int]] = {}
        for job, slot in state.slot_of.items():
            status, width = state.state_of(slot), int(state.jobs.width[slot])
            stays = width * (status is not State.STOPPING)
            if status is State.RESIZING:
                stays = min(width, state.seating.resizes[slot].target.width)
            party = party_of(state, slot)
            first, holds, later = found.get(party, (job, 0, 0))
            if self.world.request(first).preemptible:
                first = job
            found[party] = first, max(holds, width * status.holds_seats), max(later, stays)
        return iter(found.values())

    # --- what the world does -------------------------------------------------------------------

    def begins(self, start: Start) -> None:
        """An incarnation comes to life: the only one, and newer than all before it (I5)."""
        world = self.world
        if start.job in world.running_ids():
            raise PromiseBroken("I5", f"{start.job} begins epoch {start.epoch} and runs already")
        if start.epoch <= self.begun.get(start.job, 0):
            raise PromiseBroken("I5", f"{start.job} begins epoch {start.epoch} again")
        if world.finished(start.job) or start.job in world.over:
            raise PromiseBroken("I5", f"{start.job} is over and begins again")
        self.begun[start.job] = start.epoch

    def breaks(self, run: Run) -> None:
        self.reached[run.job.id] = run.progress(self.world.now)

    def leaves(self, run: Run) -> None:
        """What is kept is all where it saves on demand, else all up to a last checkpoint (I6)."""
        now, job = self.world.now, run.job
        reached = self.reached.pop(job.id, None)
        kept = self.world.saved(job.id)
        before = run.saved if run.phase is not Phase.STOPPING else 0.0
        cut_off = reached is not None or run.phase is Phase.RUNNING
        unsaved = cut_off or not job.truth.saves_on_demand
        if run.phase is Phase.RUNNING and run.progress(now) >= job.work.amount - SOON:
            return
        lost = (run.progress(now) if reached is None else reached) - kept
        speed = self.speeds.get((job.id, run.epoch), 0.0)
        interval = job.truth.checkpoint_interval_seconds
        allowed = 0.0 if not unsaved else speed * interval if interval > 0 else float("inf")
        if lost > allowed + 1e-5 or kept < before - 1e-5:
            raise PromiseBroken("I6", f"{job.id} lost {lost} of at most {allowed} units of work")

    def excuses(self, start: Start) -> bool:
        """Whether the world's guard is right to refuse though the brain made no mistake."""
        return self.excuses_seats(start.job, start.assignment.placement)

    def excuses_seats(self, job: JobId, placement: Placement) -> bool:
        nodes = set(placement.nodes)
        strange = [run for run in self.world.running() if self._is_strange(run)]
        return bool(
            nodes & self.shrunk.keys()
            or any(run.job.id == job for run in strange)
            or any(nodes & set(run.placement.nodes) for run in strange)
        )

    # --- a crash of the brain ------------------------------------------------------------------

    def forget_brain(self) -> None:
        self.failures.forget_brain(self.world)
        self.waited.clear()
        self.failed.clear()
        self.cut_short = frozenset()
        self.not_before.clear()
        self.serials.clear()
        self.numbers.clear()
        self.apart.forget()
        self.overdue.forget()
        for run in self.world.running():
            key, target = (run.job.id, run.epoch), run.target or run.placement
            self.serials[key] = (run.serial, Assignment(target.width, target))
            self.numbers[key] = set(range(run.next_seat))
        self.waiting, self.admitted, self.closed = [], [], 0
        self.last_event = self.world.now
        self.rebuilding = True

    def _undisturbed(self, instructions: list[Instruction]) -> None:
        """A brain that is being rebuilt leaves alone what runs and has no reason to stop."""
        for instruction in instructions:
            if isinstance(instruction, Stop | Preempt):
                run = self.world.run_of(instruction.job)
                if run is not None and not self._must_go(run):
                    raise PromiseBroken("I8", f"{instruction} to a healthy run after a crash")

    def _must_go(self, run: Run) -> bool:
        if run.broken or run.phase is Phase.STOPPING or run.job.id in self.world.cancelled:
            return True
        used = gpus_by_node(self.world.running())
        return any(used[node] > self.world.node(node).gpus for node in run.placement.nodes)

    def rebuilt(self) -> None:
        """Everything that runs was adopted; everything that is not over is known."""
        self.rebuilding = False
        self.failures.rebuilt(self.world)
        state = self.world.brain.state
        for run in self.world.running():
            slot = state.slot_of.get(run.job.id)
            if slot is None or not state.state_of(slot).holds_seats:
                raise PromiseBroken("I8", f"{run.job.id} runs and the new brain did not adopt it")

    # --- after every step ----------------------------------------------------------------------

    def look(self) -> None:
        self.looks += 1
        self._nobody_lost()
        self._runs()
        self._kept_work()
        if self.looks % RECOUNT_EVERY == 0:
            recount(self.world.brain.state)
        if self.looks % EXPLAIN_EVERY == 0 and self.waiting:
            self._explained(self.waiting[self.looks // EXPLAIN_EVERY % len(self.waiting)])
        if self.looks % COPY_EVERY == 0:
            independent_copy(self.world.brain)

    def _nobody_lost(self) -> None:
        """Each job that was submitted is over or in the brain, and not both (I4)."""
        world, state = self.world, self.world.brain.state
        if len(state.slot_of) + len(world.over) != len(world.specs):
            known = state.slot_of.keys() | world.over.keys()
            raise PromiseBroken(
                "I4",
                f"lost {world.specs.keys() - known}, or back from the dead "
                f"{state.slot_of.keys() & world.over.keys()}",
            )

    def _runs(self) -> None:
        """No GPU twice, by what runs (I1); the brain holds a seat for all that runs (I13)."""
        world, state = self.world, self.world.brain.state
        used: dict[NodeId, tuple[float, float]] = {}
        gpus_on = gpus_by_node(world.running())
        for run in world.running_ids().values():
            if run.speed > 0.0:
                fastest = self.speeds.get((run.job.id, run.epoch), 0.0)
                self.speeds[run.job.id, run.epoch] = max(run.speed, fastest)
            for seat in run.seats:
                cpus, memory = used.get(seat.node, (0.0, 0.0))
                used[seat.node] = (cpus + seat.cpus, memory + seat.memory_gib)
            if not self._is_strange(run):
                self._held(state, run)
        sound_company(world, world.running(), world.plan.recipe.sharing, world.plan.jobs)
        for name, (cpus, memory) in used.items():
            node, gpus = world.node(name), gpus_on[name]
            if gpus > node.gpus and gpus > self.shrunk.get(name, 0):
                raise PromiseBroken("I1", f"{gpus} GPUs run on {name}, which has {node.gpus}")
            if node.cpus is not None and cpus > node.cpus + SOON:
                raise PromiseBroken("I1", f"{cpus} CPUs run on {name}, which has {node.cpus}")
            if node.memory_gib is not None and memory > node.memory_gib + SOON:
                raise PromiseBroken("I1", f"{memory} GiB run on {name} of {node.memory_gib}")
        for name in self.shrunk:
            self.shrunk[name] = min(self.shrunk[name], gpus_on[name])

    def _held(self, state: BrainState, run: Run) -> None:
        slot = state.slot_of.get(run.job.id)
        if slot is None or not state.state_of(slot).holds_seats:
            raise PromiseBroken("I13 view", f"{run.job.id} runs and the brain holds no seat for it")
        if int(state.jobs.epoch[slot]) != run.epoch:
            raise PromiseBroken("I13 view", f"{run.job.id} runs epoch {run.epoch}, not as believed")
        believed = state.seating.assignments[slot]
        if believed is None or not set(run.seats) <= set(believed.placement.seats):
            raise PromiseBroken("I13 view", f"{run.job.id} runs elsewhere than the brain believes")

    def _kept_work(self) -> None:
        """What a waiting job would resume from is what the world has saved (I6, I13)."""
        state = self.world.brain.state
        done = state.jobs.work_done
        for job in self.waiting:
            slot = state.slot_of.get(job)
            if slot is not None and abs(done[slot] - self.world.saved(job)) > 1e-5:
                raise PromiseBroken(
                    "I6", f"{job} waits with {done[slot]}, saved {self.world.saved(job)}"
                )

    def _explained(self, job: JobId) -> None:
        """Asked why it waits, the brain answers, in words, and is not changed by that."""
        brain = self.world.brain
        mark = fingerprint(brain)
        reasons = brain.explain(job)
        if not reasons:
            raise PromiseBroken("I13 reason", f"{job} waits and is not told why")
        for reason in reasons:
            if not reason.text or not reason.remedy or "{" in reason.text + reason.remedy:
                raise PromiseBroken("I13 reason", f"{job}: {reason} does not read")
        if fingerprint(brain) != mark:
            raise PromiseBroken("I13 reason", f"asking about {job} changed the brain")

    def _is_strange(self, run: Run) -> bool:
        return (run.job.id, run.epoch) in self.strangers


def _changes_supply(event: Event) -> bool:
    """Nodes that come and go, or are set aside, and queues."""
    found = getattr(event, "diagnosis", None)
    return found is not None or isinstance(
        event, NodeAdded | NodeChanged | NodeChecked | NodeLost | QueueChanged
    )


def _breaks_pledges(event: Event) -> bool:
    """Nodes and queues change what can be promised; so does a job that did not shrink after all."""
    if isinstance(event, InstructionRefused | JobReported | NodeChecked):
        return True
    if isinstance(event, JobFailed | WorkerLost) and event.diagnosis is not None:
        return True  # a node may be set aside for it
    return isinstance(event, NodeAdded | NodeChanged | NodeLost | QueueChanged)


# --- each promise in the dullest way -----------------------------------------------------------


def whole_gang(job: JobRequest, assignment: Assignment, nodes: dict[NodeId, Node]) -> None:
    """All of it, on nodes that it accepts, of one type, in one pool (I2)."""
    seats = assignment.placement.seats
    width = sum(seat.gpus for seat in seats)
    sat = [nodes[seat.node] for seat in seats]
    sound = (
        width == assignment.width
        and job.width.min_gpus <= width <= job.width.max_gpus
        and (job.width.elastic or len({node.id for node in sat}) == len(seats))
        and len({node.pool for node in sat}) == 1
        and len({node.gpu.type for node in sat}) == 1
        and (not width or job.type_speed(sat[0].gpu.type) > 0)
        and (job.max_nodes is None or len({node.id for node in sat}) <= job.max_nodes)
    )
    if not sound:
        raise PromiseBroken("I2", f"{job.id} of {job.width} is given {assignment}")


def recount(state: BrainState) -> None:
    """Every column that follows from another one, computed anew (I13)."""
    held: list[dict[int, int]] = [{} for _ in state.seating.held_on]
    rows: dict[int, list[int]] = {}
    seats = state.seats
    for row, slot in enumerate(seats.slot[: state.seat_count].tolist()):
        if slot < 0:
            continue
        rows.setdefault(slot, []).append(row)
        if not seats.pledged[row]:
            held[int(seats.node[row])][row] = int(seats.gpus[row])
    if held != state.seating.held_on:
        raise PromiseBroken("I13 columns", f"held_on is {state.seating.held_on}, seats say {held}")
    for job, slot in state.slot_of.items():
        wrong = _wrong_seats(state, slot, rows.pop(slot, []))
        if wrong:
            raise PromiseBroken("I13 columns", f"{job} {state.state_of(slot).name}: {wrong}")
    if rows:
        raise PromiseBroken("I13 columns", f"seats without a job: {rows}")


def _wrong_seats(state: BrainState, slot: int, rows: list[int]) -> str:
    """What does not fit together about the seats of one job."""
    status, assignment = state.state_of(slot), state.seating.assignments[slot]
    if sorted(state.seating.seat_rows[slot]) != rows:
        return f"has rows {rows}, listed {state.seating.seat_rows[slot]}"
    if (assignment is not None) != (status.holds_seats or status is State.ADMITTED):
        return f"assigned {assignment}"
    given = [] if assignment is None else [seat.gpus for seat in assignment.placement.seats]
    has = state.seats.gpus[state.seating.seat_rows[slot]].tolist()
    if given != has and (any(has) or not _held_by_another(state, slot)):
        return f"has other seats than {given}"
    marked = [bool(state.seats.releasing[row]) for row in state.seating.seat_rows[slot]]
    if marked != _being_left(state, slot, status, assignment):
        return "marks the wrong seats as being left"
    lists = (slot in state.seating.admitted, slot in state.seating.resizes)
    in_order = lists == (status is State.ADMITTED, status is State.RESIZING)
    return "" if in_order else "is in the wrong list"


def _held_by_another(state: BrainState, slot: int) -> bool:
    """Whether one of its party, and no more, holds GPUs for all of them."""
    rows, gpus = state.seating.seat_rows, state.seats.gpus
    return sum(bool(gpus[rows[other]].any()) for other in companions_of(state, slot)) == 1


def _being_left(
    state: BrainState, slot: int, status: State, assignment: Assignment | None
) -> list[bool]:
    seats = () if assignment is None else assignment.placement.seats
    if status is not State.RESIZING:
        return [status is State.STOPPING for _ in seats]
    stays = state.seating.resizes[slot].target.placement.numbers
    return [seat.number not in stays for seat in seats]


def independent_copy(brain: Brain) -> None:
    """A copy that runs on leaves the original as it was."""
    mark = fingerprint(brain)
    twin = brain.copied()
    if fingerprint(twin) != mark:
        raise PromiseBroken("I13 copy", "a copy is not like its original")
    at = brain.now
    for instruction in twin.handle(Tick(at + 30.0)):
        if isinstance(instruction, Start):
            twin.handle(InstructionDone(at + 31.0, instruction.job, instruction.epoch, Start.verb))
    for job in list(twin.state.slot_of)[:5]:
        twin.handle(JobCancelled(at + 40.0, job))
    for node in list(twin.state.node_ids)[:2]:
        twin.handle(NodeLost(at + 50.0, node))
    twin.handle(Tick(at + 1000.0))
    if fingerprint(brain) != mark:
        raise PromiseBroken("I13 copy", "a copy that ran on changed its original")


def same_seconds(one: float, other: float) -> bool:
    """But for rounding: a world whose jobs hardly move may last for thousands of years."""
    return isclose(one, other, rel_tol=1e-12, abs_tol=1e-5)


def fingerprint(brain: Brain) -> int:
    """Everything that a brain remembers, as one number (of this process)."""
    state = brain.state
    columns = [*_columns(state.jobs), *_columns(state.seats), *_columns(state.nodes)]
    arrays = (*columns, state.waits.booked, state.finished.samples.gpu_seconds)
    rest = (
        tuple(map(id, state.seating.assignments)),
        tuple(map(id, state.specs)),
        str(state.slot_of),
        str(state.seating.admitted),
        str(state.seating.resizes),
        str(state.seating.held_on),
        str(state.seating.seat_rows),
        str(state.after_stop),
        tuple((job, id(end)) for job, end in state.closed.items()),
        id(state.tree),
        str(brain.outbox.unanswered),
        str(brain.outbox.silent),
        str(state.failures),
        state.finished.count,
        (brain.now, brain.rounds, brain.outbox.wake_at, str(brain.pace)),
    )
    return hash((tuple(array.tobytes() for array in arrays), rest))


def _columns(columns: object) -> list[np.ndarray]:
    return [getattr(columns, name) for name in type(columns).__slots__]  # type: ignore[attr-defined]


def path(tree: QueueTree, queue: QueueId) -> list[QueueId]:
    return [step.id for step in tree.path(queue)] if queue in tree else []


def cap(tree: QueueTree, queue: QueueId) -> int:
    """The most that a queue may ever hold."""
    spec = tree.get(queue)
    limit = NO_LIMIT if spec.limit_gpus is None else spec.limit_gpus
    return limit if spec.borrowing or not tree.divided else min(limit, tree.guaranteed(queue))


def any_quota(tree: QueueTree) -> bool:
    return tree.divided or any(queue.limit_gpus is not None for queue in tree.queues)


def could_ever_run(job: JobRequest, width: int, nodes: list[Node], tree: QueueTree) -> bool:
    """Whether an empty cluster and an empty quota would take it so wide, by trying everything."""
    if job.queue not in tree:
        return False
    for step in path(tree, job.queue):
        firm = tree.divided and not job.preemptible
        if width > min(cap(tree, step), tree.guaranteed(step) if firm else NO_LIMIT):
            return False
    if not width:
        return any(_offers(node, job, 0) for node in nodes)
    for domain in {(node.pool, node.gpu.type) for node in nodes}:
        offers = sorted(
            (
                max(gpus for gpus in range(node.gpus + 1) if _offers(node, job, gpus))
                for node in nodes
                if (node.pool, node.gpu.type) == domain and job.type_speed(node.gpu.type) > 0
            ),
            reverse=True,
        )
        if sum(offers[: job.max_nodes]) >= width:
            return True
    return False


def _offers(node: Node, job: JobRequest, gpus: int) -> bool:
    cpus = job.cpus_per_gpu * gpus if job.width.asked_gpus else job.cpus
    memory = job.memory_gib_per_gpu * gpus if job.width.asked_gpus else job.memory_gib
    return cpus <= (np.inf if node.cpus is None else node.cpus) and memory <= (
        np.inf if node.memory_gib is None else node.memory_gib
    )


# --- at the end --------------------------------------------------------------------------------


def is_at_rest(world: "RandomWorld") -> bool:
    """Nothing runs, the faults are over, and nobody who waits could run on what is there."""
    if world.running_ids() or world.now < world.faults.until_seconds or world.submits:
        return False
    if world.brain.round_is_due(world.now):
        return False
    health = world.brain.state.failures.health
    if health.aside or any(breaker.is_open for breaker in health.breakers):
        return False  # somebody is still being asked
    state = world.brain.state
    return all(
        state.state_of(slot) is State.QUEUED
        and (_reason(state, slot) in NEVER or _waits_for_nodes(world, job))
        for job, slot in state.slot_of.items()
    )


def _waits_for_nodes(world: "RandomWorld", job: JobId) -> bool:
    """Whether it is rightly told that only a node which is gone could help it, or who is ahead.

    In strict order one that waits for nodes holds up everybody behind it, as it should: the nodes
    may come back. Where waits are bounded it does so for a while only.
    """
    state = world.brain.state
    if _reason(state, state.slot_of[job]) is not ReasonCode.PRIORITY_BEHIND:
        return _is_short_of_nodes(world, job)
    recipe = world.brain.recipe
    for_ever = recipe.passing is Passing.NOBODY and recipe.waiting.longest_seconds == np.inf
    return for_ever and any(_is_short_of_nodes(world, other) for other in state.slot_of)


def _is_short_of_nodes(world: "RandomWorld", job: JobId) -> bool:
    """Whether it is told so, and what is there could not hold it though all nodes could."""
    state = world.brain.state
    told = _reason(state, state.slot_of[job]) in SHORT_OF_NODES
    everything = list(world.nodes.values())
    if not told or _could_run(world, job, world.open_nodes()):
        return False
    return _could_run(world, job, everything)


def _could_run(world: "RandomWorld", job: JobId, nodes: list[Node]) -> bool:
    request, state = world.request(job), world.brain.state
    if job in state.slot_of:  # at the widths at which it is known to run
        request = replace(request, width=state.spec(state.slot_of[job]).width)
    return could_ever_run(
        request, _least_width(world.brain.recipe, request, nodes), nodes, world.tree
    )


def _least_width(recipe: Recipe, job: JobRequest, nodes: list[Node]) -> int:
    """What the recipe asks for at the least on these nodes."""
    if recipe.resizing is not None:
        return job.width.min_gpus
    asked = job.width.asked_gpus
    if not isinstance(recipe.size, NetworkPacked):
        return asked
    node_gpus = max((node.gpus for node in nodes), default=1)
    return packed_width(asked, node_gpus, low=job.width.min_gpus, high=job.width.max_gpus)


def settled(world: "RandomWorld") -> None:
    """Once faults are over, all that can run on what is left has run (I7).

    The rest is rightly told never, or that it waits for nodes which are gone and may come back.
    """
    state = world.brain.state
    for job, slot in state.slot_of.items():
        ever = _could_run(world, job, list(world.nodes.values()))
        reason = _reason(state, slot)
        if ever if reason in NEVER else not _waits_for_nodes(world, job):
            raise PromiseBroken(
                "I7",
                f"{job} is left {state.state_of(slot).name}, {reason}, and "
                f"{'could' if ever else 'could not'} run if all nodes were there",
            )


def silent(world: "RandomWorld") -> None:
    """At rest, nothing but the clock goes on, and that not for long (I10).

    Everybody who waits may have a moment at which it has waited too long.
    """
    ticks: set[float] = set()
    most = 30 + len(world.brain.state.slot_of)
    while world.pending and len(ticks) < most:
        before = world.heard
        world.step()
        if world.heard is before or not isinstance(world.heard, Tick):
            continue  # an end that was put off leaves its old time behind, and nothing happens then
        ticks.add(world.now)
        loud = [i for i in world.brain.outbox.instructions if not isinstance(i, Wake)]
        if loud:
            raise PromiseBroken("I10", f"at rest, and still {loud}")
    if world.pending and world.brain.recipe.rounds.period_seconds is None:
        raise PromiseBroken("I10", f"at rest, and still awake at {sorted(ticks)[-5:]}")


def _reason(state: BrainState, slot: int) -> ReasonCode | None:
    row = int(state.jobs.reason[slot])
    return REASONS[row - 1] if row else None
