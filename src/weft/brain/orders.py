"""What the brain tells the world, and what it waits for an answer to.

Every order changes the state first: seats are held from the moment a job is told to start or to
grow, and until the world says that they are free. An order that nobody answers is looked after.
"""

from collections.abc import Collection
from dataclasses import dataclass

from weft.brain import resize
from weft.brain.instruction import Instruction, Preempt, Probe, Resize, Start, Stop
from weft.brain.learning import Learning
from weft.brain.outcome import Granted, Stretched
from weft.brain.pace import Pace
from weft.brain.state import PENDING, REASON_ROW, BrainState
from weft.model.decision import Assignment, Decision, Grant
from weft.model.ids import JobId
from weft.model.placement import Placement, Seat
from weft.model.queue import QueueTree
from weft.model.reason import ReasonCode
from weft.model.snapshot import Ints
from weft.model.state import State
from weft.policy.place.room import Share, host_cpus, host_memory_gib, in_pieces
from weft.policy.recipe import Recipe

RELEASING = REASON_ROW[ReasonCode.CAPACITY_RELEASING]
RETRY = REASON_ROW[ReasonCode.BACKOFF_RETRY]
REFUSED = REASON_ROW[ReasonCode.BACKOFF_REFUSED]
NO_QUEUE = REASON_ROW[ReasonCode.CONSTRAINT_QUEUE]
ROUNDING_SECONDS = 1e-3
SITTING = (State.STARTING, State.RUNNING, State.RESIZING)


@dataclass(frozen=True, slots=True)
class Settings:
    """Times the brain keeps, apart from the recipe."""

    answer_seconds: float = 120.0
    silence_seconds: float | None = None
    backoff_seconds: float = 60.0
    backoff_cap_seconds: float = 3600.0
    refusals_before_backoff: int = 3


class Orders:
    """The state, the orders of the event at hand, and the answers that are still to come."""

    def __init__(
        self, recipe: Recipe, *, tree: QueueTree | None = None, settings: Settings | None = None
    ) -> None:
        self.recipe = recipe
        self.settings = settings or Settings()
        self.state = BrainState(tree or QueueTree())
        self.learning = Learning()
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
        self._asked: dict[int, float] = {}
        self._out: list[Instruction] = []

    # --- orders -------------------------------------------------------------------------------

    def _grant(self, granted: Granted, vacated: set[int]) -> Grant:
        """Start at once, or pledge where a node or the quota is still being left by somebody."""
        slot = granted.slot
        assignment = self._assignment(granted)
        left = any(node in vacated for node, _ in granted.shares)
        if left or not self.state.quota_fits(slot, granted.width) or self._is_fed_away(granted):
            self.state.book_wait(slot, self.now, RELEASING)
            self.state.move(slot, State.ADMITTED)
            self.state.seat(slot, assignment, pledged=True)
        else:
            self.state.seat(slot, assignment, pledged=False)
            self._start(slot, assignment)
        return Grant(self.state.spec(slot).id, assignment)

    def _is_fed_away(self, granted: Granted) -> bool:
        """Whether cores or memory that it needs are still fed to others."""
        state = self.state
        kind = state.kinds[int(state.jobs.kind[granted.slot])]
        return state.fair is not None and not state.host_fits(kind, granted.shares)

    def _stretch(self, changed: Stretched) -> Grant:
        """Another width for a running job: seats that go, or further ones."""
        present = self.state.placement(changed.slot)
        kept = present.only(present.numbers - changed.gone)
        first = int(self.state.jobs.next_seat[changed.slot])
        added = self._seats(changed.slot, changed.added, first)
        return self._resize(changed.slot, Placement((*kept.seats, *added)))

    def _resize(self, slot: int, target: Placement) -> Grant:
        assignment = resize.begin(self.state, slot, target, self.now)
        job, jobs = self.state.spec(slot).id, self.state.jobs
        self._out.append(Resize(job, int(jobs.epoch[slot]), assignment, int(jobs.serial[slot])))
        self._expect_answer(slot)
        return Grant(job, assignment)

    def _start(self, slot: int, assignment: Assignment) -> None:
        self.state.move(slot, State.STARTING)
        self.state.book_wait(slot, self.now, 0)
        self.state.jobs.epoch[slot] += 1
        self.state.jobs.serial[slot] = self.state.jobs.fed_serial[slot] = 0
        epoch = int(self.state.jobs.epoch[slot])
        self._out.append(Start(self.state.spec(slot).id, epoch, assignment))
        self._asked[slot] = self.now
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
        self._asked[slot] = self.now
        self._expect_answer(slot)

    def _stop(self, slot: int, *, after: State, why: str) -> None:
        state = self.state
        state.after_stop[slot] = after
        state.move(slot, State.STOPPING)
        state.mark_releasing(slot)
        self._out.append(Stop(state.spec(slot).id, int(state.jobs.epoch[slot]), why))
        self._asked[slot] = self.now
        self._expect_answer(slot)

    def _started(self, slot: int) -> None:
        self.state.move(slot, State.RUNNING)
        self.state.set_running(slot, self.now)
        self._listen(slot)
        if self.recipe.rounds.after_starts:
            self._want_round()
        self._wake_when_they_may_yield([slot])

    # --- seats that come free, and jobs that wait again ----------------------------------------

    def _settled(self, slot: int, numbers: Collection[int]) -> None:
        """The job keeps these seats; whoever was promised one of them must ask again."""
        underway = self.state.resizes.get(slot)
        kept = underway and (underway.before - underway.target.placement.numbers) & set(numbers)
        self._listen(slot)
        nodes = resize.settle_on(self.state, slot, numbers, self.now)
        if kept:
            self._withdraw_pledges(list(self.state.admitted))
        self._freed(nodes)

    def _withdraw_pledges(self, slots: list[int]) -> None:
        for slot in slots:
            if self.state.state_of(slot) is State.ADMITTED:
                self._free_seats(slot)
                self._requeue(slot, PENDING, 0.0)

    def _free_seats(self, slot: int) -> None:
        self._forget(slot)
        self.state.next_assignment.pop(slot, None)
        self._freed(self.state.release(slot))

    def _freed(self, nodes: list[int]) -> None:
        """Seats on these nodes were given back."""
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
        self._asked.pop(slot, None)
        self.learning.close(self.state, slot, succeeded=state is State.SUCCEEDED)
        self.state.close(slot, state, self.now)
        self._want_round()

    def _assignment(self, granted: Granted) -> Assignment:
        return Assignment(granted.width, Placement(self._seats(granted.slot, granted.shares, 0)))

    def _seats(self, slot: int, shares: tuple[Share, ...], first: int) -> tuple[Seat, ...]:
        """Seats for these shares, in pieces where the job may be resized, numbered from `first`."""
        kind, names = self.state.kinds[int(self.state.jobs.kind[slot])], self.state.node_ids
        resizing = self.recipe.resizing if kind.width.elastic else None
        if resizing is not None:
            shares = in_pieces(shares, resizing.grain_gpus)
        self.state.jobs.next_seat[slot] = first + len(shares)
        return tuple(
            Seat(
                names[node],
                gpus,
                host_cpus(kind, gpus),
                host_memory_gib(kind, gpus),
                number=number,
            )
            for number, (node, gpus) in enumerate(shares, start=first)
        )

    # --- time ---------------------------------------------------------------------------------

    def _want_round(self) -> None:
        self._pace.want(self.now)

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

    def _expect_answer(self, slot: int) -> None:
        self._forget(slot)
        self._unanswered[slot] = self.now + self.settings.answer_seconds

    def _taken(self, slot: int) -> float:
        """Seconds since the job was told to start or to stop."""
        return self.now - self._asked.get(slot, self.now)

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
            self._probe(slot)

    def _probe(self, slot: int) -> None:
        epoch = int(self.state.jobs.epoch[slot])
        self._out.append(Probe(self.state.spec(slot).id, epoch))
        self._expect_answer(slot)

    def _current(self, job: JobId, epoch: int) -> int | None:
        """The slot, if the event speaks of the incarnation that holds seats now."""
        slot = self.state.slot_of.get(job)
        if slot is None or int(self.state.jobs.epoch[slot]) != epoch:
            return None
        return slot if self.state.state_of(slot).holds_seats else None
