"""Why a job waits: every gate that holds it now, with numbers, most helpful first.

The round books a waiting second to the first gate that said no. A person wants all of them, so the
same gates are asked again, each for itself: a gate that alone stands between the job and its
seats comes first, then those that miss the larger share of what they ask for.
"""

import numpy as np

from weft.brain.round import gates
from weft.brain.round.round import Round
from weft.brain.round.session import Session
from weft.brain.state.brain_state import REASONS, BrainState
from weft.model.ids import JobId
from weft.model.reason import Reason, ReasonCode
from weft.model.state import State
from weft.policy.place.packing import Offer
from weft.policy.recipe import Recipe

Numbers = dict[str, float | int | str]

TIMED = frozenset(
    {
        ReasonCode.ROUND_PENDING,
        ReasonCode.BACKOFF_RETRY,
        ReasonCode.BACKOFF_REFUSED,
        ReasonCode.BACKOFF_LOST,
    }
)


def reasons(
    state: BrainState, now: float, recipe: Recipe, job: JobId, *, next_round: float | None
) -> list[Reason]:
    """All reasons that apply, ordered; empty for a job that does not wait."""
    slot = state.slot_of.get(job)
    if slot is None or state.state_of(slot) not in (State.QUEUED, State.ADMITTED):
        return []
    booked = REASONS[int(state.jobs.reason[slot]) - 1]
    return Examination(Session(state, now, recipe), slot, next_round).reasons(booked)


class Examination:
    """One look at one waiting job with all gates."""

    def __init__(self, session: Session, slot: int, next_round: float | None) -> None:
        self._session = session
        self._slot = slot
        self._next_round = next_round
        self._kind = session.kind(slot)
        self._queue = session.queue(slot)
        self._need = self._needed()
        self._offer: Offer | None = session.recipe.place(
            session.room, session.fabric, self._kind, self._need
        )

    def _needed(self) -> int:
        """What it is assigned already; else what it would begin with: of a range, the least."""
        session, slot = self._session, self._slot
        if session.state.seating.assignments[slot] is not None:
            return int(session.snapshot.jobs.width[slot])
        if session.recipe.resizing is not None:
            return self._kind.width.min_gpus
        return int(session.sized(np.array([slot]))[0])

    def reasons(self, booked: ReasonCode) -> list[Reason]:
        """The booked one first if it alone stands; else by what each is short of."""
        first = self._render(booked)
        others = [self._render(code) for code in self._standing() if code is not booked]
        if booked in TIMED:
            return [first, *others]
        return sorted([first, *others], key=lambda reason: -reason.shortage)

    def _standing(self) -> list[ReasonCode]:
        """Quota and supply, each asked as if the other were no obstacle."""
        if self._queue < 0:
            return [ReasonCode.CONSTRAINT_QUEUE]
        never = gates.never(self._session, self._kind, self._queue, self._need)
        if never is not None:
            return [never]
        found = []
        quota = gates.quota(self._session, self._kind, self._queue, self._need)
        if quota is not None:
            found.append(quota)
        if self._offer is None:
            found.append(gates.supply(self._session, self._kind, self._need))
        return found

    def _render(self, code: ReasonCode) -> Reason:
        numbers = self._numbers(code)
        return Reason(code, numbers, shortage=self._shortage(code, numbers))

    def _shortage(self, code: ReasonCode, numbers: Numbers) -> float:
        """Share of the need that this gate misses: the larger, the more it helps to lift it."""
        need = max(self._need, 1)
        if code in (ReasonCode.QUOTA_LIMIT, ReasonCode.QUOTA_FIRM):
            over = float(numbers["used"]) + self._need - float(numbers["limit"])
            return min(max(over, 0.0) / need, 1.0)
        available = numbers["largest"] if code is ReasonCode.FRAGMENTED else numbers["free"]
        return max(self._need - float(available), 0.0) / need

    def _numbers(self, code: ReasonCode) -> Numbers:
        session, jobs = self._session, self._session.snapshot.jobs
        suitable = session.suitable_free(self._kind)
        at = max(float(jobs.not_before[self._slot]), self._next_round or session.now)
        numbers: Numbers = {
            "need": self._need,
            "free": suitable,
            "total": session.fabric.site(self._kind).total_gpus,
            "largest": self._largest(code),
            "other": session.free - suitable,
            "lost": session.lost_gpus(),
            "delay": max(at - session.now, 0.0),
            "cpus": self._kind.cpus,
            "memory": self._kind.memory_gib,
            "failures": int(jobs.failures[self._slot]),
            "refusals": int(jobs.refusals[self._slot]),
            "losses": int(jobs.losses[self._slot]),
        }
        numbers |= self._quota_numbers() | self._locality_numbers()
        if code is ReasonCode.PRIORITY_BEHIND:
            numbers["ahead"] = self._ahead()
        if code is ReasonCode.RESERVED:
            numbers |= self._kept_numbers()
        return numbers

    def _largest(self, code: ReasonCode) -> int:
        """The widest gang of this kind that could be placed now; or ever, where that is asked."""
        session = self._session
        ever = session.fabric.site(self._kind).largest_ever_gpus
        if code is ReasonCode.CONSTRAINT_NEVER:
            return ever
        low, high = 0, min(session.free, ever)
        while low < high:
            middle = (low + high + 1) // 2
            if session.recipe.place(session.room, session.fabric, self._kind, middle) is not None:
                low = middle
            else:
                high = middle - 1
        return low

    def _ahead(self) -> int:
        session = self._session
        waiting = session.snapshot.slots(State.QUEUED)
        ranking = session.recipe.order(session.snapshot, waiting)
        ordered = waiting[ranking.sorted(session.snapshot, waiting)]
        return int(np.flatnonzero(ordered == self._slot)[0])

    def _quota_numbers(self) -> Numbers:
        ledger, firm = self._session.ledger, not self._kind.preemptible
        if self._queue < 0:
            return {"queue": self._kind.queue, "used": 0, "limit": 0}
        table = ledger.table
        step = ledger.never(self._queue, self._need, firm=firm)
        if step is None:
            step = ledger.refusing(self._queue, self._need, firm=firm)
        if step is None:
            step = self._queue
        cap = table.caps[step]
        limit = min(cap, table.guaranteed[step]) if firm and table.divided else cap
        return {"queue": table.ids[step], "used": ledger.used[step], "limit": limit}

    def _locality_numbers(self) -> Numbers:
        session, offer = self._session, self._offer
        fewest = session.fabric.fewest_nodes(self._kind, self._need) or 1
        if offer is None:
            return {"nodes": fewest, "slowdown": 1.0, "fewest": fewest, "bound": 0.0}
        bound = session.recipe.patience.bound_seconds(
            offer.slowdown, session.remaining_seconds(self._slot)
        )
        nodes = len(offer.shares)
        return {"nodes": nodes, "slowdown": offer.slowdown, "fewest": fewest, "bound": bound}

    def _kept_numbers(self) -> Numbers:
        session = self._session
        kept = Round(Session(session.state, session.now, session.recipe)).run().reservation
        if kept is None:
            return {"reserved": 0, "holder": "nobody"}
        reserved = int(session.room.gpus[kept.nodes].sum())
        return {"reserved": reserved, "holder": session.state.spec(kept.slot).id}
