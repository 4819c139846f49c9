"""A greedy choice: always feasible, and good where nobody has to be disturbed.

GPUs that are free go to those who wait, along the upper concave hull of what each could run as, the
steepest step first: so a cliff is one step. Then a job that has run for long may stop for others,
and what is left lets running ones grow. Restarts are paid from the allowance.
"""

from collections.abc import Sequence
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
    till = Till(market.gpus - held, market.allowance, list(market.room))
    for bid in bids:
        if bid.held is not None and till.room:
            till.room[bid.queue] -= bid.held.gpus
    waiting = [bid for bid in bids if bid.held is None]
    stopgaps = [bid for bid in bids if planning.on_a_stopgap(bid)]
    _grow(stopgaps, chosen, till, market, planning)
    chosen |= _hand_out(waiting, till, market, planning)
    if till.allowance > 0.0:
        _narrow_for_others(bids, chosen, till, market, planning)
        _stop_for_others(bids, chosen, till, market, planning)
        _grow(bids, chosen, till, market, planning)
    return chosen


def hull(bid: Bid, market: Market, planning: Planning) -> list[Rung]:
    """Nothing, and then options on the upper concave hull of worth by GPUs."""
    rungs: list[Rung] = [(0, 0.0, None)]
    ways = [
        (one.gpus, planning.worth(bid, one, market.restart_seconds), one)
        for one in planning.offered(bid, market)
    ]
    for rung in sorted(ways, key=lambda one: (one[0], -one[1])):
        if rung[1] <= rungs[-1][1]:
            continue
        while len(rungs) > 1 and _steepness(rungs[-2], rungs[-1]) <= _steepness(rungs[-2], rung):
            rungs.pop()
        rungs.append(rung)
    return rungs


def _steepness(below: Rung, above: Rung) -> float:
    return (above[1] - below[1]) / (above[0] - below[0]) if above[0] > below[0] else float("inf")


def _hand_out(bids: Sequence[Bid], till: Till, market: Market, planning: Planning) -> Chosen:
    """First steps by priority and worth per GPU; then further ones."""
    ladders = {bid.slot: hull(bid, market, planning) for bid in bids}
    asking = [bid for bid in bids if len(ladders[bid.slot]) > 1]
    asking.sort(key=lambda bid: (-bid.priority, -_steepness(*ladders[bid.slot][:2]), bid.seq))
    chosen: Chosen = {}
    for bid in asking:
        gpus, _, option = ladders[bid.slot][1]
        assert option is not None
        if till.has(bid, gpus):
            till.pay(bid, gpus)
            chosen[bid.slot] = option
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


def may_stop(bid: Bid, waiting: Sequence[Bid], planning: Planning, restart: float) -> bool:
    """Whether it may be stopped for these, none of whom has less priority."""
    if bid.held is None or any(other.priority < bid.priority for other in waiting):
        return False
    return planning.stopping(bid, restart)


def _narrow_for_others(
    bids: Sequence[Bid], chosen: Chosen, till: Till, market: Market, planning: Planning
) -> None:
    """Who can change while it trains gives of its GPUs, each as few as those who wait need."""
    restart = market.restart_seconds
    starting = [bid for bid in bids if bid.held is None]
    victims = [bid for bid in bids if planning.narrowing(bid, restart)]
    for victim in sorted(victims, key=lambda bid: (-bid.ran_seconds, bid.seq)):
        waiting = [bid for bid in starting if bid.slot not in chosen]
        if not waiting or any(bid.priority < victim.priority for bid in waiting):
            return
        for option in _narrower(victim, planning):
            if _gives_way(
                victim,
                option,
                waiting=waiting,
                chosen=chosen,
                till=till,
                market=market,
                planning=planning,
            ):
                break


def _narrower(bid: Bid, planning: Planning) -> list[Option]:
    """What it could go down to and keep its promise, the widest first."""
    held = bid.held
    assert held is not None
    kept = [one for one in planning.keeping_promise(bid) if 0 < one.gpus < held.gpus]
    best = {one.gpus: one for one in sorted(kept, key=lambda one: one.speed)}
    return sorted(best.values(), key=lambda one: -one.gpus)


def _gives_way(
    victim: Bid,
    option: Option,
    *,
    waiting: Sequence[Bid],
    chosen: Chosen,
    till: Till,
    market: Market,
    planning: Planning,
) -> bool:
    """Whether what others gain by its GPUs is worth it; then it is so chosen."""
    held, restart = victim.held, market.restart_seconds
    assert held is not None
    freed, cost = held.gpus - option.gpus, option.gpus * victim.change(restart)
    if chosen.get(victim.slot) is not held or cost > till.allowance:
        return False
    trial = replace(till, gpus=till.gpus + freed, room=list(till.room))
    if trial.room:
        trial.room[victim.queue] += freed
    found = _hand_out(waiting, trial, market, planning)
    gain = sum(
        planning.worth(bid, found[bid.slot], restart) for bid in waiting if bid.slot in found
    )
    lost = planning.worth(victim, held, restart) - planning.worth(victim, option, restart)
    if not found or gain <= planning.scarce**market.scarcity * max(lost, 0.0):
        return False
    chosen.update({victim.slot: option, **found})
    till.gpus, till.room, till.allowance = trial.gpus, trial.room, till.allowance - cost
    return True


def _stop_for_others(
    bids: Sequence[Bid], chosen: Chosen, till: Till, market: Market, planning: Planning
) -> None:
    """The longest-running first, each where those who wait gain enough by its GPUs."""
    waiting = [bid for bid in bids if bid.slot not in chosen]
    restart = market.restart_seconds
    starting = [bid for bid in bids if bid.held is None]
    victims = [bid for bid in bids if may_stop(bid, starting, planning, restart)]
    for victim in sorted(victims, key=lambda bid: (-bid.ran_seconds, bid.seq)):
        held = victim.held
        if not waiting or held is None:
            return
        cost = held.gpus * restart
        if chosen.get(victim.slot) is not held or cost > till.allowance:
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
        more, cost = option.gpus - bid.held.gpus, option.gpus * bid.change(restart)
        if till.has(bid, more) and cost <= till.allowance:
            till.pay(bid, more)
            till.allowance -= cost
            chosen[bid.slot] = option
