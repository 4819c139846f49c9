"""Holding on: a large gang that failed keeps its seats until it starts again, or for a while.

It holds no GPU then, and no more of its quota is used: only nobody else is given what it had.
"""

from weft.brain.context import Context
from weft.brain.protocol.pace import Pace
from weft.brain.state.seat_hold import SeatHold
from weft.policy.place.room import Share


class Holding:
    """Begins holds and ends those that are over; one also ends when its job is given seats."""

    def __init__(self, context: Context, pace: Pace) -> None:
        self._context = context
        self._pace = pace

    def seats(self, slot: int) -> tuple[Share, ...]:
        """What is worth keeping of what it holds now; who takes turns leaves it to the others."""
        state, settings = self._context.state, self._context.settings
        large = int(state.jobs.width[slot]) >= settings.keep_seats_gpus
        if not large or not settings.keep_seats_seconds or state.seating.company.shares(slot):
            return ()
        by_node = state.placement(slot).gpus_by_node.items()
        return tuple((state.node_row[node], gpus) for node, gpus in by_node if gpus)

    def keep(self, slot: int, shares: tuple[Share, ...]) -> None:
        """From now on, unless it rests for longer than they would be kept."""
        state, now = self._context.state, self._context.now
        until = now + self._context.settings.keep_seats_seconds
        if shares and float(state.jobs.not_before[slot]) < until:
            state.failures.holds[slot] = SeatHold(shares, until)
            state.tell_kind(slot)

    @property
    def due_at(self) -> float | None:
        """When the next one is over."""
        return min((one.until for one in self._context.state.failures.holds.values()), default=None)

    def expire(self) -> None:
        """What was kept for long enough is there for everybody."""
        state, now = self._context.state, self._context.now
        for slot in [slot for slot, one in state.failures.holds.items() if one.until <= now]:
            let_go(slot, self._context, self._pace)


def let_go(slot: int, context: Context, pace: Pace) -> None:
    """What was kept for it and not used is there for everybody in the next round."""
    if context.state.failures.holds.pop(slot, None) is not None:
        context.state.tell_kind(slot)
        pace.supply_grew = True
        pace.want()
