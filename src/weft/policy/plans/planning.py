"""Planning: who runs as what, so that jobs are done soonest, and running ones are rarely disturbed.

A job that is expected to be done in t seconds adds 1 / t: the sum over all jobs is how many are
done per second. The start counts into t, so short jobs begin narrow and long ones wide, and a GPU
goes where it shortens most. Nobody's length is known, so a job is expected to have as much before
it as behind it, and falls behind newcomers as it goes on.

A running job is stopped, or started anew with another plan, only where that saves more than `gate`
times its cost, where it has not lost more than `own_budget` of its life to restarts, and as long as
all restarts together stay below `budget` of all GPU-seconds.
"""

import math
from dataclasses import dataclass
from enum import Enum

from weft.policy.plans.bids import Bid, Option
from weft.policy.plans.market import Market

STOPGAP = 0.5
SIA_POWER, SIA_RUNNING = -0.5, 1.1


class Scope(Enum):
    """What is chosen; the rest stays as submitted."""

    BOTH = "both"
    RESOURCES = "resources"
    PLANS = "plans"
    SEATED = "seated"
    """The plan alone, on whatever seats the recipe's own order and sizes have given."""


class Rule(Enum):
    """What running a job so is worth."""

    COMPLETIONS = "completions"
    """Jobs done per second, as each is expected to have as much before it as behind it."""
    GOODPUT = "goodput"
    """Sia's: speed over the least that the job could have, with diminishing returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planning:
    """How a choice weighs jobs, and what a change must be worth."""

    scope: Scope = Scope.BOTH
    rule: Rule = Rule.COMPLETIONS
    prior_seconds: float = 20.0
    power: float = 1.0
    ageing_per_hour: float = 0.0
    gate: float = 2.0
    scarce: float = 3.0
    """So many times the gate it takes to spend the last of the budget."""

    own_budget: float = 0.03
    budget: float = 0.01
    most_restarts: int = 3
    least_efficiency: float = 0.3
    yields_after_seconds: float = 3600.0
    margin: float = 3.0
    """Who stops for others must be worth so many times less than what they gain."""

    exact: bool = False
    least_restart_seconds: float = 30.0
    least_switch_seconds: float = 1.0
    """What a change while it trains is taken to cost at least."""

    again_seconds: float = 300.0
    """A choice is looked at again so long after, even if nothing happens."""

    def worth(self, bid: Bid, option: Option, restart_seconds: float) -> float:
        """Of running a job so, from now on."""
        if self.rule is Rule.GOODPUT:
            return self._goodput(bid, option, restart_seconds)
        left = bid.expected_left(self.prior_seconds) / option.speed
        wait = bid.busy_seconds if option is bid.held else bid.change(restart_seconds)
        aged = 1.0 + self.ageing_per_hour * bid.waited_seconds / 3600.0
        return aged * math.pow(max(wait + left, 1.0), -self.power)

    def _goodput(self, bid: Bid, option: Option, restart_seconds: float) -> float:
        """Sia's objective with its published figures: power -0.5, and 1.1 for running at all."""
        least = min(one.speed for one in bid.options)
        gain = math.pow(option.speed / least, SIA_POWER)
        if bid.held is not None and option is not bid.held:
            lost = bid.lost_seconds + restart_seconds
            gain /= max((bid.ran_seconds - lost) / (bid.ran_seconds + restart_seconds), 0.01)
        return 2.0 + SIA_RUNNING - gain

    def may_change(self, bid: Bid, restart_seconds: float) -> bool:
        """Whether its life has room for one more change."""
        if bid.settled or not (bid.yields or bid.live) or bid.busy_seconds > 0.0:
            return False
        life = bid.ran_seconds + bid.expected_left(self.prior_seconds) / (
            bid.held.speed if bid.held else bid.asked_speed
        )
        within = bid.lost_seconds + bid.change(restart_seconds) <= self.own_budget * life
        return within and (bid.live or bid.restarts < self.most_restarts)

    def pays(self, bid: Bid, option: Option, market: Market) -> bool:
        """Whether another start as this saves enough: the more, the less of the budget is left.

        So what is worth most is still paid for when much has been spent (the rule for knapsacks
        that are filled while things come by).
        """
        assert bid.held is not None
        left = bid.expected_left(self.prior_seconds)
        saved = left / bid.held.speed - left / option.speed
        cost = bid.change(market.restart_seconds)
        return saved > self.gate * math.pow(self.scarce, market.scarcity) * cost

    def offered(self, bid: Bid, market: Market) -> tuple[Option, ...]:
        """What it may be given: enough for its promise, and of a running job what pays.

        Who was stopped before does not begin on a stopgap again. One that is changed while it
        trains may go to one, and leaves it as easily: else a GPU would stay free beside it.
        """
        kept = self.keeping_promise(bid)
        if bid.held is None:
            return kept if not bid.restarts else on_envelope(kept)
        if not self.may_change(bid, market.restart_seconds):
            return (bid.held,)
        others = (one for one in (kept if bid.live else on_envelope(kept)) if one != bid.held)
        return (bid.held, *(one for one in others if self.pays(bid, one, market)))

    def keeping_promise(self, bid: Bid) -> tuple[Option, ...]:
        """Options that are as fast as was promised and not too wasteful."""
        kept = [one for one in bid.options if one.as_asked or one.speed >= bid.promised]
        most = max((one.per_gpu for one in kept), default=0.0)
        return tuple(one for one in kept if one.per_gpu >= self.least_efficiency * most)

    def on_a_stopgap(self, bid: Bid) -> bool:
        """Whether it runs, and takes more than twice the GPU time that it would take elsewhere."""
        if bid.held is None:
            return False
        best = max((one.per_gpu for one in self.keeping_promise(bid)), default=0.0)
        return bid.held.per_gpu < STOPGAP * best

    def narrowing(self, bid: Bid, restart_seconds: float) -> bool:
        """Whether it may make room for others while it trains on, of which nothing is lost."""
        return bid.live and self.may_change(bid, restart_seconds)

    def stopping(self, bid: Bid, restart_seconds: float) -> bool:
        """Whether it may be stopped for others and wait."""
        long = bid.ran_seconds >= self.yields_after_seconds and bid.ripe
        return bid.promised <= 0.0 and long and self.may_change(bid, restart_seconds)


def on_envelope(options: tuple[Option, ...]) -> tuple[Option, ...]:
    """Those on the least concave line above all speeds by GPUs, and above nothing at all.

    What lies below it is a stopgap: worth beginning with, and not worth a restart.
    """
    hull: list[Option] = []
    for one in sorted(options, key=lambda one: (one.gpus, -one.speed)):
        if hull and (one.speed <= hull[-1].speed or one.gpus == hull[-1].gpus):
            continue
        while hull and _gain(hull[-2] if len(hull) > 1 else None, hull[-1]) <= _gain(hull[-1], one):
            hull.pop()
        hull.append(one)
    return tuple(hull)


def _gain(before: Option | None, after: Option) -> float:
    if before is None:
        return after.per_gpu
    return (after.speed - before.speed) / (after.gpus - before.gpus)
