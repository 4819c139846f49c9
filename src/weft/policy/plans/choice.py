"""The choice over all bids: a greedy answer, and a better one by an integer program if there is."""

from collections.abc import Sequence

from weft.policy.plans.bids import Bid
from weft.policy.plans.greedy import Chosen, greedily
from weft.policy.plans.market import Market
from weft.policy.plans.planning import Planning


def choose(bids: Sequence[Bid], market: Market, planning: Planning) -> Chosen:
    """What each is to run as, by slot; who is not in it waits."""
    return greedily(bids, market, planning)
