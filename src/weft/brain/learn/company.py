"""What those who take turns really do, and what follows from it.

A forecast stands on stages that were claimed, or measured alone. So members are measured while they
take turns, and the party is judged when all of them have been: together they may do less than one
alone, or one may be slowed far beyond its cap. Speeds of that time tell nothing of a job's curve.
"""

from weft.brain.context import Context
from weft.brain.event import JobMeasured
from weft.brain.protocol.dispatch import Dispatch
from weft.brain.state.brain_state import BrainState
from weft.brain.state.slowdown_cap import slowdown_cap
from weft.brain.state.turns import Looked, signature
from weft.model.state import State
from weft.perf.interleaving.watch import Course, Watch

ROUNDING_SECONDS = 1.0
LEAST_SPEED = 1e-6


class CompanyWatch:
    """Hears of members, and breaks up or relieves parties that do harm."""

    def __init__(self, context: Context, *, dispatch: Dispatch) -> None:
        self._context = context
        self._dispatch = dispatch

    def concerns(self, slot: int, event: JobMeasured) -> bool:
        """Whether it was measured while it took turns, or just before or after."""
        shared = event.shared_steps_per_second is not None
        company = self._context.state.seating.company
        return shared or self._overlaps(slot, event) or company.shares(slot)

    def _overlaps(self, slot: int, event: JobMeasured) -> bool:
        """Whether it began or ended to take turns while it was measured."""
        since = self._context.now - self._context.state.turns.changed.get(slot, float("-inf"))
        return event.seconds > since + ROUNDING_SECONDS

    def hear(self, slot: int, event: JobMeasured) -> None:
        """Judge its party, once all of it has been measured as it is."""
        state = self._context.state
        if state.incarnation(event.job, event.epoch) is None:
            return
        members = _training(state, slot)
        if len(members) == 1 or slot not in members or self._overlaps(slot, event):
            return
        slowdown = _slowdown(state, slot, event)
        if slowdown is None:
            return
        looked = state.turns.looked.get(members[0])
        if looked is None or looked.members != members:
            looked = state.turns.looked[members[0]] = Looked(members, self._watch_over(members))
        looked.hear(slot, slowdown, event.seconds)
        if len(looked.slowdowns) == len(members):
            self._judge(looked)

    def _watch_over(self, members: tuple[int, ...]) -> Watch:
        state, sharing = self._context.state, self._context.recipe.sharing
        return Watch.over([slowdown_cap(state, slot, sharing) for slot in members])

    def _judge(self, looked: Looked) -> None:
        state, members = self._context.state, looked.members
        claims = [state.spec(slot).stages for slot in members]
        forecast, kind = state.turns.forecast(claims), signature(claims)
        measured = [looked.slowdowns[slot] for slot in members]
        state.turns.experience.learn(
            kind,
            foretold_seconds=1.0 / forecast.aggregate,
            measured_seconds=1.0 / sum(1.0 / slowdown for slowdown in measured),
        )
        shown = looked.shown(forecast.cycle_seconds)
        looked.watch, verdict = looked.watch.look(shown)
        looked.measured, looked.slowdowns = looked.slowdowns, {}
        if shown.tells_enough:
            looked.begin_anew()
        if verdict.course is Course.GOES_ON:
            return
        state.turns.experience.rest(kind, self._context.now)
        gone = members[1:] if verdict.released is None else (members[verdict.released],)
        for slot in gone:
            self._dispatch.stop(slot, after=State.QUEUED, why=f"company: {verdict.why}")


def _slowdown(state: BrainState, slot: int, event: JobMeasured) -> float | None:
    """How many times slower than alone; None where nobody knows how fast that is.

    By steps where they were counted in company, else by work.
    """
    claim, steps = state.spec(slot).stages, event.shared_steps_per_second
    if steps is not None and claim is not None:
        return 1.0 / max(steps * claim.profile.iteration_seconds, LEAST_SPEED)
    alone = state.speed_on(slot, state.placement(slot))
    return alone / max(event.units_per_second, alone * LEAST_SPEED) if alone > 0.0 else None


def _training(state: BrainState, slot: int) -> tuple[int, ...]:
    """The members who take turns now, the lead first."""
    members = state.seating.company.members(slot)
    return tuple(one for one in members if state.state_of(one) is State.RUNNING) or (slot,)
