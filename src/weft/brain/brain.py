"""`brain.handle(event) -> instructions`: the one door into the brain.

Events change the state along the lifecycle's edges; rounds run on ticks that the brain asked for,
so that all events of one instant are seen before anything is decided. Instructions in flight
that nobody answers are probed, and the world's answer is taken as the truth: a lost, repeated or
late message costs time and nothing else.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

from weft.brain import explain
from weft.brain.event import (
    Event,
    InstructionDone,
    InstructionRefused,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobForgotten,
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
from weft.brain.instruction import Instruction, Preempt, Probe, Start, Stop, Wake
from weft.brain.outcome import Granted, Outcome, kept_nodes, preemptions
from weft.brain.pace import Pace
from weft.brain.round import decide
from weft.brain.state import PENDING, REASON_ROW, BrainState
from weft.model.decision import Assignment, Decision, Grant
from weft.model.ids import JobId
from weft.model.placement import Placement, Seat
from weft.model.queue import QueueTree
from weft.model.reason import Reason, ReasonCode
from weft.model.snapshot import Ints
from weft.model.state import State
from weft.policy.place.room import host_cpus, host_memory_gib
from weft.policy.recipe import Recipe

RELEASING = REASON_ROW[ReasonCode.CAPACITY_RELEASING]
RETRY = REASON_ROW[ReasonCode.BACKOFF_RETRY]
REFUSED = REASON_ROW[ReasonCode.BACKOFF_REFUSED]
NO_QUEUE = REASON_ROW[ReasonCode.CONSTRAINT_QUEUE]
ROUNDING_SECONDS = 1e-3


@dataclass(frozen=True, slots=True)
class Settings:
    """Times the brain keeps, apart from the recipe."""

    answer_seconds: float = 120.0
    silence_seconds: float | None = None
    backoff_seconds: float = 60.0
    backoff_cap_seconds: float = 3600.0
    refusals_before_backoff: int = 3


class Brain:
    """Decides for one cluster. Owns no clock, no file, no chance."""

    def __init__(
        self, recipe: Recipe, *, tree: QueueTree | None = None, settings: Settings | None = None
    ) -> None:
        self.recipe = recipe
        self.settings = settings or Settings()
        self.state = BrainState(tree or QueueTree())
        self.now = 0.0
        self.rounds = 0
        self.decision: Decision | None = None
        self._pace = Pace(recipe.rounds)
        self._supply_grew = True
        self._someone_waits = False
        self._wake_at: float | None = None
        self._backoff_until = float("-inf")
        self._unanswered: dict[int, float] = {}
        self._silent: dict[int, float] = {}
        self._out: list[Instruction] = []

    def handle(self, event: Event) -> list[Instruction]:
        """Take one event in; what is to be done comes out."""
        self.now = max(self.now, event.at)
        self._out = []
        self.decision = None
        _HANDLERS[type(event)](self, event)
        self._ask_to_be_woken()
        return self._out

    def round_is_due(self, at: float) -> bool:
        """Whether a tick at that time would run a round."""
        return self._pace.is_due(at)

    def explain(self, job: JobId) -> list[Reason]:
        """Why the job waits, most helpful first; empty if it does not wait."""
        next_round = self._pace.due_at
        return explain.reasons(self.state, self.now, self.recipe, job, next_round=next_round)

    def copied(self) -> "Brain":
        """An independent brain in the same state, for forecasts."""
        twin = Brain(self.recipe, settings=self.settings)
        twin.__dict__.update(self.__dict__)
        twin.state = self.state.copied()
        twin._pace = copy(self._pace)
        twin._unanswered, twin._silent = dict(self._unanswered), dict(self._silent)
        twin._out = []
        return twin

    # --- jobs ---------------------------------------------------------------------------------

    def _on_submitted(self, event: JobSubmitted) -> None:
        if event.job.id in self.state.slot_of or event.job.id in self.state.closed:
            return
        slot = self.state.add_job(event.job, self.now)
        if self.state.jobs.queue[slot] < 0:
            self.state.begin_wait(slot, self.now, NO_QUEUE)
        self._want_round()

    def _on_cancelled(self, event: JobCancelled) -> None:
        slot = self.state.slot_of.get(event.job)
        if slot is None:
            return
        state = self.state.state_of(slot)
        if state is State.STOPPING:
            self.state.after_stop[slot] = State.CANCELLED
        elif state.holds_seats:
            self._stop(slot, after=State.CANCELLED, why="cancelled")
        else:
            self._free_seats(slot)
            self._close(slot, State.CANCELLED)

    def _on_finished(self, event: JobFinished) -> None:
        slot = self._current(event.job, event.epoch)
        if slot is None:
            return
        self.state.set_idle(slot, self.now, None)
        self._free_seats(slot)
        self._close(slot, State.SUCCEEDED)

    def _on_failed(self, event: JobFailed) -> None:
        slot = self._current(event.job, event.epoch)
        if slot is None:
            return
        state = self.state
        state.set_idle(slot, self.now, event.work_kept)
        self._free_seats(slot)
        state.jobs.failures[slot] += 1
        if state.state_of(slot) is State.STOPPING and state.after_stop[slot] is State.CANCELLED:
            self._close(slot, State.CANCELLED)
        elif event.retryable and state.jobs.failures[slot] <= state.spec(slot).max_retries:
            self._requeue(slot, RETRY, self._backoff(int(state.jobs.failures[slot])))
        else:
            self._close(slot, State.FAILED)

    def _on_forgotten(self, event: JobForgotten) -> None:
        self.state.closed.pop(event.job, None)

    def _on_worker_lost(self, event: WorkerLost) -> None:
        slot = self._current(event.job, event.epoch)
        if slot is not None and self.state.state_of(slot) is not State.STOPPING:
            self._stop(slot, after=State.QUEUED, why=f"worker lost on {event.node}")

    def _on_reported(self, event: JobReported) -> None:
        slot = self.state.slot_of.get(event.job)
        epoch = -1 if slot is None else int(self.state.jobs.epoch[slot])
        if slot is None or event.epoch > epoch:
            self._meet_stranger(event, slot)
        elif event.epoch == epoch and self.state.state_of(slot).holds_seats:
            self._compare(slot, event)
        elif event.phase in (Phase.STARTING, Phase.RUNNING):
            self._out.append(Stop(event.job, event.epoch, "superseded"))

    def _compare(self, slot: int, event: JobReported) -> None:
        """The world was looked at: bring what we believe in line with it."""
        state = self.state.state_of(slot)
        self._forget(slot)
        if event.phase is Phase.ABSENT:
            self._found_absent(slot, state, event)
        elif state is State.STOPPING:
            if event.phase is not Phase.STOPPING:
                self._out.append(Stop(event.job, event.epoch, "asked before"))
            self._expect_answer(slot)
        elif event.phase is Phase.RUNNING:
            if state is State.STARTING:
                self._started(slot)
            self.state.settle(slot, self.now)
            self.state.jobs.work_done[slot] = event.work_done
            self._listen(slot)
        else:
            self._expect_answer(slot)

    def _found_absent(self, slot: int, state: State, event: JobReported) -> None:
        """Nothing was there when the world looked; this may be old news, so it frees nothing.

        What must go is stopped once more: the answer to that is given for good.
        """
        if state is State.STARTING:
            assignment = self.state.assignments[slot]
            assert assignment is not None
            self._out.append(Start(event.job, event.epoch, assignment))
            self._expect_answer(slot)
        elif state is State.STOPPING:
            self._out.append(Stop(event.job, event.epoch, "asked before"))
            self._expect_answer(slot)
        else:
            self._stop(slot, after=State.QUEUED, why="not found")

    def _meet_stranger(self, event: JobReported, slot: int | None) -> None:
        """An incarnation we do not know: adopt it where that is safe, else it must go."""
        waits = slot is not None and self.state.state_of(slot) is State.QUEUED
        if slot is not None and waits:
            if event.past is not None and self.state.jobs.epoch[slot] == 0:
                self.state.recall(slot, event.past)
            self.state.jobs.epoch[slot] = event.epoch
            self.state.jobs.work_done[slot] = event.work_done
        if event.phase is Phase.ABSENT:
            return
        placement = event.placement
        if slot is not None and waits and placement and self._could_be(slot, placement):
            self._adopt(slot, event, placement)
        else:
            self._out.append(Stop(event.job, event.epoch, "unknown"))

    def _could_be(self, slot: int, placement: Placement) -> bool:
        """Whether a decision of ours could have said this: known nodes and a width in range."""
        width = self.state.spec(slot).width
        return width.min_gpus <= placement.width <= width.max_gpus and all(
            node in self.state.node_row for node in placement.nodes
        )

    def _adopt(self, slot: int, event: JobReported, placement: Placement) -> None:
        """It holds its seats whether we like it or not; where they are not there, it must go."""
        state = self.state
        state.seat(slot, Assignment(placement.width, placement), pledged=False)
        state.book_wait(slot, self.now, 0)
        state.move(slot, State.STARTING)
        if event.phase is Phase.STOPPING:
            self._stop(slot, after=State.QUEUED, why="asked before")
        elif event.phase is Phase.RUNNING:
            self._started(slot)
        else:
            self._expect_answer(slot)
        for row in state.nodes_of(slot):
            if not state.nodes.present[row]:
                self._clear_node(row, f"node {state.node_ids[row]} lost")
            elif state.note_shrunk(row):
                self._withdraw_pledges(state.jobs_on(row))
                self._relieve_node(row, f"node {state.node_ids[row]} has fewer GPUs")

    # --- answers ------------------------------------------------------------------------------

    def _on_done(self, event: InstructionDone) -> None:
        slot = self._current(event.job, event.epoch)
        if slot is None:
            return
        state = self.state.state_of(slot)
        if event.verb is Verb.START and state is State.STARTING:
            self._started(slot)
        elif event.verb in (Verb.PREEMPT, Verb.STOP) and state is State.STOPPING:
            self._stopped(slot, event.work_kept)

    def _on_refused(self, event: InstructionRefused) -> None:
        slot = self._current(event.job, event.epoch)
        if slot is None or event.verb is not Verb.START:
            return
        if self.state.state_of(slot) is not State.STARTING:
            return
        self._free_seats(slot)
        self.state.jobs.refusals[slot] += 1
        refusals = int(self.state.jobs.refusals[slot])
        if refusals % self.settings.refusals_before_backoff:
            self._requeue(slot, PENDING, 0.0)
        else:
            self._requeue(
                slot, REFUSED, self._backoff(refusals // self.settings.refusals_before_backoff)
            )

    def _started(self, slot: int) -> None:
        self.state.move(slot, State.RUNNING)
        self.state.set_running(slot, self.now)
        self._listen(slot)
        if self.recipe.rounds.after_starts:
            self._want_round()
        self._wake_when_they_may_yield([slot])

    def _stopped(self, slot: int, work_kept: float | None) -> None:
        self.state.set_idle(slot, self.now, work_kept)
        moved_to = self.state.next_assignment.pop(slot, None)
        self._free_seats(slot)
        after = self.state.after_stop[slot]
        if after is State.QUEUED and moved_to is not None and self._has_future_room(moved_to):
            self.state.move(slot, State.ADMITTED)
            self.state.begin_wait(slot, self.now, RELEASING)
            self.state.seat(slot, moved_to, pledged=True)
            self._start_admitted()
        elif after is State.QUEUED:
            self._requeue(slot, PENDING, 0.0)
        else:
            self._close(slot, after)

    def _has_future_room(self, assignment: Assignment) -> bool:
        """Whether these seats are promised to nobody else."""
        seats = self.state.seats
        count = self.state.seat_count
        for seat in assignment.placement.seats:
            row = self.state.node_row[seat.node]
            here = (seats.node[:count] == row) & ~seats.releasing[:count]
            promised = int(seats.gpus[:count][here].sum())
            if promised + seat.gpus > int(self.state.nodes.gpus[row]):
                return False
        return True

    # --- nodes and queues ---------------------------------------------------------------------

    def _on_node(self, event: NodeAdded | NodeChanged) -> None:
        self._supply_grew = True
        row = self.state.put_node(event.node)
        self._withdraw_pledges(self.state.jobs_on(row))
        if self.state.note_shrunk(row):
            self._relieve_node(row, f"node {event.node.id} has fewer GPUs")
        self._want_round()

    def _on_node_lost(self, event: NodeLost) -> None:
        row = self.state.node_row.get(event.node)
        if row is None:
            return
        self.state.lose_node(row)
        self._clear_node(row, f"node {event.node} lost")
        self._want_round()

    def _clear_node(self, row: int, why: str) -> None:
        slots = self.state.jobs_on(row)
        self._withdraw_pledges(slots)
        for slot in slots:
            if self.state.state_of(slot) in (State.STARTING, State.RUNNING):
                self._stop(slot, after=State.QUEUED, why=why)

    def _relieve_node(self, row: int, why: str) -> None:
        """Stop as few as it takes: those that have not begun first, then the latest started."""
        state = self.state
        jobs = state.jobs
        over = state.staying_on(row) - int(state.nodes.gpus[row])
        seated = [
            (
                state.state_of(slot) is State.RUNNING,
                -float(jobs.started[slot]),
                -int(jobs.seq[slot]),
                slot,
            )
            for slot in state.jobs_on(row)
            if state.state_of(slot) in (State.STARTING, State.RUNNING)
        ]
        for *_, slot in sorted(seated):
            if over <= 0:
                return
            over -= state.gpus_on(slot, row)
            self._stop(slot, after=State.QUEUED, why=why)

    def _withdraw_pledges(self, slots: list[int]) -> None:
        for slot in slots:
            if self.state.state_of(slot) is State.ADMITTED:
                self._free_seats(slot)
                self._requeue(slot, PENDING, 0.0)

    def _on_queue(self, event: QueueChanged) -> None:
        self._supply_grew = True
        self.state.set_tree(self.state.tree.with_queue(event.queue))
        self._withdraw_pledges(list(self.state.admitted))
        for slot in self.state.slot_of.values():
            if self.state.jobs.reason[slot] == NO_QUEUE and self.state.jobs.queue[slot] >= 0:
                self.state.book_wait(slot, self.now, PENDING)
        self._want_round()

    # --- rounds -------------------------------------------------------------------------------

    def _on_tick(self, event: Tick) -> None:
        if self._wake_at is not None and self.now >= self._wake_at:
            self._wake_at = None
        self._probe_silent()
        if not self._pace.is_due(self.now):
            return
        self._pace.begin(self.now)
        self.rounds += 1
        grew, self._supply_grew = self._supply_grew, False
        self._apply(decide(self.state, self.now, self.recipe, supply_grew=grew))
        self._round_again()

    def _round_again(self) -> None:
        """The next round, if nothing happens before: a period on, or when a backoff ends."""
        if self.recipe.rounds.period_seconds is not None:
            if self.state.slot_of:
                self._pace.want(self.now)
        elif self.now < self._backoff_until:
            soonest = self.state.next_backoff(self.now)
            if soonest is not None:
                self._pace.want_at(soonest, self.now)

    def _apply(self, outcome: Outcome) -> None:
        self._remember(outcome)
        self.state.book_waits(outcome.waiting, self.now, outcome.reasons)
        leaving = [*outcome.preempted, *(moved.slot for moved in outcome.moves)]
        vacated = {row for slot in leaving for row in self.state.nodes_of(slot)}
        for victim, (beneficiary, _) in outcome.preempted.items():
            self._preempt(victim, beneficiary)
        moves = []
        for moved in outcome.moves:
            assignment = self.state.next_assignment[moved.slot] = self._assignment(moved)
            self._preempt(moved.slot, moved.slot)
            moves.append(Grant(self.state.spec(moved.slot).id, assignment))
        grants = [self._grant(granted, vacated) for granted in outcome.grants]
        if outcome.moves:
            self._start_admitted()
        if outcome.wake is not None:
            self._pace.want_at(outcome.wake, self.now)
        self._someone_waits = len(outcome.waiting) > 0
        if self._someone_waits and self.recipe.yielding is not None:
            self._wake_when_they_may_yield(self.state.running_slots())
        self.decision = Decision(
            self.now,
            tuple(grants),
            preemptions(self.state, outcome),
            moves=tuple(moves),
            reservation=kept_nodes(self.state, outcome),
        )

    def _wake_when_they_may_yield(self, slots: list[int] | Ints) -> None:
        """A job that keeps its seats for a while after its start may be what others wait for."""
        yielding, jobs = self.recipe.yielding, self.state.jobs
        if yielding is None or yielding.reshuffle or not self._someone_waits:
            return
        if self.recipe.rounds.period_seconds is not None:
            return
        kept_until = jobs.started[slots][jobs.preemptible[slots]] + yielding.min_run_seconds
        later = kept_until[kept_until >= self.now]
        if len(later):
            self._pace.want_at(float(later.min()) + ROUNDING_SECONDS, self.now)

    def _remember(self, outcome: Outcome) -> None:
        """Ranks and levels are what an order may know of the rounds before."""
        if outcome.ranking is None or outcome.ranking.levels is None:
            return
        jobs, ranking = self.state.jobs, outcome.ranking
        assert ranking.levels is not None
        jobs.rank[outcome.ranked] = range(len(outcome.ranked))
        jobs.level[outcome.candidates] = ranking.levels
        if ranking.promoted is not None and ranking.promoted.any():
            some = outcome.candidates[ranking.promoted]
            for slot in some.tolist():
                self.state.settle(slot, self.now)
            jobs.level_base[some] = jobs.attained_gpu_seconds[some]

    def _grant(self, granted: Granted, vacated: set[int]) -> Grant:
        """Start at once, or pledge where a node or the quota is still being left by somebody."""
        slot = granted.slot
        assignment = self._assignment(granted)
        left = any(node in vacated for node, _ in granted.shares)
        if left or not self.state.quota_fits(slot, granted.width):
            self.state.book_wait(slot, self.now, RELEASING)
            self.state.move(slot, State.ADMITTED)
            self.state.seat(slot, assignment, pledged=True)
        else:
            self.state.seat(slot, assignment, pledged=False)
            self._start(slot, assignment)
        return Grant(self.state.spec(slot).id, assignment)

    def _start(self, slot: int, assignment: Assignment) -> None:
        self.state.move(slot, State.STARTING)
        self.state.book_wait(slot, self.now, 0)
        self.state.jobs.epoch[slot] += 1
        epoch = int(self.state.jobs.epoch[slot])
        self._out.append(Start(self.state.spec(slot).id, epoch, assignment))
        self._expect_answer(slot)

    def _start_admitted(self, nodes: list[int] | None = None) -> None:
        """Start those whose pledged seats have become free, on these nodes if they are named."""
        slots = list(self.state.admitted)
        if nodes is not None and not any(self.state.quota.restricted):
            near = {slot for node in nodes for slot in self.state.pledged_on[node]}
            slots = [slot for slot in slots if slot in near]
        for slot in slots:
            if self.state.seats_are_free(slot):
                assignment = self.state.assignments[slot]
                assert assignment is not None
                self.state.hold(slot)
                self._start(slot, assignment)

    def _preempt(self, slot: int, beneficiary: int) -> None:
        state = self.state
        state.jobs.preemptions[slot] += 1
        state.after_stop[slot] = State.QUEUED
        state.move(slot, State.STOPPING)
        state.mark_releasing(slot)
        self._out.append(
            Preempt(state.spec(slot).id, int(state.jobs.epoch[slot]), state.spec(beneficiary).id)
        )
        self._expect_answer(slot)

    def _stop(self, slot: int, *, after: State, why: str) -> None:
        state = self.state
        state.after_stop[slot] = after
        state.move(slot, State.STOPPING)
        state.mark_releasing(slot)
        self._out.append(Stop(state.spec(slot).id, int(state.jobs.epoch[slot]), why))
        self._expect_answer(slot)

    # --- helpers ------------------------------------------------------------------------------

    def _current(self, job: JobId, epoch: int) -> int | None:
        """The slot, if the event speaks of the incarnation that holds seats now."""
        slot = self.state.slot_of.get(job)
        if slot is None or int(self.state.jobs.epoch[slot]) != epoch:
            return None
        return slot if self.state.state_of(slot).holds_seats else None

    def _free_seats(self, slot: int) -> None:
        self._forget(slot)
        self.state.next_assignment.pop(slot, None)
        nodes = self.state.release(slot)
        if nodes:
            self._supply_grew = True
            if self.state.admitted:
                self._start_admitted(nodes)
            self._want_round()

    def _requeue(self, slot: int, reason: int, delay_seconds: float) -> None:
        state = self.state
        if state.state_of(slot) is State.ADMITTED:
            state.book_wait(slot, self.now, reason)
        else:
            state.begin_wait(slot, self.now, reason)
        state.move(slot, State.QUEUED)
        if state.jobs.queue[slot] < 0:
            state.begin_wait(slot, self.now, NO_QUEUE)
        state.jobs.not_before[slot] = self.now + delay_seconds
        self._want_round()
        self._backoff_until = max(self._backoff_until, self.now + delay_seconds)

    def _close(self, slot: int, state: State) -> None:
        self._forget(slot)
        self.state.close(slot, state, self.now)
        self._want_round()

    def _backoff(self, times: int) -> float:
        settings = self.settings
        return min(settings.backoff_seconds * 2.0 ** (times - 1), settings.backoff_cap_seconds)

    def _assignment(self, granted: Granted) -> Assignment:
        kind = self.state.kinds[int(self.state.jobs.kind[granted.slot])]
        names = self.state.node_ids
        seats = tuple(
            Seat(names[node], gpus, host_cpus(kind, gpus), host_memory_gib(kind, gpus))
            for node, gpus in granted.shares
        )
        return Assignment(granted.width, Placement(seats))

    def _want_round(self) -> None:
        self._pace.want(self.now)

    def _expect_answer(self, slot: int) -> None:
        self._forget(slot)
        self._unanswered[slot] = self.now + self.settings.answer_seconds

    def _listen(self, slot: int) -> None:
        """A running job that says nothing for long is probed, where the world needs that."""
        self._forget(slot)
        if self.settings.silence_seconds is not None:
            self._silent[slot] = self.now + self.settings.silence_seconds

    def _forget(self, slot: int) -> None:
        self._unanswered.pop(slot, None)
        self._silent.pop(slot, None)

    def _probe_silent(self) -> None:
        """Both lists are in order of their deadlines, because the clock only goes forward."""
        due = []
        for deadlines in (self._unanswered, self._silent):
            for slot, at in deadlines.items():
                if at > self.now:
                    break
                due.append(slot)
        for slot in due:
            epoch = int(self.state.jobs.epoch[slot])
            self._out.append(Probe(self.state.spec(slot).id, epoch))
            self._expect_answer(slot)

    def _ask_to_be_woken(self) -> None:
        times = [] if self._pace.due_at is None else [self._pace.due_at]
        for deadlines in (self._unanswered, self._silent):
            if deadlines:
                times.append(next(iter(deadlines.values())))
        if not times:
            return
        at = max(min(times), self.now)
        if self._wake_at is None or at < self._wake_at:
            self._wake_at = at
            self._out.append(Wake(at))


_HANDLERS: dict[type, Callable[[Brain, Any], None]] = {
    JobSubmitted: Brain._on_submitted,
    JobCancelled: Brain._on_cancelled,
    JobReported: Brain._on_reported,
    JobFinished: Brain._on_finished,
    JobFailed: Brain._on_failed,
    JobForgotten: Brain._on_forgotten,
    WorkerLost: Brain._on_worker_lost,
    NodeAdded: Brain._on_node,
    NodeChanged: Brain._on_node,
    NodeLost: Brain._on_node_lost,
    QueueChanged: Brain._on_queue,
    InstructionDone: Brain._on_done,
    InstructionRefused: Brain._on_refused,
    Tick: Brain._on_tick,
}
