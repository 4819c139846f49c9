"""Schedulers that choose plans, each as one composition."""

from weft.policy.order.arrival import by_arrival
from weft.policy.plans.planning import Planning, Rule, Scope
from weft.policy.recipe import Recipe, Rounds


def rubick(
    *,
    prior: float = 20.0,
    gate: float = 2.0,
    budget: float = 0.01,
    yields_after: float = 3600.0,
    exact: bool = False,
    spacing: float = 1.0,
) -> Recipe:
    """Widths, plans and cores chosen together (Rubick), for jobs that claim a model's shape."""
    planning = Planning(
        prior_seconds=prior,
        gate=gate,
        budget=budget,
        yields_after_seconds=yields_after,
        exact=exact,
    )
    return _planned("rubick", planning, spacing)


def rubick_r(*, spacing: float = 1.0) -> Recipe:
    """Rubick's choice of widths alone: the submitted plan, with more or fewer replicas."""
    return _planned("rubick-r", Planning(scope=Scope.RESOURCES), spacing)


def rubick_p(*, spacing: float = 1.0) -> Recipe:
    """Rubick's choice of plans alone: as many GPUs as were asked for, split the best way."""
    return _planned("rubick-p", Planning(scope=Scope.PLANS), spacing)


def sia(*, spacing: float = 60.0) -> Recipe:
    """Like Sia: widths of submitted plans by goodput over the least, rounds every minute."""
    planning = Planning(scope=Scope.RESOURCES, rule=Rule.GOODPUT)
    return _planned("sia", planning, spacing)


def _planned(name: str, planning: Planning, spacing: float) -> Recipe:
    return Recipe(
        name=name, order=by_arrival, rounds=Rounds(spacing_seconds=spacing), planning=planning
    )


PLANNED = {"rubick": rubick, "rubick-r": rubick_r, "rubick-p": rubick_p, "sia": sia}
