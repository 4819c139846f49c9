"""A plan that was chosen, and those that were not, in words."""

from weft.cli.jobs.job_words import several
from weft.lab.time_words import span
from weft.view.plans import Alternative, Considered


def plan_lines(plan: Considered) -> list[str]:
    """What it runs as and why, then what was rejected, each with what is foretold of it."""
    lines = []
    if plan.chosen is not None:
        lines.append(f"It runs as {_way(plan.chosen, plan.unit)}: {plan.chosen.why}.")
    if plan.note:
        lines.append(f"Its plan stays: {plan.note}.")
    return [*lines, *(f"  rejected: {_way(one, plan.unit)}: {one.why}" for one in plan.rejected)]


def _way(one: Alternative, unit: str) -> str:
    speed = f"{one.units_per_second:.3g} {unit} a second" if unit else _relative(one)
    return f"{several(one.gpus, 'GPU')}, {one.plan} ({speed}, {span(one.left_seconds)} to go)"


def _relative(one: Alternative) -> str:
    return f"{one.units_per_second:.3g} times as fast as asked for"
