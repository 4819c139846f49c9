"""A greedy choice: always feasible, and good where nobody has to be disturbed.

GPUs that are free go to those who wait, along the upper concave hull of what each could run as, the
steepest step first: so a cliff is one step. Then a job that has run for long may stop for others,
and what is left lets running ones grow. Restarts are paid from the allowance.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

from weft.policy.plans.bids import Bid, Option
from weft.policy.plans.market import Market
from weft.policy.plans.planning import Planning

Chosen = dict[int, Option]
Rung = tuple[int, float, Option | None]
"""GPUs, worth, and the option."""


@dataclass(slots=True)
class Till:
    """What is left while GPUs are handed out."""

    gpus: int
    allowance: float
    narrow_gpus: int
    """For jobs of one node, while others need several."""

    room: list[int] = field(default_factory=list)

    def has(self, bid: Bid, gpus: int) -> bool:
        return gpus <= self.gpus and (not self.room or gpus <= self.room[bid.queue])

    def pay(self, bid: Bid, gpus: int) -> None:
        self.gpus -= gpus
        if self.room:
            self.room[bid.queue] -= gpus


def greedily(bids: Sequence[Bid], market: Market, planning: Planning) -> Chosen:
    """What each is to run as, by slot; who is not in it waits."""
    chosen = {bid.slot: bid.held for bid in bids if bid.held is not None}
    held = sum(option.gpus for option in chosen.values())
    narrow = sum(one.gpus for one in chosen.values() if one.gpus <= market.node_gpus)
    share = int(planning.narrow_share * market.gpus)
    till = Till(market.gpus - held, market.allowance, share - narrow, list(market.room))
    for bid in bids:
        if bid.held is not None and till.room:
            till.room[bid.queue] -= bid.held.gpus
    waiting = [bid for bid in bids if bid.held is None]
    stopgaps = [bid for bid in bids if planning.on_a_stopgap(bid)]
    _grow(stopgaps, chosen, till, market, planning)
    chosen |= _hand_out(waiting, till, market, planning)
    if till.allowance > 0.0:
        _stop_for_others(bids, chosen, till, market, planning)
        _grow(bids, chosen, till, market, planning)
    return chosen


def hull(bid: Bid, options: Iterable[Option], planning: Planning, restart: float) -> list[Rung]:
    """Nothing, and then options on the upper concave hull of worth by GPUs."""
    rungs: list[Rung] = [(0, 0.0, None)]
    offered = [(one.gpus, planning.worth(bid, one, restart), one) for one in options]
    for rung in sorted(offered, key=lambda one: (one[0], -one[1])):
        if rung[1] <= rungs[-1][1]:
            continue
        while len(rungs) > 1 and _steepness(rungs[-2], rungs[-1]) <= _steepness(rungs[-2], rung):
            rungs.pop()
        rungs.append(rung)
    return rungs


def _steepness(below: Rung, above: Rung) -> float:
    return (above[1] - below[1]) / (above[0] - below[0]) if above[0] > below[0] else float("inf")


def _hand_out(bids: Sequence[Bid], till: Till, market: Market, planning: Planning) -> Chosen:
    """First steps by worth per GPU, those who have waited too long first; then further steps."""
    ladders = {}
    for bid in bids:
        offered = planning.offered(bid, market)
        rungs = hull(bid, offered, planning, market.restart_seconds)
        if len(rungs) > 1:
            ladders[bid.slot] = rungs
    asking = [bid for bid in bids if bid.slot in ladders]
    asking.sort(key=lambda bid: (-_steepness(*ladders[bid.slot][:2]), bid.seq))
    chosen: Chosen = {}
    refused = False
    wide = any(ladders[bid.slot][1][0] > market.node_gpus for bid in asking)
    for bid in asking:
        gpus, _, option = ladders[bid.slot][1]
        assert option is not None
        narrow = wide and gpus <= market.node_gpus
        if till.has(bid, gpus) and not (narrow and gpus > till.narrow_gpus):
            till.pay(bid, gpus)
            chosen[bid.slot] = option
            till.narrow_gpus -= gpus if narrow else 0
        else:
            refused = True
    if not (refused and planning.frugal):
        _widen([bid for bid in asking if bid.slot in chosen], ladders, chosen, till)
    return chosen


def _widen(bids: Sequence[Bid], ladders: dict[int, list[Rung]], chosen: Chosen, till: Till) -> None:
    """Further steps of those who have their first, the steepest first."""
    heap = [
        (-_steepness(*ladders[bid.slot][1:3]), bid.seq, 2, bid)
        for bid in bids
        if len(ladders[bid.slot]) > 2  # noqa: PLR2004 - nothing, and the first step
    ]
    heapify(heap)
    while heap:
        _, seq, at, bid = heappop(heap)
        rungs = ladders[bid.slot]
        gpus, option = rungs[at][0] - rungs[at - 1][0], rungs[at][2]
        if not till.has(bid, gpus):
            continue
        assert option is not None
        till.pay(bid, gpus)
        chosen[bid.slot] = option
        if at + 1 < len(rungs):
            heappush(heap, (-_steepness(rungs[at], rungs[at + 1]), seq, at + 1, bid))


def _stop_for_others(
    bids: Sequence[Bid], chosen: Chosen, till: Till, market: Market, planning: Planning
) -> None:
    """The longest-running first, each where those who wait gain enough by its GPUs."""
    waiting = [bid for bid in bids if bid.slot not in chosen]
    restart = market.restart_seconds
    victims = [bid for bid in bids if bid.held and planning.stopping(bid, restart)]
    for victim in sorted(victims, key=lambda bid: (-bid.ran_seconds, bid.seq)):
        held = victim.held
        if not waiting or held is None:
            return
        cost = held.gpus * restart
        if cost > till.allowance:
            continue
        trial = replace(till, gpus=till.gpus + held.gpus, room=list(till.room))
        if trial.room:
            trial.room[victim.queue] += held.gpus
        found = _hand_out(waiting, trial, market, planning)
        gain = sum(
            planning.worth(bid, found[bid.slot], restart) for bid in waiting if bid.slot in found
        )
        dear = planning.margin * planning.scarce**market.scarcity
        if gain > dear * planning.worth(victim, held, restart):
            del chosen[victim.slot]
            chosen.update(found)
            till.gpus, till.room, till.allowance = trial.gpus, trial.room, till.allowance - cost
            waiting = [bid for bid in waiting if bid.slot not in found]


def _grow(
    bids: Sequence[Bid], chosen: Chosen, till: Till, market: Market, planning: Planning
) -> None:
    """Running jobs into what is free, the greatest gain per GPU first."""
    restart = market.restart_seconds
    wishes = []
    for bid in bids:
        if bid.held is None or chosen.get(bid.slot) is not bid.held:
            continue
        now = planning.worth(bid, bid.held, restart)
        ways = [
            ((planning.worth(bid, one, restart) - now) / max(one.gpus - bid.held.gpus, 1), one)
            for one in planning.offered(bid, market)
            if one is not bid.held and one.gpus - bid.held.gpus <= till.gpus
        ]
        gain, best = max(ways, key=lambda way: (way[0], -way[1].gpus), default=(0.0, bid.held))
        if gain > 0.0:
            wishes.append((-gain, bid.seq, bid, best))
    for _, _, bid, option in sorted(wishes, key=lambda wish: wish[:2]):
        assert bid.held is not None
        more, cost = option.gpus - bid.held.gpus, option.gpus * restart
        if till.has(bid, more) and cost <= till.allowance:
            till.pay(bid, more)
            till.allowance -= cost
            chosen[bid.slot] = option
