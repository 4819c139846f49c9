"""What a change of width is worth: the seconds it saves, against the seconds it costs.

A resize that saves little is not made (the replay of AFS on Philly's clusters changes a share three
times per job, and a third of that buys nothing). What a resize costs is measured: the time for
which training stood still. Whose remaining work nobody knows is taken to have as much before it as
behind it.
"""

import numpy as np

from weft.model.snapshot import Floats, Ints, Snapshot
from weft.policy.recipe import Resizing

LEAST_WORTH_OF_RESTART = 2.0


def worth_growing(snapshot: Snapshot, slots: Ints, goals: Ints, resizing: Resizing) -> Ints:
    """Of these running jobs, in their order, those to whom their goal is worth a resize."""
    wider = goals > snapshot.jobs.width[slots]
    slots, goals = slots[wider], goals[wider]
    if not len(slots) or not resizing.worth:
        return slots
    cost = resizing.worth * max(snapshot.resize_seconds, resizing.least_cost_seconds)
    saved = seconds_saved(snapshot, slots, goals)
    least = resizing.least_saving * seconds_left(snapshot, slots, snapshot.jobs.width[slots])
    return slots[saved >= np.maximum(cost, least)]


def worth_restarting(snapshot: Snapshot, slots: Ints, goals: Ints, resizing: Resizing) -> Ints:
    """Of these running jobs, those to whom a wider start is worth the stop before it."""
    wider = goals > snapshot.jobs.width[slots]
    slots, goals = slots[wider], goals[wider]
    if not len(slots) or not resizing.restarts:
        return slots[:0]
    cost = restart_cost_seconds(snapshot, resizing)
    worth = max(resizing.worth, LEAST_WORTH_OF_RESTART)
    return slots[seconds_saved(snapshot, slots, goals) >= worth * cost]


def restart_cost_seconds(snapshot: Snapshot, resizing: Resizing) -> float:
    """What a stop and a start have been measured to cost, or are believed to cost at least."""
    return max(snapshot.restart_seconds, resizing.least_cost_seconds, 1.0)


def seconds_saved(snapshot: Snapshot, slots: Ints, goals: Ints) -> Floats:
    """How much sooner each would be done with its goal than with the width it has."""
    now = seconds_left(snapshot, slots, snapshot.jobs.width[slots])
    return now - seconds_left(snapshot, slots, goals)


def seconds_left(snapshot: Snapshot, slots: Ints, widths: Ints) -> Floats:
    """How long each still takes at a width; 0 where nothing is known at all."""
    left = snapshot.remaining_work(slots)
    unknown = np.isnan(left)
    if unknown.any():
        left = np.where(unknown, snapshot.work_done(slots), left)
    with np.errstate(divide="ignore", invalid="ignore"):
        seconds = left / snapshot.speeds(slots, widths)
        unmeasured = snapshot.jobs.scale[slots] == 0
        if unmeasured.any():
            seconds = np.where(unmeasured, _as_long_again(snapshot, slots, widths), seconds)
    return np.where(np.isfinite(seconds), seconds, 0.0)


def _as_long_again(snapshot: Snapshot, slots: Ints, widths: Ints) -> Floats:
    """What each has had of service, at another width: of work nobody has counted any yet."""
    jobs, curve = snapshot.jobs, snapshot.jobs.curve[slots]
    speeds, held = snapshot.curves.likely, jobs.width[slots]
    found: Floats = snapshot.attained(slots) / held * speeds[curve, held] / speeds[curve, widths]
    return found
