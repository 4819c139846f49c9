"""Why a job waits: every gate that holds it now, with numbers, most helpful first.

The round books a waiting second to the first gate that said no. A person wants all of them. The
same gates are asked again here, each for itself; a gate that alone stands between the job and its
seats comes first, then those that miss the larger share of what they ask for.
"""

import numpy as np

from weft.brain.round import Round
from weft.brain.state import REASONS, BrainState
from weft.model.ids import JobId
from weft.model.kind import Kind
from weft.model.reason import Reason, ReasonCode
from weft.model.state import State
from weft.policy.recipe import Recipe


def reasons(
    state: BrainState, now: float, recipe: Recipe, job: JobId, *, next_round: float | None
) -> list[Reason]:
    """All reasons that apply, ordered; empty for a job that does not wait."""
    slot = state.slot_of.get(job)
    if slot is None or state.state_of(slot) not in (State.QUEUED, State.ADMITTED):
        return []
    row = int(state.jobs.reason[slot])
    booked = REASONS[row - 1] if row else ReasonCode.ROUND_PENDING
    return Examination(state, now, recipe, slot).reasons(booked, next_round)


class Examination:
    """One look at one waiting job with all gates."""

    def __init__(self, state: BrainState, now: float, recipe: Recipe, slot: int) -> None:
        self.state = state
        self.now = now
        self.slot = slot
        self.round = Round(state, now, recipe)
        self.kind: Kind = state.kinds[int(state.jobs.kind[slot])]
        self.need = int(recipe.size(self.round.snapshot, np.array([slot]))[0])

    def reasons(self, booked: ReasonCode, next_round: float | None) -> list[Reason]:
        first = self._render(booked, next_round)
        others = [reason for reason in self._standing() if reason.code is not booked]
        found = [first, *others]
        if len(found) == 1:
            return found
        return [first, *sorted(others, key=lambda reason: -reason.shortage)]

    def _standing(self) -> list[Reason]:
        """Quota and supply, each asked as if the other were no obstacle."""
        found = []
        ledger, queue = self.round.ledger, int(self.state.jobs.queue[self.slot])
        if queue >= 0 and ledger.refusing(queue, self.need, firm=not self.kind.preemptible) is not None:
            firm = not self.kind.preemptible
            found.append(self._render(ReasonCode.QUOTA_FIRM if firm else ReasonCode.QUOTA_LIMIT))
        supply = self._supply()
        if supply is not None:
            found.append(self._render(supply))
        return found

    def _supply(self) -> ReasonCode | None:
        if self.need > self.round.fabric.site(self.kind).largest_ever_gpus:
            return ReasonCode.CONSTRAINT_NEVER
        room, fabric = self.round.room, self.round.fabric
        if self.round.recipe.place(room, fabric, self.kind, self.need) is not None:
            return None
        return self.round._shortage(self.kind, self.need)

    def _render(self, code: ReasonCode, next_round: float | None = None) -> Reason:
        numbers = self._numbers(code, next_round)
        available = numbers.get("free", numbers.get("largest", 0))
        short = max(self.need - float(available), 0.0) / max(self.need, 1)
        return Reason(code, numbers, shortage=short)

    def _numbers(self, code: ReasonCode, next_round: float | None) -> dict[str, float | int | str]:
        jobs, site = self.state.jobs, self.round.fabric.site(self.kind)
        suitable = self.round.suitable_free(self.kind)
        numbers: dict[str, float | int | str] = {
            "need": self.need,
            "free": suitable,
            "total": site.total_gpus,
            "largest": self._largest_now(site.largest_gpus, code),
            "other": self.round.free - suitable,
            "lost": self.round.lost,
            "queue": self.kind.queue,
            "at": float(max(jobs.not_before[self.slot], next_round or self.now)),
            "failures": int(jobs.failures[self.slot]),
            "refusals": int(jobs.refusals[self.slot]),
            "ahead": self._ahead(),
        }
        return numbers | self._quota_numbers() | self._locality_numbers() | self._kept_numbers()

    def _largest_now(self, largest_ever: int, code: ReasonCode) -> int:
        """The widest gang of this kind that could be placed now (or ever)."""
        if code is ReasonCode.CONSTRAINT_NEVER:
            return largest_ever
        low, high = 0, min(self.round.free, largest_ever)
        while low < high:
            middle = (low + high + 1) // 2
            if self.round.recipe.place(self.round.room, self.round.fabric, self.kind, middle):
                low = middle
            else:
                high = middle - 1
        return low

    def _ahead(self) -> int:
        round_ = self.round
        waiting = round_.snapshot.slots(State.QUEUED)
        ranking = round_.recipe.order(round_.snapshot, waiting)
        ordered = waiting[ranking.sorted(round_.snapshot, waiting)]
        found = np.flatnonzero(ordered == self.slot)
        return int(found[0]) if len(found) else 0

    def _quota_numbers(self) -> dict[str, float | int | str]:
        ledger, queue = self.round.ledger, int(self.state.jobs.queue[self.slot])
        if queue < 0:
            return {"used": 0, "limit": 0}
        firm = not self.kind.preemptible
        step = ledger.never(queue, self.need, firm=firm)
        if step is None:
            step = ledger.refusing(queue, self.need, firm=firm)
        if step is None:
            step = queue
        table = ledger.table
        limit = table.guaranteed[step] if firm and table.divided else table.caps[step]
        return {"queue": table.ids[step], "used": ledger.used[step], "limit": limit}

    def _locality_numbers(self) -> dict[str, float | int | str]:
        fewest = self.round.fabric.fewest_nodes(self.kind, self.need) or 1
        offer = self.round.recipe.place(self.round.room, self.round.fabric, self.kind, self.need)
        if offer is None:
            return {"nodes": 0, "slowdown": 1.0, "fewest": fewest, "bound": 0.0}
        remaining = float(self.round.snapshot.remaining_seconds(np.array([self.slot]))[0])
        bound = self.round.recipe.patience.bound_seconds(offer.slowdown, remaining)
        return {
            "nodes": len(offer.shares),
            "slowdown": offer.slowdown,
            "fewest": fewest,
            "bound": bound,
        }

    def _kept_numbers(self) -> dict[str, float | int | str]:
        kept = self.round.run().reservation if self.round.recipe.reserving else None
        if kept is None:
            return {"reserved": 0, "holder": "nobody"}
        free = free_gpus_on(self.round, kept.nodes)
        return {"reserved": free, "holder": self.state.spec(kept.slot).id}


def free_gpus_on(round_: Round, nodes: np.ndarray) -> int:
    return int(round_.room.gpus[nodes].sum())
