"""Feeding: cores and memory beyond what a job is owed, given and called back while it trains.

Like seats, what is fed is held from the moment it is given until the world says that it has been
taken away: while an answer is out, a job holds the larger of both. So a job that needs the cores
which another was fed waits until they are free, and nothing is promised twice.
"""

from weft.brain.context import Context
from weft.brain.event import Fed
from weft.brain.instruction import Feed
from weft.brain.protocol.admission import Admission
from weft.brain.protocol.outbox import Outbox
from weft.brain.protocol.pace import Pace
from weft.brain.state.seating import Meal
from weft.model.host import PerGpu
from weft.model.state import State


class Feeding:
    """What the brain says and hears about it."""

    def __init__(
        self, context: Context, outbox: Outbox, *, pace: Pace, admission: Admission
    ) -> None:
        self._context = context
        self._outbox = outbox
        self._pace = pace
        self._admission = admission

    def feed(self, slot: int, target: PerGpu) -> None:
        """Each of its GPUs is to have so much beyond what it is owed."""
        state, seating = self._context.state, self._context.state.seating
        before = seating.fed(slot)
        state.jobs.fed_serial[slot] += 1
        seating.feeding[slot] = Meal(int(state.jobs.fed_serial[slot]), before, target)
        seating.feed(slot, _larger(before, target))
        self._say(slot)

    def answered(self, slot: int, serial: int, *, done: bool) -> None:
        meal = self._context.state.seating.feeding.get(slot)
        if meal is not None and meal.serial == serial:
            self._fed(slot, meal.target if done else meal.before)

    def compare(self, slot: int, seen: Fed) -> None:
        """A look shows what it has; an older feeding than the last one means: that is lost."""
        state, seating = self._context.state, self._context.state.seating
        if seen.serial == int(state.jobs.fed_serial[slot]):
            level = PerGpu(seen.cores, seen.memory_gib)
            if slot in seating.feeding or level != seating.fed(slot):
                self._fed(slot, level)
        elif slot in seating.feeding:
            self._say(slot)

    def learn_tunable(self, slot: int, tunable: bool) -> None:
        """Whether its cores can be changed while it trains."""
        state = self._context.state
        if tunable and not state.jobs.tunable[slot] and slot in state.ladders:
            state.seating.touched.update(state.nodes_of(slot))
            self._pace.want()
        state.jobs.tunable[slot] = tunable

    def _say(self, slot: int) -> None:
        state, meal = self._context.state, self._context.state.seating.feeding[slot]
        job, epoch = state.spec(slot).id, int(state.jobs.epoch[slot])
        self._outbox.ask(slot, Feed(job, epoch, *meal.target, meal.serial))

    def _fed(self, slot: int, level: PerGpu) -> None:
        """It has this from now on; what it had beyond it is free."""
        state, held = self._context.state, self._context.state.fed(slot)
        state.settle(slot, self._context.now)
        state.seating.feeding.pop(slot, None)
        state.seating.feed(slot, level)
        state.jobs.fed_at[slot] = self._context.now
        if state.state_of(slot) is State.RUNNING:
            state.set_pace(slot)
            self._outbox.listen(slot)
        if level != held and held == _larger(level, held):
            self._admission.freed(state.nodes_of(slot))


def _larger(one: PerGpu, other: PerGpu) -> PerGpu:
    return PerGpu(max(one.cores, other.cores), max(one.memory_gib, other.memory_gib))
