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

from weft.brain.brain import Brain
from weft.brain.context import Context
from weft.brain.event import (
    InstructionDone,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobReported,
    JobSubmitted,
    NodeLost,
    Phase,
)
from weft.brain.instruction import Start
from weft.brain.protocol import admission as admission_module
from weft.brain.protocol.admission import Admission
from weft.brain.protocol.answers import Answers
from weft.brain.protocol.care import Care
from weft.brain.protocol.dispatch import Dispatch
from weft.brain.protocol.jobs import Jobs
from weft.brain.protocol.node_events import Nodes
from weft.brain.protocol.outbox import Outbox
from weft.brain.protocol.pace import SHORTEST_SPACING_SECONDS, Pace
from weft.brain.protocol.reports import Reports
from weft.brain.protocol.rounds import Rounds
from weft.brain.round import gates
from weft.brain.round import turns as turns_module
from weft.brain.round.eviction import Eviction
from weft.brain.round.outcome import Granted, Outcome
from weft.brain.round.resizing import Stretch
from weft.brain.round.round import Round
from weft.brain.round.session import Session
from weft.brain.round.victims import Victim
from weft.brain.state import fits_now as fits_now_module
from weft.brain.state import vacancy as vacancy_module
from weft.brain.state.brain_state import BrainState
from weft.brain.state.company import Company
from weft.brain.state.seating import Seating
from weft.brain.state.vacancy import Vacancy
from weft.brain.state.waits import PENDING, Waits
from weft.failure.backoff import Backoff
from weft.model.decision import Assignment, Grant
from weft.model.ids import JobId
from weft.model.kind import Kind
from weft.model.placement import Placement, Seat
from weft.model.request import JobRequest
from weft.model.snapshot import Bools, Floats, Ints, NodeColumns, SeatColumns, Snapshot
from weft.model.state import State
from weft.policy.order.ranking import Ranking
from weft.policy.place.fabric import Fabric
from weft.policy.place.packing import Offer
from weft.policy.place.room import Room, Share
from weft.policy.supply import Domains, Supply
from weft.policy.tenancy.quota import NO_LIMIT, QuotaLedger
from weft.policy.waiting import Waiting
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


def wired(change: Callable[[Brain], None]) -> AbstractContextManager[object]:
    """Patch every brain that is made, once its parts know each other."""
    wire = Brain._wire

    def wire_and_change(self: Brain, *parts: Any) -> None:
        wire(self, *parts)
        change(self)

    return patch.object(Brain, "_wire", wire_and_change)


# --- seats ----------------------------------------------------------------------------------------


@mutant
def seats_freed_before_the_world_confirms() -> Iterator[None]:
    def make_eager(brain: Brain) -> None:
        parts = brain._rounds
        stop = parts._dispatch.stop

        def eager(slot: int, *, after: State, why: str) -> None:
            stop(slot, after=after, why=why)
            parts._admission.stopped(slot, None)

        setattr(parts._dispatch, "stop", eager)  # noqa: B010 - mypy knows that it is a method

    with wired(make_eager):
        yield


@mutant
def preempted_seats_given_away_at_once() -> Iterator[None]:
    def start_anyway(self: Admission, granted: Granted, *_: object) -> Grant:
        state, assignment = self._context.state, self._dispatch.assignment(granted)
        state.seating.seat(granted.slot, assignment, pledged=False)
        self._dispatch.start(granted.slot, assignment)
        return Grant(state.spec(granted.slot).id, assignment)

    with patch.object(Admission, "grant", start_anyway):
        yield


@contextmanager
def counting_only(counts: Callable[[SeatColumns], Bools]) -> Iterator[None]:
    """Of the seats only these are taken off what is free."""

    def committed(
        seating: Seating, fabric: Fabric, amounts: Ints | Floats, owed: Floats | None, _: int
    ) -> Ints | Floats:
        seats, count = seating.seats, seating.seat_count
        some = amounts * counts(seats)[:count]
        return np.bincount(seats.node[:count], some, fabric.count)

    def room(self: Vacancy, *, counts_host: bool, owed: Floats | None = None) -> Room:
        return vacancy_module.free_room(
            self._seating, self._nodes.fabric, counts_host=counts_host, owed=owed
        )

    with patch.object(vacancy_module, "_committed", committed), patch.object(Vacancy, "room", room):
        yield


@mutant
def pledged_seats_ignored_by_the_next_round() -> Iterator[None]:
    with counting_only(lambda seats: ~seats.pledged):
        yield


@mutant
def seats_being_left_count_as_free() -> Iterator[None]:
    with counting_only(lambda seats: ~seats.releasing):
        yield


@mutant
def what_changed_on_a_node_is_not_summed_anew() -> Iterator[None]:
    with patch.object(Vacancy, "_freshen", lambda *_: None):
        yield


@mutant
def sizing_ignores_the_quota_tree() -> Iterator[None]:
    """And who grows is not asked either: either guard hides the loss of the other."""
    supply = Supply.of

    def without(snapshot: Snapshot, slots: Ints, ledger: object = None, **more: Any) -> Supply:
        return supply(snapshot, slots, None, **more)

    with (
        patch.object(Supply, "of", without),
        patch.object(Session, "growth_room", lambda *_: NO_LIMIT),
    ):
        yield


@mutant
def what_refused_jobs_were_meant_to_have_stays_idle() -> Iterator[None]:
    with patch.object(Stretch, "_grow_instead_of_refused", lambda *_: None):
        yield


@mutant
def pledges_start_without_a_look_at_the_seats() -> Iterator[None]:
    with patch.object(admission_module, "nodes_are_free", lambda *_: True):
        yield


@mutant
def pledges_on_a_lost_node_are_kept() -> Iterator[None]:
    with patch.object(Admission, "withdraw_pledges", lambda *_: None):
        yield


@mutant
def moves_to_a_lost_node_are_kept() -> Iterator[None]:
    with patch.object(Admission, "withdraw_moves", lambda *_: None):
        yield


@mutant
def partial_gang_seated() -> Iterator[None]:
    assign = Dispatch.assignment

    def short(self: Dispatch, granted: Granted) -> Assignment:
        whole = assign(self, granted)
        seats = whole.placement.seats
        return Assignment(whole.width, Placement(seats[:-1] if len(seats) > 1 else seats))

    with patch.object(Dispatch, "assignment", short):
        yield


# --- incarnations ---------------------------------------------------------------------------------


def any_epoch(self: BrainState, job: JobId, epoch: int) -> int | None:
    slot = self.slot_of.get(job)
    return slot if slot is not None and self.state_of(slot).holds_seats else None


def epoch_of(state: BrainState, job: JobId, epoch: int) -> int:
    """The present one, whatever was said, where there is one."""
    slot = any_epoch(state, job, epoch)
    return epoch if slot is None else int(state.jobs.epoch[slot])


@mutant
def epoch_not_checked() -> Iterator[None]:
    with patch.object(BrainState, "incarnation", any_epoch):
        yield


@contextmanager
def epoch_not_checked_on_finish() -> Iterator[None]:
    """Alone it is hidden: this world never lets an older epoch finish while a newer one lives."""
    finished = Jobs.finished

    def lax(self: Jobs, event: JobFinished) -> None:
        epoch = epoch_of(self._context.state, event.job, event.epoch)
        finished(self, JobFinished(event.at, event.job, epoch))

    with patch.object(Jobs, "finished", lax):
        yield


@mutant
def epoch_not_checked_on_done() -> Iterator[None]:
    done = Answers.done

    def lax(self: Answers, event: InstructionDone) -> None:
        epoch = epoch_of(self._context.state, event.job, event.epoch)
        done(self, InstructionDone(event.at, event.job, epoch, event.verb, event.work_kept))

    with patch.object(Answers, "done", lax):
        yield


@mutant
def epoch_not_raised_at_a_start() -> Iterator[None]:
    start = Dispatch.start

    def stale(self: Dispatch, slot: int, assignment: Assignment) -> None:
        jobs = self._context.state.jobs
        if jobs.epoch[slot] > 0:
            jobs.epoch[slot] -= 1
        start(self, slot, assignment)

    with patch.object(Dispatch, "start", stale):
        yield


@mutant
def start_resent_with_a_new_epoch() -> Iterator[None]:
    def again(self: Reports, slot: int) -> None:
        self._context.state.jobs.epoch[slot] += 1
        self._dispatch.repeat_start(slot)

    with patch.object(Reports, "_found_absent", again):
        yield


@mutant
def old_news_of_absence_believed() -> Iterator[None]:
    compare = Reports._compare

    def hasty(self: Reports, slot: int, event: JobReported) -> None:
        status, nodes = self._context.state.state_of(slot), self._nodes
        if event.phase is not Phase.ABSENT:
            compare(self, slot, event)
        elif status is State.STOPPING:
            nodes._admission.stopped(slot, event.work_done)
        elif status is State.RUNNING:
            jobs = Jobs(
                self._context,
                pace=nodes._pace,
                dispatch=self._dispatch,
                admission=nodes._admission,
                learning=nodes._admission._learning,
                care=Care(
                    self._context,
                    self._outbox,
                    pace=nodes._pace,
                    nodes=nodes,
                    admission=nodes._admission,
                ),
                holding=nodes._holding,
            )
            jobs.failed(JobFailed(event.at, event.job, event.epoch, event.work_done))
        else:
            compare(self, slot, event)

    with patch.object(Reports, "_compare", hasty):
        yield


@mutant
def duplicate_submission_accepted() -> Iterator[None]:
    def trusting(self: Jobs, event: JobSubmitted) -> None:
        self._context.state.closed.pop(event.job.id, None)
        self._context.state.add_job(event.job, self._context.now)
        self._pace.want()

    with patch.object(Jobs, "submitted", trusting):
        yield


@mutant
def finished_job_accepted_again() -> Iterator[None]:
    submitted = Jobs.submitted

    def forgetful(self: Jobs, event: JobSubmitted) -> None:
        self._context.state.closed.pop(event.job.id, None)
        submitted(self, event)

    with patch.object(Jobs, "submitted", forgetful):
        yield


# --- a brain made anew ----------------------------------------------------------------------------


@mutant
def runs_found_after_a_crash_are_ignored() -> Iterator[None]:
    with patch.object(Reports, "_adopt", lambda *_: None):
        yield


@mutant
def stopping_runs_found_after_a_crash_hold_nothing() -> Iterator[None]:
    adopt = Reports._adopt

    def only_healthy(self: Reports, slot: int, event: JobReported, placement: Placement) -> None:
        if event.phase.value != "stopping":
            adopt(self, slot, event, placement)

    with patch.object(Reports, "_adopt", only_healthy):
        yield


@mutant
def recorded_epoch_forgotten_after_a_crash() -> Iterator[None]:
    meet = Reports._meet_stranger

    def forgetful(self: Reports, event: JobReported, slot: int | None) -> None:
        if event.placement is not None:
            meet(self, event, slot)

    with patch.object(Reports, "_meet_stranger", forgetful):
        yield


# --- paths that forget ----------------------------------------------------------------------------


@mutant
def cancel_while_stopping_forgotten() -> Iterator[None]:
    cancelled = Jobs.cancelled

    def forgetful(self: Jobs, event: JobCancelled) -> None:
        state = self._context.state
        slot = state.slot_of.get(event.job)
        if slot is not None and state.state_of(slot) is not State.STOPPING:
            cancelled(self, event)

    with patch.object(Jobs, "cancelled", forgetful):
        yield


@mutant
def failure_forgets_to_requeue() -> Iterator[None]:
    requeue = Admission.requeue

    def forgetful(self: Admission, slot: int, reason: int, delay_seconds: float = 0.0) -> None:
        requeue(self, slot, reason, delay_seconds)
        if reason != PENDING:
            self._context.state.jobs.not_before[slot] = np.inf

    with patch.object(Admission, "requeue", forgetful):
        yield


@mutant
def backoff_ends_without_a_round() -> Iterator[None]:
    with patch.object(Pace, "next_try", lambda *_: None):
        yield


@mutant
def failure_backoff_dropped() -> Iterator[None]:
    with patch.object(Backoff, "after", lambda *_: 0.0):
        yield


@mutant
def retries_without_end() -> Iterator[None]:
    failed = Jobs.failed

    def endless(self: Jobs, event: JobFailed) -> None:
        state = self._context.state
        slot = state.incarnation(event.job, event.epoch)
        if slot is not None:
            most = state.spec(slot).max_retries - 1
            state.jobs.failures[slot] = min(int(state.jobs.failures[slot]), most)
        failed(self, event)

    with patch.object(Jobs, "failed", endless):
        yield


@mutant
def refused_start_not_released() -> Iterator[None]:
    with patch.object(Answers, "refused", lambda *_: None):
        yield


@mutant
def jobs_on_a_lost_node_not_stopped() -> Iterator[None]:
    def lenient(self: Nodes, event: NodeLost) -> None:
        row = self._context.state.node_row.get(event.node)
        if row is not None:
            self._context.state.lose_node(row)
            self._pace.want()

    with patch.object(Nodes, "lost", lenient):
        yield


@mutant
def silence_never_probed() -> Iterator[None]:
    with patch.object(Outbox, "listen", Outbox.forget):
        yield


@mutant
def unanswered_never_probed() -> Iterator[None]:
    with patch.object(Outbox, "expect_answer", Outbox.forget):
        yield


@mutant
def stop_not_repeated_when_it_was_lost() -> Iterator[None]:
    compare = Reports._compare

    def trusting(self: Reports, slot: int, event: JobReported) -> None:
        if self._context.state.state_of(slot) is State.STOPPING:
            self._outbox.expect_answer(slot)
        else:
            compare(self, slot, event)

    with patch.object(Reports, "_compare", trusting):
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
    def forgetful(self: Waits, slots: Ints, at: float, reasons: Ints) -> None:
        jobs = self._jobs.columns
        changed = reasons != jobs.reason[slots]
        jobs.reason[slots[changed]] = reasons[changed]
        jobs.waiting_since[slots[changed]] = at

    with patch.object(Waits, "book_all", forgetful):
        yield


@mutant
def copy_shares_its_rows() -> Iterator[None]:
    copied = BrainState.copied

    def shallow(self: BrainState) -> BrainState:
        twin = copied(self)
        twin.seating.held_on = self.seating.held_on
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
    apply = Rounds.apply

    def greedy(self: Rounds, outcome: Outcome) -> None:
        if outcome.preempted:
            outcome.grants.clear()
        apply(self, outcome)

    with patch.object(Rounds, "apply", greedy):
        yield


@mutant
def anybody_may_be_preempted() -> Iterator[None]:
    add_job = BrainState.add_job

    def unkind(self: BrainState, job: JobRequest, at: float) -> int:
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
    begin = Fabric.__init__

    def blind(self: Fabric, nodes: NodeColumns, *args: Any, **options: Any) -> None:
        begin(self, nodes, *args, **options)
        self.usable = nodes.present

    with patch.object(Fabric, "__init__", blind):
        yield


# --- rounds and waits -----------------------------------------------------------------------------


@mutant
def a_round_asked_for_ignores_the_period() -> Iterator[None]:
    def hasty(self: Pace, at: float) -> None:
        spacing = self.context.recipe.rounds.spacing_seconds
        self._by(max(at, self.context.now + max(spacing, SHORTEST_SPACING_SECONDS)))

    with patch.object(Pace, "want_at", hasty):
        yield


@mutant
def events_ignore_the_distance_of_rounds() -> Iterator[None]:
    with patch.object(Pace, "want", lambda self: self._by(self.context.now)):
        yield


@mutant
def nobody_is_ever_overdue() -> Iterator[None]:
    with patch.object(Waiting, "overdue", lambda _, __, waiting: (waiting[:0], None)):
        yield


@mutant
def overdue_jobs_are_not_served_first() -> Iterator[None]:
    in_line = Round._in_line

    def by_rank(
        self: Round, ranking: Ranking, candidates: Ints, overdue: Ints
    ) -> tuple[Ints, Bools | None]:
        return in_line(self, ranking, candidates, overdue[:0])

    with patch.object(Round, "_in_line", by_rank):
        yield


@mutant
def whoever_waited_too_long_stays_patient() -> Iterator[None]:
    patience = Session.patience_left_seconds

    def as_ever(self: Session, slot: int, offer: Offer) -> float:
        overdue, self.overdue = self.overdue, frozenset()
        left = patience(self, slot, offer)
        self.overdue = overdue
        return left

    with patch.object(Session, "patience_left_seconds", as_ever):
        yield


# --- widths ---------------------------------------------------------------------------------------


@mutant
def sizing_counts_all_gpus_as_one_domain() -> Iterator[None]:
    def one(snapshot: Snapshot) -> Domains:
        nodes = snapshot.nodes
        return Domains(np.zeros(len(nodes.gpus), np.int64), nodes.gpu_type[:1])

    with patch.object(Domains, "of", one):
        yield


@mutant
def seats_are_numbered_twice() -> Iterator[None]:
    seats = Dispatch.seats

    def from_nought(
        self: Dispatch,
        slot: int,
        shares: tuple[Share, ...],
        first: int,
        cores: float | None = None,
    ) -> tuple[Seat, ...]:
        return seats(self, slot, shares, 0, cores=cores)

    with patch.object(Dispatch, "seats", from_nought):
        yield


# --- nodes, cores and copies ----------------------------------------------------------------------


@mutant
def a_node_that_shrinks_keeps_all_its_seats() -> Iterator[None]:
    with patch.object(Nodes, "_relieve", lambda *_: None):
        yield


@mutant
def a_pledge_starts_without_its_cores() -> Iterator[None]:
    with patch.object(fits_now_module, "host_rows_fit", lambda *_: True):
        yield


@mutant
def cores_of_a_seat_that_was_left_stay_taken() -> Iterator[None]:
    free_row = Seating._free_row

    def keeping(self: Seating, party: int, row: int) -> int:
        cpus = float(self.seats.cpus[row])
        node = free_row(self, party, row)
        self.seats.cpus[row] = cpus
        return node

    with patch.object(Seating, "_free_row", keeping):
        yield


@mutant
def what_is_free_is_not_summed_anew_when_a_node_changes() -> Iterator[None]:
    room = Vacancy.room

    def as_before(self: Vacancy, *, counts_host: bool, owed: Floats | None = None) -> Room:
        if self._fabric is not None and len(self._free.gpus) == self._nodes.fabric.count:
            self._fabric = self._nodes.fabric
        return room(self, counts_host=counts_host, owed=owed)

    with patch.object(Vacancy, "room", as_before):
        yield


@mutant
def a_copy_shares_its_deadlines() -> Iterator[None]:
    copied = Outbox.copied

    def shallow(self: Outbox, context: Context) -> Outbox:
        twin = copied(self, context)
        twin.unanswered = self.unanswered
        return twin

    with patch.object(Outbox, "copied", shallow):
        yield


@mutant
def a_guarantee_is_not_reclaimed_under_a_full_parent() -> Iterator[None]:
    def only_room(
        self: Eviction, position: int, queue: int, kind: Kind, width: int
    ) -> list[Victim] | None:
        return [] if gates.quota(self._session, kind, queue, width) is None else None

    with patch.object(Eviction, "room_in_quota", only_room):
        yield


@mutant
def gpus_do_not_pass_to_a_companion() -> Iterator[None]:
    with patch.object(Seating, "_put_gpus", lambda self, party, *, held: None):
        yield


@mutant
def a_companion_that_goes_stays_on_the_list() -> Iterator[None]:
    with patch.object(Company, "leave", lambda self, slot: None):
        yield


@mutant
def the_lead_of_a_party_yields_alone() -> Iterator[None]:
    evict = Eviction.evict

    def alone(self: Eviction, victims: list[Victim], beneficiary: int, width: int) -> bool:
        spare = evict(self, victims, beneficiary, width)
        company = self._session.state.seating.company
        for slot in [one for one in self._outcome.preempted if company.is_companion(one)]:
            del self._outcome.preempted[slot]
        return spare

    with patch.object(Eviction, "evict", alone):
        yield


@mutant
def memory_of_those_who_take_turns_is_not_counted() -> Iterator[None]:
    with patch.object(turns_module._Turns, "_gpu_memory_gib", lambda self, node: np.inf):
        yield


@mutant
def those_who_matter_more_are_joined_too() -> Iterator[None]:
    def of_one_width(self: turns_module._Turns, slot: int, gpus: int) -> tuple[int, int, int]:
        return gpus, 0, 0

    with patch.object(turns_module._Turns, "_peers", of_one_width):
        yield


@mutant
def who_would_rather_not_is_put_into_company() -> Iterator[None]:
    def known(self: turns_module._Turns, slots: Ints) -> Bools:
        return np.array([self._state.spec(s).stages is not None for s in slots.tolist()], bool)

    with patch.object(turns_module._Turns, "_may_share", known):
        yield


@mutant
def a_new_brain_does_not_ask_who_takes_turns() -> Iterator[None]:
    with patch.object(Reports, "_lead_of", lambda self, slot, event, placement: None):
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
