"""What was considered for a job whose plan is chosen: what it runs as, and the next best.

Asked of the brain as it is now, by the code that chooses; so it tells what a round would weigh at
this moment, not what one weighed before.
"""

from dataclasses import dataclass

from weft.brain.brain import Brain
from weft.brain.round.replan import Replan
from weft.brain.round.session import Session
from weft.model.ids import JobId
from weft.model.state import State
from weft.policy.plans.bids import Bid, Option
from weft.policy.plans.market import Market
from weft.policy.plans.planning import Planning

MOST_REJECTED = 3


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to run the job; `left_seconds` is how long it is expected to take so, from now."""

    gpus: int
    cores_per_gpu: float
    plan: str
    units_per_second: float
    left_seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class Considered:
    """`chosen` is None while it waits; `note` says why its plan is not looked at, if so."""

    chosen: Alternative | None
    rejected: tuple[Alternative, ...]
    note: str = ""


def considered(brain: Brain, job: JobId) -> Considered | None:
    """None where no plan is chosen: another recipe, no shape, or a job that has no say now."""
    planning, state = brain.recipe.planning, brain.state
    slot = state.slot_of.get(job)
    if planning is None or slot is None or state.spec(slot).splits is None:
        return None
    if state.state_of(slot) not in (State.QUEUED, State.RUNNING):
        return None
    asked = Replan(Session(state, brain.now, brain.recipe), planning).asked([slot])
    (bid,), market = asked
    note = state.plan_book.entry(slot).watch.why
    return _told(bid, market, planning, note)


def _told(bid: Bid, market: Market, planning: Planning, note: str) -> Considered:
    def told(option: Option, why: str) -> Alternative:
        left = bid.expected_left(planning.prior_seconds) / option.speed
        starts = 0.0 if option is bid.held else market.restart_seconds
        return Alternative(
            option.gpus, option.cores, option.plan.text, option.speed, starts + left, why
        )

    others = sorted(
        (one for one in bid.options if one != bid.held),
        key=lambda one: -planning.worth(bid, one, market.restart_seconds),
    )
    chosen = None
    if bid.held is not None:
        chosen = told(bid.held, "what it was given adds most jobs done per second for its GPUs")
    rejected = (told(one, _why_not(bid, one, market, planning)) for one in others[:MOST_REJECTED])
    return Considered(chosen, tuple(rejected), note)


def _why_not(bid: Bid, option: Option, market: Market, planning: Planning) -> str:
    if option not in planning.keeping_promise(bid):
        slow = option.speed < bid.promised
        return "slower than was promised" if slow else "wastes GPUs"
    held = 0 if bid.held is None else bid.held.gpus
    if option.gpus > market.gpus:
        return f"{option.gpus - market.gpus} GPUs are missing"
    if bid.held is None:
        return "adds less for its GPUs"
    if not planning.may_change(bid, market.restart_seconds):
        return "it has had its restarts"
    if not planning.pays(bid, option, market):
        return f"saves too little for a restart of {market.restart_seconds:.0f} s"
    cost = option.gpus * market.restart_seconds
    return "restarts are over budget" if cost > market.allowance else f"beside {held} GPUs held"
