"""A resize under way: what the job holds while it changes, and what is left of it afterwards.

Both the seats it had and those it is to have are held until the world has answered: new ones from
the beginning, because workers start on them, old ones to the end, because workers still train on
them. So no GPU is promised twice, whatever becomes of the resize.
"""

from collections.abc import Collection

from weft.brain.seating import Underway
from weft.brain.state import BrainState
from weft.model.decision import Assignment
from weft.model.placement import Placement
from weft.model.state import State


def begin(state: BrainState, slot: int, target: Placement, at: float) -> Assignment:
    """Hold what is added, mark what goes; what the world is to be told."""
    present = state.placement(slot)
    added = present.added_by(target)
    state.settle(slot, at)
    state.mark_releasing(slot, present.numbers - target.numbers)
    state.add_seats(slot, added)
    state.jobs.gpu_rate[slot] = state.jobs.width[slot]
    state.jobs.serial[slot] += 1
    state.jobs.resizes[slot] += 1
    if state.state_of(slot) is not State.RESIZING:
        state.move(slot, State.RESIZING)
    assignment = Assignment(target.width, target)
    state.resizes[slot] = Underway(present.numbers, assignment)
    return assignment


def settle_on(state: BrainState, slot: int, numbers: Collection[int], at: float) -> list[int]:
    """These seats are what the job holds from now on; the nodes where others were let go."""
    present = state.placement(slot)
    gone = present.numbers.difference(numbers)
    state.settle(slot, at)
    state.unmark_releasing(slot)
    nodes = state.drop_seats(slot, gone)
    state.set_pace(slot)
    state.jobs.resized[slot] = at
    state.resizes.pop(slot, None)
    if state.state_of(slot) is State.RESIZING:
        state.move(slot, State.RUNNING)
    return nodes


def left_of(state: BrainState, slot: int, gone_nodes: Collection[str]) -> Placement | None:
    """What it has, or is about to have, without those nodes; None if it cannot train on so."""
    if not state.jobs.live[slot] or state.state_of(slot) not in (State.RUNNING, State.RESIZING):
        return None
    underway = state.resizes.get(slot)
    wanted = underway.target.placement if underway else state.placement(slot)
    left = Placement(tuple(seat for seat in wanted.seats if seat.node not in gone_nodes))
    return left if can_train_on(state, slot, left) else None


def can_train_on(state: BrainState, slot: int, left: Placement) -> bool:
    """A job lives as long as its head does and it is no narrower than it may be."""
    width = state.spec(slot).width
    return 0 in left.numbers and width.min_gpus <= left.width <= width.max_gpus
