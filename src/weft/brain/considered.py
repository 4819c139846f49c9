"""What was considered for a job whose plan is chosen: what it runs as, and the next best.

Asked of the brain as it is now, by the code that chooses; so it tells what a round would weigh at
this moment, not what one weighed before.
"""

from collections.abc import Callable
from dataclasses import replace

from weft.brain.brain import Brain
from weft.brain.round.replan import Replan
from weft.brain.round.session import Session
from weft.model.ids import JobId
from weft.model.request import JobRequest, WorkUnit
from weft.model.state import State
from weft.policy.plans.bids import Bid, Option
from weft.policy.plans.market import Market
from weft.policy.plans.planning import Planning, Scope
from weft.view.plans import Alternative, Considered

MOST_REJECTED = 3
WORTH = "what it was given adds most jobs done per second for its GPUs"
WHY_CHOSEN = {Scope.SEATED: "its fastest plan on the GPUs that it was given"}


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
    note, going = state.plan_book.entry(slot).watch.why, float(state.jobs.speed[slot])
    found = _told(bid, market, planning, going)
    return replace(found, note=note, unit=_unit(state.spec(slot)))


def _unit(spec: JobRequest) -> str:
    return "" if spec.unit is WorkUnit.SECONDS else spec.unit.value


def _told(bid: Bid, market: Market, planning: Planning, going: float) -> Considered:
    """A choice counts on the slower end of what is foretold; people are told what is likely.

    Of a job that runs this is its speed as it is `going`, which is told of it elsewhere too, and of
    its other options as many times that as is foretold.
    """
    likely = going / bid.held.speed if bid.held is not None and going > 0.0 else 1.0

    def told(option: Option, why: str) -> Alternative:
        speed = option.speed * likely
        left = bid.expected_left(planning.prior_seconds) / speed
        starts = 0.0 if option is bid.held else bid.change(market.restart_seconds)
        return Alternative(option.gpus, option.cores, option.plan.text, speed, starts + left, why)

    others = _others(bid, key=lambda one: -planning.worth(bid, one, market.restart_seconds))
    chosen = None
    if bid.held is not None:
        chosen = told(bid.held, WHY_CHOSEN.get(planning.scope, WORTH))
    rejected = (told(one, _why_not(bid, one, market, planning)) for one in others[:MOST_REJECTED])
    return Considered(chosen, tuple(rejected))


def _others(bid: Bid, key: Callable[[Option], float]) -> list[Option]:
    """The best of each way to run that is another than it runs: cores make no other way."""
    held = [] if bid.held is None else [bid.held]
    ways: dict[tuple[int, str], Option] = {}
    for one in [*held, *sorted(bid.options, key=key)]:
        ways.setdefault((one.gpus, one.plan.text), one)
    return list(ways.values())[len(held) :]


def _why_not(bid: Bid, option: Option, market: Market, planning: Planning) -> str:
    if planning.scope is Scope.SEATED and bid.held is not None:
        return "slower there" if option.gpus == bid.held.gpus else "for other GPUs than it has"
    return _not_worth_it(bid, option, market, planning)


def _not_worth_it(bid: Bid, option: Option, market: Market, planning: Planning) -> str:
    if option not in planning.keeping_promise(bid):
        slow = option.speed < bid.promised
        return "slower than was promised" if slow else "wastes GPUs"
    held = 0 if bid.held is None else bid.held.gpus
    if option.gpus > market.gpus:
        missing = option.gpus - market.gpus
        return f"{missing} GPUs are missing" if missing > 1 else "1 GPU is missing"
    if bid.held is None:
        return "adds less for its GPUs"
    if not planning.may_change(bid, market.restart_seconds):
        return _had_enough(bid)
    change = bid.change(market.restart_seconds)
    if not planning.pays(bid, option, market):
        what = "switch" if bid.live else "restart"
        return f"saves too little for a {what} of {change:.0f} s"
    return _over_budget(option.gpus * change, market) or f"beside {held} GPUs held"


def _over_budget(gpu_seconds: float, market: Market) -> str:
    """What is waited for: what changes may cost grows with all GPU time that is served."""
    if gpu_seconds <= market.allowance:
        return ""
    left = max(market.allowance, 0.0)
    costs = f"it costs {gpu_seconds:.0f} GPU-seconds"
    return f"over the budget of changes: {costs}, {left:.0f} are left"


def _had_enough(bid: Bid) -> str:
    if bid.settled:
        return "its plan is left as it is"
    return "its life has no room for a switch now" if bid.live else "it has had its restarts"
