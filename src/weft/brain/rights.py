"""Rights: which running jobs a waiting job may have stopped, by rank and by quota.

Two rights exist. A recipe may let running jobs yield to those that rank before them, once they
have run for a while; where queues have guarantees, only inside one queue or from queues that
borrow. And a queue within its guarantee may reclaim what it has lent, whatever the rank. The
answer for a whole queue of victims is the same, so it is asked by queue and not by job.
"""

import numpy as np

from weft.brain.desk import Desk
from weft.brain.victims import Victim, Victims
from weft.model.snapshot import Bools


class Rights:
    """Who may go, as masks over the victims."""

    def __init__(self, desk: Desk, victims: Victims) -> None:
        self._desk = desk
        self._victims = victims
        self._nobody: Bools = np.zeros(len(desk.state.quota.ids), bool)
        self._yields: dict[int, Bools] = {}
        self._lent: dict[tuple[int, int], Bools] = {}
        yielding = desk.recipe.yielding
        ran = desk.now - desk.snapshot.jobs.started[victims.slots]
        least = np.inf if yielding is None else yielding.min_run_seconds
        self._ran_enough: Bools = ran >= least

    def against(self, queue: int, width: int, position: int) -> Bools:
        """All who may go for a job of that queue, width and rank, as things stand."""
        by_rank = self._victims.behind(position) & self._ran_enough
        if not self._desk.divided:
            return by_rank
        victims, lent = self._victims, self._lent_to(queue, width)
        yields = self._yield_to(queue)
        mask: Bools = (by_rank & yields[victims.queues]) | (victims.left & lent[victims.queues])
        return mask

    def under(self, refusing: int, queue: int, position: int) -> Bools:
        """Those below the queue that refuses, whose end would make room in it."""
        by_rank = self._victims.behind(position) & self._ran_enough
        below = np.array([refusing in path for path in self._desk.state.quota.paths])
        mask: Bools = by_rank & below[self._victims.queues]
        if self._desk.divided:
            mask = mask & self._yield_to(queue)[self._victims.queues]
        return mask

    def lawful_in_turn(self, queue: int, victims: list[Victim]) -> list[Victim]:
        """Those of them who may go, each after the chosen ones before it have gone: no lender
        falls below its own."""
        ledger, chosen = self._desk.ledger, []
        for victim in victims:
            if victim.queue == queue or ledger.borrows(queue, victim.queue):
                ledger.give(victim.queue, victim.width)
                chosen.append(victim)
        for victim in chosen:
            ledger.take(victim.queue, victim.width)
        return chosen

    def changed(self) -> None:
        """Something was granted: the queues' use is another."""
        self._yields.clear()
        self._lent.clear()

    def _yield_to(self, queue: int) -> Bools:
        """By victim's queue: whether its jobs yield to this queue by rank."""
        if self._desk.recipe.yielding is None:
            return self._nobody
        found = self._yields.get(queue)
        if found is None:
            ledger, queues = self._desk.ledger, range(len(self._nobody))
            found = self._yields[queue] = np.array(
                [other == queue or ledger.borrows(queue, other) for other in queues]
            )
        return found

    def _lent_to(self, queue: int, width: int) -> Bools:
        """By victim's queue: whether this queue may reclaim from it for so many GPUs."""
        ledger = self._desk.ledger
        if ledger.used[queue] + width > ledger.table.guaranteed[queue]:
            return self._nobody
        found = self._lent.get((queue, width))
        if found is None:
            queues = range(len(self._nobody))
            found = self._lent[queue, width] = np.array(
                [other != queue and ledger.may_reclaim(queue, width, other) for other in queues]
            )
        return found
