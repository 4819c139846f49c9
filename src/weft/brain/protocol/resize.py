"""A resize under way: what the job holds while it changes, and what is left of it afterwards.

Both the seats it had and those it is to have are held until the world has answered: new ones from
the beginning, because workers start on them, old ones to the end, because workers still train on
them. So no GPU is promised twice, whatever becomes of the resize.
"""

from collections.abc import Collection
from dataclasses import replace

from weft.brain.context import Context
from weft.brain.protocol.admission import Admission
from weft.brain.protocol.dispatch import Dispatch
from weft.brain.protocol.outbox import Outbox
from weft.brain.protocol.pace import Pace
from weft.brain.round.outcome import Stretched
from weft.brain.state.brain_state import BrainState
from weft.brain.state.seating import Underway
from weft.model.decision import Assignment, Grant
from weft.model.placement import Placement
from weft.model.plan import ExecutionPlan
from weft.model.state import State
from weft.perf.plans.options import scaled


class Resizes:
    """Asks for other widths of running jobs, and settles on what came of it."""

    def __init__(
        self,
        context: Context,
        outbox: Outbox,
        *,
        pace: Pace,
        dispatch: Dispatch,
        admission: Admission,
    ) -> None:
        self._context = context
        self._outbox = outbox
        self._pace = pace
        self._dispatch = dispatch
        self._admission = admission

    def stretch(self, changed: Stretched) -> Grant:
        """Another width for a running job: seats that go, or further ones."""
        state, slot = self._context.state, changed.slot
        present = state.placement(slot)
        kept = present.only(present.numbers - changed.gone)
        added = self._dispatch.seats(slot, changed.added, int(state.jobs.next_seat[slot]))
        return self.ask(slot, Placement((*kept.seats, *added)), changed.plan)

    def ask(self, slot: int, target: Placement, plan: ExecutionPlan | None = None) -> Grant:
        """These seats and no others, as soon as the world can; and on them this plan, if any."""
        assignment = begin(self._context.state, slot, target, self._context.now, plan)
        self._dispatch.say_resize(slot, assignment)
        return Grant(self._context.state.spec(slot).id, assignment)

    def ask_again(self, slot: int) -> None:
        self._dispatch.say_resize(slot, self._context.state.seating.resizes[slot].target)

    def learn_live(self, slot: int, live: bool) -> None:
        """Whether the job can be resized while it trains."""
        jobs = self._context.state.jobs
        if live and not jobs.live[slot] and self._context.recipe.resizing is not None:
            self._pace.want_after_change()
        jobs.live[slot] = live

    def is_answer(self, slot: int, serial: int) -> bool:
        """Whether this speaks of the resize that is under way."""
        state = self._context.state
        return state.state_of(slot) is State.RESIZING and int(state.jobs.serial[slot]) == serial

    def done(self, slot: int, serial: int) -> None:
        """What was asked for holds; if it was a brain before this one that asked, we look."""
        state = self._context.state
        if self.is_answer(slot, serial):
            target = state.seating.resizes[slot].target
            set_plan(state, slot, target.plan)
            self.settle_on(slot, target.placement)
        elif state.state_of(slot) is State.RUNNING and int(state.jobs.serial[slot]) == serial:
            self._outbox.probe(slot)

    def refused(self, slot: int, serial: int, *, tried: bool = True) -> None:
        """Nothing was done: what it had is what it has."""
        if self.is_answer(slot, serial):
            if tried:
                self.shun(slot)
            self._settled(slot, self._context.state.seating.resizes[slot].before)
        else:
            self.done(slot, serial)

    def shun(self, slot: int) -> None:
        """The plan that it was to go to, if it was another one, is not tried again."""
        state = self._context.state
        wanted = state.seating.resizes[slot].target.plan
        if wanted != state.plans[slot] and state.spec(slot).splits is not None:
            state.plan_book.shun(slot, wanted)

    def settle_on(self, slot: int, found: Placement) -> None:
        """The job has these of its seats; with too few of them it cannot go on."""
        state = self._context.state
        left = state.placement(slot).only(found.numbered().numbers)
        if not can_train_on(state, slot, left):
            self._dispatch.stop(slot, after=State.QUEUED, why="too few of its workers are left")
            return
        self._settled(slot, left.numbers)
        self._pace.want_after_change()

    def _settled(self, slot: int, numbers: Collection[int]) -> None:
        """The job keeps these seats; whoever was promised one of them must ask again."""
        seating = self._context.state.seating
        underway = seating.resizes.get(slot)
        kept = underway and (underway.before - underway.target.placement.numbers) & set(numbers)
        self._outbox.listen(slot)
        nodes = settle_on(self._context.state, slot, numbers, self._context.now)
        if kept:
            self._admission.withdraw_pledges(list(seating.admitted))
        self._admission.freed(nodes)
        self._stop_if_crowded(slot)

    def _stop_if_crowded(self, slot: int) -> None:
        """It was to leave a node that has fewer GPUs now, and did not: then it cannot stay."""
        state = self._context.state
        for row in sorted(set(state.nodes_of(slot))):
            if state.seating.staying_on(row) > int(state.nodes.gpus[row]):
                why = has_fewer_gpus(state.node_ids[row])
                self._dispatch.stop(slot, after=State.QUEUED, why=why)
                return


def begin(
    state: BrainState, slot: int, target: Placement, at: float, plan: ExecutionPlan | None = None
) -> Assignment:
    """Hold what is added, mark what goes; what the world is to be told."""
    seating, present = state.seating, state.placement(slot)
    added, standing = present.added_by(target), standing_of(state, slot)
    state.settle(slot, at)
    seating.mark_releasing(slot, present.numbers - target.numbers)
    seating.add_seats(slot, added)
    state.jobs.gpu_rate[slot] = state.jobs.width[slot]
    state.jobs.serial[slot] += 1
    state.jobs.resizes[slot] += 1
    if state.state_of(slot) is not State.RESIZING:
        state.move(slot, State.RESIZING)
    kept = state.plans[slot]
    if not kept.fits_width(target.width):
        kept = scaled(kept, target.width)
    assignment = Assignment(target.width, target, plan or kept)
    seating.resizes[slot] = Underway(present.numbers, assignment, standing & target.numbers)
    return assignment


def set_plan(state: BrainState, slot: int, plan: ExecutionPlan) -> None:
    """How it computes from now on, on the seats that it has."""
    state.plans[slot] = plan
    held = state.seating.assignments[slot]
    if held is not None:
        state.seating.assignments[slot] = replace(held, plan=plan)


def standing_of(state: BrainState, slot: int) -> frozenset[int]:
    """Seats whose workers are known to hold the job's state."""
    underway = state.seating.resizes.get(slot)
    return underway.standing if underway else state.placement(slot).numbers


def settle_on(state: BrainState, slot: int, numbers: Collection[int], at: float) -> list[int]:
    """These seats are what the job holds from now on; the nodes where others were let go."""
    seating, present = state.seating, state.placement(slot)
    gone = present.numbers.difference(numbers)
    state.settle(slot, at)
    seating.unmark_releasing(slot)
    nodes = seating.drop_seats(slot, gone)
    state.set_pace(slot)
    state.jobs.resized[slot] = at
    seating.resizes.pop(slot, None)
    if state.state_of(slot) is State.RESIZING:
        state.move(slot, State.RUNNING)
    return nodes


def has_fewer_gpus(node: str) -> str:
    """Why a job cannot stay there."""
    return f"node {node} has fewer GPUs"


def left_of(state: BrainState, slot: int, gone_nodes: Collection[str]) -> Placement | None:
    """What it has, or is about to have, without those nodes; None if it cannot train on so."""
    if not state.jobs.live[slot] or state.state_of(slot) not in (State.RUNNING, State.RESIZING):
        return None
    underway = state.seating.resizes.get(slot)
    wanted = underway.target.placement if underway else state.placement(slot)
    left = Placement(tuple(seat for seat in wanted.seats if seat.node not in gone_nodes))
    if not left.numbers & standing_of(state, slot):
        return None
    return left if can_train_on(state, slot, left) else None


def can_train_on(state: BrainState, slot: int, left: Placement) -> bool:
    """A job lives as long as it is no narrower than it may be; who leads it, the world knows."""
    width = state.spec(slot).width
    in_range = width.min_gpus <= left.width <= width.max_gpus
    return bool(left.seats) and in_range and state.runnable.runs(slot, left.width)
