"""The choice over all bids: a greedy answer, and where it is wanted the best by a program."""

from collections.abc import Sequence

from weft.policy.plans.bids import Bid
from weft.policy.plans.greedy import Chosen, greedily
from weft.policy.plans.market import Market
from weft.policy.plans.planning import Planning
from weft.policy.plans.program import solved


def choose(bids: Sequence[Bid], market: Market, planning: Planning) -> Chosen:
    """What each is to run as, by slot; who is not in it waits."""
    chosen = greedily(bids, market, planning)
    ranked = len({bid.priority for bid in bids if bid.held is None}) > 1
    if not planning.exact or not bids or ranked:
        return chosen
    return solved(bids, market, planning, chosen).chosen
