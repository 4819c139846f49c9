"""The best plan on the GPUs that each job was given, where others decide who is given how many.

Where queues are guaranteed a part, or somebody has waited too long, who goes first is not a matter
of worth; and some recipes have an order and sizes of their own. What they give is laid out as well
as can be. Where no plan fills the width, the job takes as much of it as one does.
"""

from collections.abc import Iterator
from dataclasses import replace

from weft.brain.round.bidding import Bidding
from weft.brain.round.outcome import Granted, Outcome, Stretched
from weft.brain.round.session import Session
from weft.model.plan import ExecutionPlan
from weft.perf.plans.laws import breaches
from weft.policy.place.room import Share
from weft.policy.plans.planning import Planning


def best_plans(session: Session, outcome: Outcome, planning: Planning) -> None:
    """Of those who start, move and change while they train."""
    found = _BestPlans(session, planning)
    outcome.grants[:] = map(found.laid_out, outcome.grants)
    outcome.moves[:] = map(found.laid_out, outcome.moves)
    outcome.stretched[:] = map(found.followed, outcome.stretched)


class _BestPlans:
    def __init__(self, session: Session, planning: Planning) -> None:
        self._session, self._bidding = session, Bidding(session, planning)

    def laid_out(self, granted: Granted) -> Granted:
        """With its plan; on fewer GPUs where none fills all of them."""
        spec = self._session.state.spec(granted.slot)
        if not granted.width or spec.splits is None:
            return granted
        cores = self._session.kind(granted.slot).cpus_per_gpu
        found = self._session.state.plan_book.options(granted.slot, spec)
        assert found is not None
        for shares in _ever_fewer(granted.shares, spec.width.min_gpus):
            best = self._bidding.option(granted.slot, shares, cores)
            width = sum(gpus for _, gpus in shares)
            if best is not None and not breaches(best.plan, width, found.bounds):
                return replace(granted, width=width, shares=shares, plan=best.plan)
        return granted

    def followed(self, changed: Stretched) -> Stretched:
        """With the plan of its next width, if that is another one."""
        state, slot = self._session.state, changed.slot
        if state.spec(slot).splits is None or changed.plan is not None:
            return changed
        plan = self._plan_after(changed)
        return changed if plan in (None, state.plans[slot]) else replace(changed, plan=plan)

    def _plan_after(self, changed: Stretched) -> ExecutionPlan | None:
        state, placement = self._session.state, self._session.state.placement(changed.slot)
        kept = placement.only(placement.numbers - changed.gone)
        own = tuple((state.node_row[node], gpus) for node, gpus in kept.gpus_by_node.items())
        cores = self._session.kind(changed.slot).cpus_per_gpu
        best = self._bidding.option(changed.slot, (*own, *changed.added), cores)
        return None if best is None else best.plan


def _ever_fewer(shares: tuple[Share, ...], least: int) -> Iterator[tuple[Share, ...]]:
    """The same, and then with ever fewer GPUs, from the end; never below the least."""
    left = list(shares)
    while left and sum(gpus for _, gpus in left) >= max(least, 1):
        yield tuple(left)
        node, gpus = left.pop()
        if gpus > 1:
            left.append((node, gpus - 1))
