"""Across cliffs: the upper concave envelope of a curve, and GPUs shared out along several.

One GPU more at a time stops before every cliff, because the next GPU alone gains nothing. On the
envelope the way to the next vertex is one step, worth its gain per GPU all the way, so a greedy
choice sees what lies behind the cliff.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.model.ids import JobId
from weft.perf.plans.curve import Configuration, PlanCurve


@dataclass(frozen=True, slots=True)
class Step:
    """From one vertex to the next: what it takes, and what it gains per GPU."""

    gpus: int
    gain_per_gpu: float
    to: Configuration


def envelope(curve: PlanCurve) -> tuple[Configuration, ...]:
    """Vertices of the least concave line above the curve and above nothing at all."""
    best: dict[int, Configuration] = {}
    for one in curve.points:
        known = best.get(one.allocation.gpus)
        if known is None or one.speed > known.speed:
            best[one.allocation.gpus] = one
    hull: list[Configuration] = []
    for one in best.values():
        while hull and _gain(hull[-2] if len(hull) > 1 else None, hull[-1]) <= _gain(hull[-1], one):
            hull.pop()
        hull.append(one)
    while len(hull) > 1 and hull[-1].speed <= hull[-2].speed:
        hull.pop()
    return tuple(hull)


def steps(vertices: Sequence[Configuration], request_speed: float) -> tuple[Step, ...]:
    """Ways between vertices, gains in speeds of what was asked for, so that jobs compare."""
    found = []
    before: Configuration | None = None
    for one in vertices:
        gpus = one.allocation.gpus - (before.allocation.gpus if before else 0)
        found.append(Step(gpus, _gain(before, one) / request_speed, one))
        before = one
    return tuple(found)


def shared_out(
    curves: Mapping[JobId, PlanCurve], request_speeds: Mapping[JobId, float], gpus: int
) -> dict[JobId, Configuration]:
    """GPUs to the steepest steps first, each job's in its order; what no longer fits is left out.

    A greedy answer: exact on envelopes but for what the last steps leave over.
    """
    waiting = {
        job: list(steps(envelope(curve), request_speeds[job])) for job, curve in curves.items()
    }
    given: dict[JobId, Configuration] = {}
    left = gpus
    while True:
        open_steps = [(job, ways[0]) for job, ways in waiting.items() if ways]
        fitting = [(job, step) for job, step in open_steps if step.gpus <= left]
        if not fitting:
            return given
        job, step = max(fitting, key=lambda one: one[1].gain_per_gpu)
        given[job] = step.to
        left -= step.gpus
        waiting[job].pop(0)


def _gain(before: Configuration | None, after: Configuration) -> float:
    gpus = after.allocation.gpus - (before.allocation.gpus if before else 0)
    return (after.speed - (before.speed if before else 0.0)) / gpus
