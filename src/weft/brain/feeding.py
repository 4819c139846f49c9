"""Feeding: cores and memory beyond what a job is owed, given and called back while it trains.

Like seats, what is fed is held from the moment it is given until the world says that it has been
taken away: while an answer is out, a job holds the larger of both. So a job that needs the cores
which another was fed waits until they are free, and nothing is promised twice.
"""

from weft.brain.event import Fed
from weft.brain.instruction import Feed
from weft.brain.orders import Orders
from weft.brain.seating import Meal
from weft.model.host import PerGpu
from weft.model.state import State
from weft.policy.host.shares import fair_of


class Feeding(Orders):
    """What the brain says and hears about it."""

    def _feed(self, slot: int, target: PerGpu) -> None:
        state, before = self.state, self.state.fed(slot)
        state.jobs.fed_serial[slot] += 1
        state.feeding[slot] = Meal(int(state.jobs.fed_serial[slot]), before, target)
        state.feed(slot, _larger(before, target))
        self._say_feed(slot)

    def _say_feed(self, slot: int) -> None:
        state, meal = self.state, self.state.feeding[slot]
        job, epoch = state.spec(slot).id, int(state.jobs.epoch[slot])
        self._out.append(Feed(job, epoch, *meal.target, meal.serial))
        self._expect_answer(slot)

    def _feeding_answered(self, slot: int, serial: int, *, done: bool) -> None:
        meal = self.state.feeding.get(slot)
        if meal is not None and meal.serial == serial:
            self._fed(slot, meal.target if done else meal.before)

    def _compare_fed(self, slot: int, seen: Fed) -> None:
        """A look shows what it has; an older feeding than the last one means: that is lost."""
        state = self.state
        if seen.serial == int(state.jobs.fed_serial[slot]):
            level = PerGpu(seen.cores, seen.memory_gib)
            if slot in state.feeding or level != state.fed(slot):
                self._fed(slot, level)
        elif slot in state.feeding:
            self._say_feed(slot)

    def _fed(self, slot: int, level: PerGpu) -> None:
        """It has this from now on; what it had beyond it is free."""
        state, held = self.state, self.state.fed(slot)
        state.settle(slot, self.now)
        state.feeding.pop(slot, None)
        state.feed(slot, level)
        state.jobs.fed_at[slot] = self.now
        if state.state_of(slot) is State.RUNNING:
            state.set_pace(slot)
            self._listen(slot)
        if level != held and held == _larger(level, held):
            self._freed(state.nodes_of(slot))

    def _learn_tunable(self, slot: int, tunable: bool) -> None:
        if tunable and not self.state.jobs.tunable[slot] and slot in self.state.ladders:
            self.state.touched.update(self.state.nodes_of(slot))
            self._want_round()
        self.state.jobs.tunable[slot] = tunable

    def _nodes_changed(self) -> None:
        """A GPU's fair share may be another one."""
        if self.recipe.host is not None:
            self.state.set_fair(fair_of(self.state.fabric.nodes))

    def _listen(self, slot: int) -> None:
        super()._listen(slot)
        if slot in self.state.feeding:
            self._expect_answer(slot)


def _larger(one: PerGpu, other: PerGpu) -> PerGpu:
    return PerGpu(max(one.cores, other.cores), max(one.memory_gib, other.memory_gib))
