"""Mutants: the brain with one of its defences taken out, to see whether the checks notice.

Each is a context manager that patches the brain (or the world's own guard) and puts everything
back. They are modelled on how real schedulers broke: seats freed before the world confirms
(Kubernetes #76772), an error path that forgets to requeue (#50106), a retry that assumes twice
(#26043), usage from a stale counter (Kueue #14609), gangs partly placed (Volcano #3373). A pair
takes two defences out at once, where one of them hides the other.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from weft.brain import brain as brain_module
from weft.brain import desk as desk_module
from weft.brain import victims as victims_module
from weft.brain.brain import Brain
from weft.brain.event import (
    InstructionDone,
    InstructionRefused,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobReported,
    JobSubmitted,
    NodeLost,
)
from weft.brain.instruction import Start
from weft.brain.outcome import Granted, Outcome
from weft.brain.state import PENDING, BrainState
from weft.model.decision import Assignment, Grant
from weft.model.ids import JobId
from weft.model.job import Job
from weft.model.placement import Placement
from weft.model.snapshot import Floats, Ints
from weft.model.state import State
from weft.policy.tenancy.quota import QuotaLedger
from weft.sim.past import Past
from weft.sim.run import Run
from weft.sim.world import World

Mutant = Callable[[], AbstractContextManager[None]]
MUTANTS: dict[str, Mutant] = {}
"""One defence less."""
PAIRS: dict[str, Mutant] = {}
"""Two defences less: each hides the loss of the other."""


def mutant(make: Callable[[], Iterator[None]]) -> Mutant:
    made = contextmanager(make)
    MUTANTS[make.__name__] = made
    return made


def handler(event: type, instead: Callable[[Brain, Any], None]) -> AbstractContextManager[object]:
    """Patch what the brain does with one kind of event."""
    return patch.dict(brain_module._HANDLERS, {event: instead})


# --- seats ----------------------------------------------------------------------------------------


@mutant
def seats_freed_before_the_world_confirms() -> Iterator[None]:
    stop = Brain._stop

    def eager(self: Brain, slot: int, *, after: State, why: str) -> None:
        stop(self, slot, after=after, why=why)
        self._stopped(slot, None)

    with patch.object(Brain, "_stop", eager):
        yield


@mutant
def preempted_seats_given_away_at_once() -> Iterator[None]:
    def start_anyway(self: Brain, granted: Granted, vacated: set[int]) -> Grant:
        assignment = self._assignment(granted)
        self.state.seat(granted.slot, assignment, pledged=False)
        self._start(granted.slot, assignment)
        return Grant(self.state.spec(granted.slot).id, assignment)

    with patch.object(Brain, "_grant", start_anyway):
        yield


@mutant
def pledged_seats_ignored_by_the_next_round() -> Iterator[None]:
    def committed(state: BrainState, amounts: Floats) -> Floats:
        seats, count = state.seats, state.seat_count
        held = amounts * ~seats.pledged[:count]
        return np.bincount(seats.node[:count], held, state.fabric.count).astype(float)

    with patch.object(desk_module, "_committed", committed):
        yield


@mutant
def seats_being_left_count_as_free() -> Iterator[None]:
    def committed(state: BrainState, amounts: Floats) -> Floats:
        seats, count = state.seats, state.seat_count
        staying = amounts * ~seats.releasing[:count]
        return np.bincount(seats.node[:count], staying, state.fabric.count).astype(float)

    with patch.object(desk_module, "_committed", committed):
        yield


@mutant
def pledges_start_without_a_look_at_the_seats() -> Iterator[None]:
    with patch.object(BrainState, "seats_are_free", lambda *_: True):
        yield


@mutant
def pledges_on_a_lost_node_are_kept() -> Iterator[None]:
    with patch.object(Brain, "_withdraw_pledges", lambda *_: None):
        yield


@mutant
def partial_gang_seated() -> Iterator[None]:
    assign = Brain._assignment

    def short(self: Brain, granted: Granted) -> Assignment:
        whole = assign(self, granted)
        seats = whole.placement.seats
        return Assignment(whole.width, Placement(seats[:-1] if len(seats) > 1 else seats))

    with patch.object(Brain, "_assignment", short):
        yield


# --- incarnations ---------------------------------------------------------------------------------


def any_epoch(self: Brain, job: JobId, epoch: int) -> int | None:
    slot = self.state.slot_of.get(job)
    return slot if slot is not None and self.state.state_of(slot).holds_seats else None


@mutant
def epoch_not_checked() -> Iterator[None]:
    with patch.object(Brain, "_current", any_epoch):
        yield


@contextmanager
def epoch_not_checked_on_finish() -> Iterator[None]:
    """Alone it is hidden: this world never lets an older epoch finish while a newer one lives."""
    finished = Brain._on_finished

    def lax(self: Brain, event: JobFinished) -> None:
        slot = any_epoch(self, event.job, event.epoch)
        epoch = event.epoch if slot is None else int(self.state.jobs.epoch[slot])
        finished(self, JobFinished(event.at, event.job, epoch))

    with handler(JobFinished, lax):
        yield


@mutant
def epoch_not_checked_on_done() -> Iterator[None]:
    done = Brain._on_done

    def lax(self: Brain, event: InstructionDone) -> None:
        slot = any_epoch(self, event.job, event.epoch)
        epoch = event.epoch if slot is None else int(self.state.jobs.epoch[slot])
        done(self, InstructionDone(event.at, event.job, epoch, event.verb, event.work_kept))

    with handler(InstructionDone, lax):
        yield


@mutant
def epoch_not_raised_at_a_start() -> Iterator[None]:
    start = Brain._start

    def stale(self: Brain, slot: int, assignment: Assignment) -> None:
        if self.state.jobs.epoch[slot] > 0:
            self.state.jobs.epoch[slot] -= 1
        start(self, slot, assignment)

    with patch.object(Brain, "_start", stale):
        yield


@mutant
def start_resent_with_a_new_epoch() -> Iterator[None]:
    def again(self: Brain, slot: int, state: State, event: JobReported) -> None:
        assignment = self.state.assignments[slot]
        assert assignment is not None
        self.state.jobs.epoch[slot] += 1
        self._out.append(Start(event.job, int(self.state.jobs.epoch[slot]), assignment))
        self._expect_answer(slot)

    with patch.object(Brain, "_found_absent", again):
        yield


@mutant
def old_news_of_absence_believed() -> Iterator[None]:
    found = Brain._found_absent

    def hasty(self: Brain, slot: int, state: State, event: JobReported) -> None:
        if state is State.STOPPING:
            self._stopped(slot, event.work_done)
        elif state is State.RUNNING:
            self._on_failed(JobFailed(event.at, event.job, event.epoch, event.work_done))
        else:
            found(self, slot, state, event)

    with patch.object(Brain, "_found_absent", hasty):
        yield


@mutant
def duplicate_submission_accepted() -> Iterator[None]:
    def trusting(self: Brain, event: JobSubmitted) -> None:
        self.state.closed.pop(event.job.id, None)
        self.state.add_job(event.job, self.now)
        self._want_round()

    with handler(JobSubmitted, trusting):
        yield


@mutant
def finished_job_accepted_again() -> Iterator[None]:
    submitted = Brain._on_submitted

    def forgetful(self: Brain, event: JobSubmitted) -> None:
        self.state.closed.pop(event.job.id, None)
        submitted(self, event)

    with handler(JobSubmitted, forgetful):
        yield


# --- a brain made anew ----------------------------------------------------------------------------


@mutant
def runs_found_after_a_crash_are_ignored() -> Iterator[None]:
    with patch.object(Brain, "_adopt", lambda *_: None):
        yield


@mutant
def stopping_runs_found_after_a_crash_hold_nothing() -> Iterator[None]:
    adopt = Brain._adopt

    def only_healthy(self: Brain, slot: int, event: JobReported, placement: Placement) -> None:
        if event.phase.value != "stopping":
            adopt(self, slot, event, placement)

    with patch.object(Brain, "_adopt", only_healthy):
        yield


@mutant
def recorded_epoch_forgotten_after_a_crash() -> Iterator[None]:
    meet = Brain._meet_stranger

    def forgetful(self: Brain, event: JobReported, slot: int | None) -> None:
        if event.placement is not None:
            meet(self, event, slot)

    with patch.object(Brain, "_meet_stranger", forgetful):
        yield


# --- paths that forget ----------------------------------------------------------------------------


@mutant
def cancel_while_stopping_forgotten() -> Iterator[None]:
    cancelled = Brain._on_cancelled

    def forgetful(self: Brain, event: JobCancelled) -> None:
        slot = self.state.slot_of.get(event.job)
        if slot is not None and self.state.state_of(slot) is not State.STOPPING:
            cancelled(self, event)

    with handler(JobCancelled, forgetful):
        yield


@mutant
def failure_forgets_to_requeue() -> Iterator[None]:
    requeue = Brain._requeue

    def forgetful(self: Brain, slot: int, reason: int, delay_seconds: float) -> None:
        requeue(self, slot, reason, delay_seconds)
        if reason != PENDING:
            self.state.jobs.not_before[slot] = np.inf

    with patch.object(Brain, "_requeue", forgetful):
        yield


@mutant
def backoff_ends_without_a_round() -> Iterator[None]:
    with patch.object(BrainState, "next_backoff", lambda *_: None):
        yield


@mutant
def failure_backoff_dropped() -> Iterator[None]:
    with patch.object(Brain, "_backoff", lambda *_: 0.0):
        yield


@mutant
def retries_without_end() -> Iterator[None]:
    failed = Brain._on_failed

    def endless(self: Brain, event: JobFailed) -> None:
        slot = self._current(event.job, event.epoch)
        if slot is not None:
            most = self.state.spec(slot).max_retries - 1
            self.state.jobs.failures[slot] = min(int(self.state.jobs.failures[slot]), most)
        failed(self, event)

    with handler(JobFailed, endless):
        yield


@mutant
def refused_start_not_released() -> Iterator[None]:
    with handler(InstructionRefused, lambda *_: None):
        yield


@mutant
def jobs_on_a_lost_node_not_stopped() -> Iterator[None]:
    def lenient(self: Brain, event: NodeLost) -> None:
        row = self.state.node_row.get(event.node)
        if row is not None:
            self.state.lose_node(row)
            self._want_round()

    with handler(NodeLost, lenient):
        yield


@mutant
def silence_never_probed() -> Iterator[None]:
    with patch.object(Brain, "_listen", Brain._forget):
        yield


@mutant
def unanswered_never_probed() -> Iterator[None]:
    with patch.object(Brain, "_expect_answer", Brain._forget):
        yield


@mutant
def stop_not_repeated_when_it_was_lost() -> Iterator[None]:
    compare = Brain._compare

    def trusting(self: Brain, slot: int, event: JobReported) -> None:
        if self.state.state_of(slot) is State.STOPPING:
            self._expect_answer(slot)
        else:
            compare(self, slot, event)

    with patch.object(Brain, "_compare", trusting):
        yield


@mutant
def work_kept_ignored() -> Iterator[None]:
    idle = BrainState.set_idle

    def optimistic(self: BrainState, slot: int, at: float, work_kept: float | None) -> None:
        idle(self, slot, at, None)

    with patch.object(BrainState, "set_idle", optimistic):
        yield


@mutant
def wait_not_booked_when_the_reason_changes() -> Iterator[None]:
    def forgetful(self: BrainState, slots: Ints, at: float, reasons: Ints) -> None:
        changed = reasons != self.jobs.reason[slots]
        self.jobs.reason[slots[changed]] = reasons[changed]
        self.jobs.waiting_since[slots[changed]] = at

    with patch.object(BrainState, "book_waits", forgetful):
        yield


@mutant
def copy_shares_its_rows() -> Iterator[None]:
    copied = BrainState.copied

    def shallow(self: BrainState) -> BrainState:
        twin = copied(self)
        twin.held_on = self.held_on
        return twin

    with patch.object(BrainState, "copied", shallow):
        yield


# --- rights ---------------------------------------------------------------------------------------


@mutant
def quota_not_checked() -> Iterator[None]:
    with patch.object(QuotaLedger, "refusing", lambda *_, **__: None):
        yield


@mutant
def quota_of_ancestors_not_checked() -> Iterator[None]:
    def leaf_only(self: QuotaLedger, queue: int, gpus: int, *, firm: bool = False) -> int | None:
        caps = self.table.guaranteed if firm and self.table.divided else self.table.caps
        full = self.used[queue] + gpus > min(caps[queue], self.table.caps[queue])
        return queue if full else None

    with patch.object(QuotaLedger, "refusing", leaf_only):
        yield


@mutant
def quota_ignores_what_is_still_being_left() -> Iterator[None]:
    with patch.object(BrainState, "quota_fits", lambda *_: True):
        yield


@mutant
def quota_use_from_a_stale_copy() -> Iterator[None]:
    own_use = BrainState.own_use
    kept: dict[int, list[int]] = {}

    def stale(self: BrainState, *, held_only: bool = False) -> list[int]:
        now = own_use(self, held_only=held_only)
        old = kept.get(id(self), now)
        kept[id(self)] = now
        return old if len(old) == len(now) else now

    with patch.object(BrainState, "own_use", stale):
        yield


@mutant
def pledges_do_not_count_on_the_quota() -> Iterator[None]:
    own_use = BrainState.own_use

    def held(self: BrainState, *, held_only: bool = False) -> list[int]:
        return own_use(self, held_only=True)

    with patch.object(BrainState, "own_use", held):
        yield


@mutant
def victim_without_beneficiary() -> Iterator[None]:
    apply = Brain._apply

    def greedy(self: Brain, outcome: Outcome) -> None:
        if outcome.preempted:
            outcome.grants.clear()
        apply(self, outcome)

    with patch.object(Brain, "_apply", greedy):
        yield


@mutant
def anybody_may_be_preempted() -> Iterator[None]:
    add_job = BrainState.add_job

    def unkind(self: BrainState, job: Job, at: float) -> int:
        slot = add_job(self, job, at)
        self.jobs.preemptible[slot] = True
        return slot

    with patch.object(BrainState, "add_job", unkind):
        yield


@mutant
def min_run_ignored() -> Iterator[None]:
    set_running = BrainState.set_running

    def backdated(self: BrainState, slot: int, at: float) -> None:
        set_running(self, slot, at)
        self.jobs.started[slot] = at - 1e6

    with patch.object(BrainState, "set_running", backdated):
        yield


@mutant
def seats_on_cordoned_nodes_offered() -> Iterator[None]:
    def all_seats(state: BrainState, slot: int, position: int = 0) -> victims_module.Victim:
        assignment = state.assignments[slot]
        assert assignment is not None
        rows = state.node_row
        seats = tuple(
            (rows[s.node], s.gpus, s.cpus, s.memory_gib) for s in assignment.placement.seats
        )
        queue = int(state.jobs.queue[slot])
        return victims_module.Victim(slot, position, assignment.width, queue, seats)

    with patch.object(victims_module, "seated", all_seats):
        yield


# --- the world's guards, and pairs ----------------------------------------------------------------


@contextmanager
def no_guard_in_the_world() -> Iterator[None]:
    """The world starts whatever it is told to, on whatever node, beside whatever runs."""
    refusal = World._refusal

    def obedient(self: World, start: Start, present: Run | None) -> str:
        why = refusal(self, start, present)
        return "" if why.endswith(("still runs", "is full")) else why

    with patch.object(World, "_refusal", obedient):
        yield


@contextmanager
def no_fence_in_the_world() -> Iterator[None]:
    """The world forgets which epochs it has refused or ended."""
    with patch.object(Past, "answer_to_start", lambda self, job, epoch: None):
        yield


@mutant
def a_late_stop_makes_the_world_forget_a_finish() -> Iterator[None]:
    with patch.object(Past, "fence", Past.end):
        yield


MUTANTS["no_fence_in_the_world"] = no_fence_in_the_world


def pair(name: str, *mutants: Mutant) -> None:
    @contextmanager
    def both() -> Iterator[None]:
        with ExitStack() as stack:
            for one in mutants:
                stack.enter_context(one())
            yield

    PAIRS[name] = both


pair("freed early, no guard", seats_freed_before_the_world_confirms, no_guard_in_the_world)
pair("epoch unchecked, no guard", epoch_not_checked, no_guard_in_the_world)
pair("absence believed, no guard", old_news_of_absence_believed, no_guard_in_the_world)
pair("epoch unchecked on done, no fence", epoch_not_checked_on_done, no_fence_in_the_world)
pair("epoch unchecked on finish, no fence", epoch_not_checked_on_finish, no_fence_in_the_world)
pair("strangers ignored, no guard", runs_found_after_a_crash_are_ignored, no_guard_in_the_world)
