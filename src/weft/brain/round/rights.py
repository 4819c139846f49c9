"""Rights: which running jobs a waiting job may have stopped, by rank and by quota.

Three rights exist. A recipe may let running jobs yield to those that rank before them, once they
have run for a while, but for those that keep their seats; where queues have guarantees, only inside
one queue or from queues that borrow. A job that has waited too long has the same right under every
recipe. And a queue within its guarantee may reclaim what it has lent, whatever the rank. The answer
for a whole queue of victims is the same, so it is asked by queue and not by job.
"""

import numpy as np

from weft.brain.round.session import Session
from weft.brain.round.victims import Victims
from weft.model.snapshot import Bools
from weft.policy.recipe import Yielding


class Rights:
    """Who may go, as masks over the victims."""

    def __init__(self, session: Session, victims: Victims, late: Bools | None) -> None:
        self._session = session
        self._victims = victims
        self._late = late
        self._nobody: Bools = np.zeros(len(session.state.quota.ids), bool)
        self._yields: dict[int, Bools] = {}
        self._lent: dict[tuple[int, int], Bools] = {}
        yielding = session.recipe.yielding
        self._ran_for_late: Bools = session.may_go(victims.slots, yielding or Yielding())
        self._ran_enough: Bools = self._ran_for_late & (yielding is not None)

    def against(self, queue: int, width: int, position: int) -> Bools:
        """All who may go for a job of that queue, width and rank, as things stand."""
        late = self._late is not None and bool(self._late[position])
        by_rank = self._victims.behind(position)
        by_rank &= self._ran_for_late if late else self._ran_enough
        if not self._session.divided:
            return by_rank
        victims, lent = self._victims, self._lent_to(queue, width)
        mask: Bools = by_rank & self._yield_to(queue, late=late)[victims.queues]
        if lent is not self._nobody:
            mask |= victims.left & lent[victims.queues]
        return mask

    def under(self, refusing: int, queue: int, width: int, position: int) -> Bools:
        """Those below the queue that refuses, whose end would make room in it."""
        below = np.array([refusing in path for path in self._session.state.quota.paths])
        mask: Bools = self.against(queue, width, position) & below[self._victims.queues]
        return mask

    def changed(self) -> None:
        """Something was granted: the queues' use is another."""
        self._yields.clear()
        self._lent.clear()

    def _yield_to(self, queue: int, *, late: bool) -> Bools:
        """By victim's queue: whether its jobs yield to this queue by rank."""
        if self._session.recipe.yielding is None and not late:
            return self._nobody
        found = self._yields.get(queue)
        if found is None:
            found = self._yields[queue] = self._session.ledger.borrowers(queue)
        return found

    def _lent_to(self, queue: int, width: int) -> Bools:
        """By victim's queue: whether this queue may reclaim from it for so many GPUs."""
        ledger = self._session.ledger
        if ledger.used[queue] + width > ledger.table.guaranteed[queue]:
            return self._nobody
        found = self._lent.get((queue, width))
        if found is None:
            found = self._lent[queue, width] = ledger.reclaimable(queue, width)
        return found
