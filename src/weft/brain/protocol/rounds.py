"""Rounds: when one is due, the recipe decides and what it found is carried out."""

from weft.brain.context import Context
from weft.brain.event import Tick
from weft.brain.protocol.admission import Admission
from weft.brain.protocol.dispatch import Dispatch
from weft.brain.protocol.feeding import Feeding
from weft.brain.protocol.outbox import Outbox
from weft.brain.protocol.pace import Pace
from weft.brain.protocol.resize import Resizes
from weft.brain.round.outcome import Outcome, kept_nodes, preemptions
from weft.brain.round.round import decide
from weft.model.decision import Decision


class Rounds:
    """Runs them on ticks, so that all events of one instant are seen before one decides."""

    def __init__(
        self,
        context: Context,
        outbox: Outbox,
        *,
        pace: Pace,
        dispatch: Dispatch,
        admission: Admission,
        resizes: Resizes,
        feeding: Feeding,
    ) -> None:
        self._context = context
        self._outbox = outbox
        self._pace = pace
        self._dispatch = dispatch
        self._admission = admission
        self._resizes = resizes
        self._feeding = feeding
        self.count = 0
        self.decision: Decision | None = None

    def tick(self, event: Tick) -> None:
        context = self._context
        self._outbox.woken()
        self._outbox.probe_silent()
        if not self._pace.is_due(context.now):
            return
        grew = self._pace.begin()
        self.count += 1
        self.apply(decide(context.state, context.now, context.recipe, supply_grew=grew))
        self._pace.want_again()

    def apply(self, outcome: Outcome) -> None:
        """Those who yield go first, so that their seats are not taken for free."""
        state, now = self._context.state, self._context.now
        state.seating.touched = outcome.unsettled
        if outcome.is_empty:
            self._look_ahead(outcome)
            self.decision = Decision(now)
            return
        self._remember(outcome)
        state.waits.book_all(outcome.waiting, now, outcome.reasons)
        vacated = self._vacated(outcome)
        self._pay_for_restarts(outcome)
        for victim, (beneficiary, _) in outcome.preempted.items():
            self._dispatch.preempt(victim, beneficiary)
        moves = [self._admission.move(moved) for moved in outcome.moves]
        resizes = [self._resizes.stretch(changed) for changed in outcome.stretched]
        for slot, level in outcome.feeds.items():
            self._feeding.feed(slot, level)
        held = state.use(held_only=True)
        grants = [self._admission.grant(granted, vacated, held) for granted in outcome.grants]
        joins = [self._admission.join(joined) for joined in outcome.joins]
        if outcome.moves or (resizes and grants):
            self._admission.start_admitted()
        self._look_ahead(outcome)
        self.decision = Decision(
            now,
            tuple(grants),
            preemptions(state, outcome),
            resizes=tuple(resizes),
            moves=tuple(moves),
            joins=tuple(joining for joining in joins if joining is not None),
            fed=tuple(state.spec(slot).id for slot in outcome.feeds),
            reservation=kept_nodes(state, outcome),
        )

    def _pay_for_restarts(self, outcome: Outcome) -> None:
        """Who is stopped for others, or to go on as something else, will have to start again."""
        state = self._context.state
        seconds = state.start_cost.seconds + state.stop_cost.seconds
        widths = {victim: int(state.jobs.width[victim]) for victim in outcome.preempted}
        widths |= {moved.slot: moved.width for moved in outcome.moves}
        for slot, gpus in widths.items():
            if state.spec(slot).splits is not None:
                state.plan_book.pay(slot, gpus, seconds)
        for changed in outcome.stretched:
            if changed.plan is not None:
                width = int(state.jobs.width[changed.slot])
                state.plan_book.pay_for_switch(changed.slot, width, state.resize_cost.seconds)

    def _vacated(self, outcome: Outcome) -> set[int]:
        """Nodes that somebody leaves by this decision."""
        leaving = [*outcome.preempted, *(moved.slot for moved in outcome.moves)]
        nodes = {row for slot in leaving for row in self._context.state.nodes_of(slot)}
        return nodes | {node for changed in outcome.stretched for node in changed.left_nodes}

    def _look_ahead(self, outcome: Outcome) -> None:
        """When the next round could find something else, even if nothing happens."""
        if outcome.wake is not None:
            self._pace.want_at(outcome.wake)
        self._pace.someone_waits = len(outcome.waiting) > 0
        self._pace.someone_is_overdue = outcome.overdue
        if self._pace.someone_waits and (self._context.recipe.yielding or outcome.overdue):
            self._pace.want_when_they_may_yield(self._context.state.running_slots())

    def _remember(self, outcome: Outcome) -> None:
        """Ranks and levels are what an order may know of the rounds before."""
        if outcome.ranking is None or outcome.ranking.levels is None:
            return
        state, ranking = self._context.state, outcome.ranking
        assert ranking.levels is not None
        state.jobs.rank[outcome.ranked] = range(len(outcome.ranked))
        state.jobs.level[outcome.candidates] = ranking.levels
        if ranking.promoted is not None and ranking.promoted.any():
            some = outcome.candidates[ranking.promoted]
            for slot in some.tolist():
                state.settle(slot, self._context.now)
            state.jobs.level_base[some] = state.jobs.attained_gpu_seconds[some]
