"""Who gets seats that come free, and what becomes of a job that has none any more.

A job that is granted seats which others still leave is admitted: its seats are pledged, and it
starts as soon as the world says that they are free. The same is true of a job that stops in order
to move. What cannot be kept is withdrawn, and its job waits again; so nobody ever waits for seats
that are gone.
"""

from weft.brain.context import Context
from weft.brain.learn.learning import Learning
from weft.brain.protocol.dispatch import Dispatch
from weft.brain.protocol.holding import let_go
from weft.brain.protocol.outbox import Outbox
from weft.brain.protocol.pace import Pace
from weft.brain.round.outcome import Granted, Joined
from weft.brain.state.fits_now import host_fits, nodes_are_free
from weft.brain.state.later import fits_later
from weft.brain.state.waits import PENDING, REASON_ROW
from weft.model.decision import Assignment, Grant, Joining
from weft.model.reason import ReasonCode
from weft.model.state import State
from weft.policy.tenancy.quota import QuotaLedger

RELEASING = REASON_ROW[ReasonCode.CAPACITY_RELEASING]
LOST = REASON_ROW[ReasonCode.BACKOFF_LOST]
NO_QUEUE = REASON_ROW[ReasonCode.CONSTRAINT_QUEUE]


class Admission:
    """From the queue to seats, and back."""

    def __init__(
        self,
        context: Context,
        outbox: Outbox,
        *,
        pace: Pace,
        dispatch: Dispatch,
        learning: Learning,
    ) -> None:
        self._context = context
        self._outbox = outbox
        self._pace = pace
        self._dispatch = dispatch
        self._learning = learning

    def grant(self, granted: Granted, vacated: set[int], held: QuotaLedger) -> Grant:
        """Start at once, or pledge where a node or the quota is still being left by somebody.

        `held` is what the queues hold, and is kept so.
        """
        state, slot = self._context.state, granted.slot
        let_go(slot, self._context, self._pace)
        assignment = self._dispatch.assignment(granted)
        left = any(node in vacated for node, _ in granted.shares)
        fits = state.quota_fits(slot, granted.width, held)
        if left or not fits or self._is_fed_away(granted):
            state.waits.book(slot, self._context.now, RELEASING)
            self._pledge(slot, assignment)
        else:
            state.seating.seat(slot, assignment, pledged=False)
            held.take(int(state.jobs.queue[slot]), granted.width)
            self._dispatch.start(slot, assignment)
        return Grant(state.spec(slot).id, assignment)

    def join(self, joined: Joined) -> Joining | None:
        """It starts beside those who hold the seats, unless these have gone in the meantime."""
        state, slot, lead = self._context.state, joined.slot, joined.lead
        members = state.seating.company.members(lead)
        assignment = self._dispatch.beside(slot, lead)
        if not self._may_sit_beside(slot, lead, assignment):
            return None
        let_go(slot, self._context, self._pace)
        state.seating.seat(slot, assignment, pledged=False, lead=lead)
        self._dispatch.start(slot, assignment)
        return Joining(
            state.spec(slot).id,
            tuple(state.spec(member).id for member in members),
            assignment,
            joined.forecast.cycle_seconds,
            joined.forecast.slowdowns,
            joined.forecast.aggregate,
            joined.cap,
        )

    def move(self, moved: Granted) -> Grant:
        """It stops for seats of its own elsewhere, which are kept for it until it has stopped."""
        state, slot = self._context.state, moved.slot
        assignment = state.next_assignment[slot] = self._dispatch.assignment(moved)
        self._dispatch.preempt(slot, slot)
        return Grant(state.spec(slot).id, assignment)

    def start_admitted(self, nodes: list[int] | None = None) -> None:
        """Start those whose pledged seats have become free, on these nodes if they are named."""
        state, seating = self._context.state, self._context.state.seating
        slots = list(seating.admitted) if nodes is None else seating.may_be_free(nodes)
        if not slots:
            return
        held = state.use(held_only=True)
        for slot in slots:
            seating.admitted[slot] = not nodes_are_free(state, slot)
            width = int(state.jobs.width[slot])
            if not seating.admitted[slot] and state.quota_fits(slot, width, held):
                assignment = seating.assignments[slot]
                assert assignment is not None
                seating.hold(slot)
                held.take(int(state.jobs.queue[slot]), width)
                self._dispatch.start(slot, assignment)

    def withdraw_pledges(self, slots: list[int]) -> None:
        """Those of them that were promised seats wait again."""
        for slot in slots:
            if self._context.state.state_of(slot) is State.ADMITTED:
                self.free_seats(slot)
                self.requeue(slot, PENDING)

    def withdraw_moves(self, node: int) -> None:
        """Whoever stops in order to move there will have to look for another place."""
        state = self._context.state
        for slot, assignment in list(state.next_assignment.items()):
            if state.node_ids[node] in assignment.placement.nodes:
                del state.next_assignment[slot]

    def stopped(self, slot: int, work_kept: float | None) -> None:
        """The world says that its processes are gone: it moves, waits again, or is over."""
        state = self._context.state
        state.set_idle(slot, self._context.now, work_kept)
        moved_to = state.next_assignment.pop(slot, None)
        self.free_seats(slot)
        after = state.after_stop[slot]
        if after is not State.QUEUED:
            self.close(slot, after)
        elif moved_to is not None and fits_later(state, slot, moved_to):
            state.waits.begin(slot, self._context.now, RELEASING)
            self._pledge(slot, moved_to)
            self.start_admitted()
        else:
            rest = max(float(state.jobs.not_before[slot]) - self._context.now, 0.0)
            self.requeue(slot, LOST if rest else PENDING, rest)

    def free_seats(self, slot: int) -> None:
        """It holds nothing any more, and nothing is kept for it."""
        self._outbox.forget(slot)
        self._context.state.next_assignment.pop(slot, None)
        self.freed(self._context.state.seating.release(slot))

    def freed(self, nodes: list[int]) -> None:
        """Seats, or what was fed, were given back on these nodes."""
        if nodes:
            self._pace.supply_grew = True
            self._context.state.neighbours.leave(nodes, self._context.now)
            if self._context.state.seating.admitted:
                self.start_admitted(nodes)
                if self._went_to_the_admitted(nodes):
                    return
            self._pace.want()

    def _went_to_the_admitted(self, nodes: list[int]) -> bool:
        """Whether nothing is left there for anybody else, nor of what a quota or host may free."""
        state = self._context.state
        if state.quota.limited or state.counts_host:
            return False
        return not state.vacancy.free_gpus(nodes).any()

    def requeue(self, slot: int, reason: int, delay_seconds: float = 0.0) -> None:
        """It waits again, and is not tried before the delay is over."""
        state, now = self._context.state, self._context.now
        if state.state_of(slot) is State.ADMITTED:
            state.waits.book(slot, now, reason)
        else:
            state.waits.begin(slot, now, reason)
        state.move(slot, State.QUEUED)
        if state.jobs.queue[slot] < 0:
            state.waits.begin(slot, now, NO_QUEUE)
        state.jobs.not_before[slot] = now + delay_seconds
        self._pace.want()
        self._pace.rest(delay_seconds)

    def close(self, slot: int, end: State, why: str = "") -> None:
        """It is over; what it has taught stays."""
        state = self._context.state
        self._outbox.forget_for_good(slot)
        self._learning.close(state, slot, succeeded=end is State.SUCCEEDED)
        let_go(slot, self._context, self._pace)
        state.close(slot, end, self._context.now, why)
        self._pace.want()

    def _pledge(self, slot: int, assignment: Assignment) -> None:
        state = self._context.state
        state.move(slot, State.ADMITTED)
        state.seating.seat(slot, assignment, pledged=True)

    def _may_sit_beside(self, slot: int, lead: int, assignment: Assignment) -> bool:
        """Whether the lead is there, and cores and memory that nobody holds or is fed."""
        state = self._context.state
        by_node = assignment.placement.gpus_by_node.items()
        shares = tuple((state.node_row[node], gpus) for node, gpus in by_node)
        kind = state.kinds[int(state.jobs.kind[slot])]
        sits = state.state_of(lead) in (State.STARTING, State.RUNNING)
        return sits and (not state.counts_host or host_fits(state, kind, shares))

    def _is_fed_away(self, granted: Granted) -> bool:
        """Whether cores or memory that it needs are still fed to others."""
        state = self._context.state
        kind = state.kinds[int(state.jobs.kind[granted.slot])]
        return state.fair is not None and not host_fits(state, kind, granted.shares)
