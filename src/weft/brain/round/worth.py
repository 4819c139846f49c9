"""What a change of width is worth: the seconds it saves, against the seconds it costs.

A resize that saves little is not made (the replay of AFS on Philly's clusters changes a share three
times per job, and a third of that buys nothing). What a change costs is measured: the time for
which training stood still; and where the job has to stop for it, what it had not saved comes on
top. A job of unknown length is expected to need as much work again as it has done; one that has
exceeded its declared length by x, x more.
"""

from enum import Enum

import numpy as np

from weft.model.snapshot import Bools, Floats, Ints, Snapshot
from weft.policy.recipe import Resizing

LEAST_WORTH_OF_RESTART = 2.0
LEAST_RESTART_SECONDS = 1.0
NEW_SECONDS = 60.0
"""When to look again at a job of which nothing is known yet."""


class Change(Enum):
    """What happens to a running job: `RESTART` is a stop and a start, also elsewhere."""

    RESIZE = "resize"
    RESTART = "restart"


def price_seconds(snapshot: Snapshot, slots: Ints, change: Change, resizing: Resizing) -> Floats:
    """Seconds of training that the change costs each of these running jobs.

    What it has been measured to take, or is believed to take at least; and the work that a stop is
    expected to lose, of which there is no more than has been done since the start.
    """
    least = resizing.least_cost_seconds
    if change is Change.RESIZE:
        return np.full(len(slots), max(snapshot.resize_seconds, least))
    return restart_seconds(snapshot, slots, least)


def restart_seconds(snapshot: Snapshot, slots: Ints, least_seconds: float = 0.0) -> Floats:
    """What a stop and a start cost, with half of what is trained between two checkpoints."""
    unsaved = snapshot.jobs.saves_every_seconds[slots] / 2.0
    lost = np.minimum(unsaved, snapshot.now - snapshot.jobs.started[slots])
    price: Floats = max(snapshot.restart_seconds, least_seconds, LEAST_RESTART_SECONDS) + lost
    return price


def worth_growing(snapshot: Snapshot, slots: Ints, goals: Ints, resizing: Resizing) -> Ints:
    """Of these running jobs, in their order, those to whom their goal is worth a resize."""
    wider = goals > snapshot.jobs.width[slots]
    slots, goals = slots[wider], goals[wider]
    if not len(slots) or not resizing.worth:
        return slots
    cost = resizing.worth * price_seconds(snapshot, slots, Change.RESIZE, resizing)
    saved = seconds_saved(snapshot, slots, goals)
    least = resizing.least_saving * seconds_left(snapshot, slots, snapshot.jobs.width[slots])
    return slots[saved >= np.maximum(cost, least)]


def seconds_until_worth(snapshot: Snapshot, slots: Ints, goals: Ints, resizing: Resizing) -> float:
    """When the first of these, to whom growing is not worth it yet, will find that it is.

    Of a job of unknown length the more is expected the longer it runs, second by second. Infinity
    where no time changes it.
    """
    open_ended = (goals > snapshot.jobs.width[slots]) & _open_ended(snapshot, slots)
    slots, goals = slots[open_ended], goals[open_ended]
    if not len(slots):
        return np.inf
    left = seconds_left(snapshot, slots, snapshot.jobs.width[slots])
    saved = left - seconds_left(snapshot, slots, goals)
    cost = resizing.worth * price_seconds(snapshot, slots, Change.RESIZE, resizing)
    with np.errstate(divide="ignore", invalid="ignore"):
        wait = left * (cost / saved - 1.0)
    wait[~(saved > resizing.least_saving * left) | ~(saved > 0.0)] = np.inf
    wait[left <= 0.0] = NEW_SECONDS
    return float(wait.min())


def worth_restarting(snapshot: Snapshot, slots: Ints, goals: Ints, resizing: Resizing) -> Ints:
    """Of these running jobs, those to whom a wider start is worth the stop before it."""
    wider = goals > snapshot.jobs.width[slots]
    slots, goals = slots[wider], goals[wider]
    if not len(slots) or not resizing.restarts:
        return slots[:0]
    cost = price_seconds(snapshot, slots, Change.RESTART, resizing)
    worth = max(resizing.worth, LEAST_WORTH_OF_RESTART)
    return slots[seconds_saved(snapshot, slots, goals) >= worth * cost]


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
        unmeasured = np.isnan(snapshot.jobs.scale[slots])
        if unmeasured.any():
            seconds = np.where(unmeasured, _as_long_again(snapshot, slots, widths), seconds)
    return np.where(np.isfinite(seconds), seconds, 0.0)


def _open_ended(snapshot: Snapshot, slots: Ints) -> Bools:
    """Jobs whose expected remaining work grows while they run."""
    open_ended: Bools = np.isnan(snapshot.jobs.work_total[slots]) | snapshot.exceeds_total(slots)
    return open_ended


def _as_long_again(snapshot: Snapshot, slots: Ints, widths: Ints) -> Floats:
    """What each has had of service, at another width: of work nobody has counted any yet."""
    menus, menu = snapshot.menus, snapshot.jobs.menu[slots]
    held = snapshot.jobs.width[slots]
    faster = menus.speeds(menu, widths) / menus.speeds(menu, held)
    found: Floats = snapshot.attained(slots) / held / faster
    return found
