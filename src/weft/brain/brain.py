"""`brain.handle(event) -> instructions`: the one door into the brain.

Events change the state along the lifecycle's edges; rounds run on ticks that the brain asked for,
so that all events of one instant are seen before anything is decided. Instructions in flight
that nobody answers are probed, and the world's answer is taken as the truth: a lost, repeated or
late message costs time and nothing else.
"""

from collections.abc import Callable
from copy import copy
from typing import Any

from weft.brain import explain
from weft.brain.answers import Answers
from weft.brain.event import (
    Event,
    InstructionDone,
    InstructionRefused,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobForgotten,
    JobMeasured,
    JobReported,
    JobSubmitted,
    NodeAdded,
    NodeChanged,
    NodeLost,
    QueueChanged,
    Tick,
    WorkerLost,
)
from weft.brain.instruction import Instruction, Wake
from weft.brain.orders import NO_QUEUE, RETRY, Settings
from weft.brain.outcome import Outcome, kept_nodes, preemptions
from weft.brain.round import decide
from weft.brain.state import PENDING
from weft.brain.tasting import taste
from weft.model.decision import Decision, Grant
from weft.model.ids import JobId
from weft.model.reason import Reason
from weft.model.state import State

__all__ = ["Brain", "Settings"]


class Brain(Answers):
    """Decides for one cluster. Owns no clock, no file, no chance."""

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
        twin.learning = self.learning.copied()
        twin._pace = copy(self._pace)
        twin._unanswered, twin._silent = dict(self._unanswered), dict(self._silent)
        twin._asked = dict(self._asked)
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

    def _on_measured(self, event: JobMeasured) -> None:
        slot = self.state.slot_of.get(event.job)
        if slot is None:
            return
        tasted = self.recipe.host is not None and taste(self.state, slot, event)
        if self.learning.hear(self.state, slot, event, self.now) or tasted:
            self._want_round()

    def _on_worker_lost(self, event: WorkerLost) -> None:
        slot = self._current(event.job, event.epoch)
        if slot is not None and self.state.state_of(slot) is not State.STOPPING:
            self._stop(slot, after=State.QUEUED, why=f"worker lost on {event.node}")

    # --- rounds -------------------------------------------------------------------------------

    def _on_queue(self, event: QueueChanged) -> None:
        self._supply_grew = True
        self.state.set_tree(self.state.tree.with_queue(event.queue))
        self._withdraw_pledges(list(self.state.admitted))
        for slot in self.state.slot_of.values():
            if self.state.jobs.reason[slot] == NO_QUEUE and self.state.jobs.queue[slot] >= 0:
                self.state.book_wait(slot, self.now, PENDING)
        self._want_round()

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
        self.state.touched = outcome.unsettled
        self.state.book_waits(outcome.waiting, self.now, outcome.reasons)
        leaving = [*outcome.preempted, *(moved.slot for moved in outcome.moves)]
        vacated = {row for slot in leaving for row in self.state.nodes_of(slot)}
        vacated |= {node for changed in outcome.stretched for node in changed.left_nodes}
        for victim, (beneficiary, _) in outcome.preempted.items():
            self._preempt(victim, beneficiary)
        moves = []
        for moved in outcome.moves:
            assignment = self.state.next_assignment[moved.slot] = self._assignment(moved)
            self._preempt(moved.slot, moved.slot)
            moves.append(Grant(self.state.spec(moved.slot).id, assignment))
        resizes = [self._stretch(changed) for changed in outcome.stretched]
        for slot, level in outcome.feeds.items():
            self._feed(slot, level)
        grants = [self._grant(granted, vacated) for granted in outcome.grants]
        if outcome.moves or (resizes and grants):
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
            resizes=tuple(resizes),
            moves=tuple(moves),
            fed=tuple(self.state.spec(slot).id for slot in outcome.feeds),
            reservation=kept_nodes(self.state, outcome),
        )

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
    JobMeasured: Brain._on_measured,
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
