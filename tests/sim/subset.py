"""A world with some of what its seed draws, named by places in it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from tests.sim.random_world import Plan

#: What can be left out of a plan.
PARTS: Final[dict[str, Callable[[Plan], Sequence[Any]]]] = {
    "planned": lambda plan: plan.faults.planned,
    "crashes": lambda plan: plan.crashes,
    "worker_losses": lambda plan: plan.worker_losses,
    "cancels": lambda plan: plan.cancels,
    "last_troubles": lambda plan: list(plan.last_troubles),
    "jobs": lambda plan: plan.jobs,
}


def subset(
    plan: Plan,
    *,
    jobs: Sequence[int] | None = None,
    planned: Sequence[int] | None = None,
    crashes: Sequence[int] | None = None,
    worker_losses: Sequence[int] | None = None,
    cancels: Sequence[int] | None = None,
    last_troubles: Sequence[int] | None = None,
) -> Plan:
    """The plan with these alone of its jobs, faults and so on; None keeps all of them."""

    def kept(part: str, places: Sequence[int] | None) -> tuple[Any, ...]:
        found = PARTS[part](plan)
        return tuple(found) if places is None else tuple(found[place] for place in places)

    nodes = kept("last_troubles", last_troubles)
    return replace(
        plan,
        jobs=kept("jobs", jobs),
        faults=replace(plan.faults, planned=kept("planned", planned)),
        crashes=kept("crashes", crashes),
        worker_losses=kept("worker_losses", worker_losses),
        cancels=kept("cancels", cancels),
        last_troubles={node: plan.last_troubles[node] for node in nodes},
    )
