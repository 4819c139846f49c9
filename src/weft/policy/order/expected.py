"""Shortest first where lengths are intervals: dominance first, then the middle.

A job that is surely shorter than another goes before it; where the two may be either way, each is
put where it would stand on average. So a job of known length is ranked as in SRTF, one of unknown
length as in least attained service, and one that is being learnt moves from the second to the first
as its interval closes: AFS-L, AFS-P and AITurbo's two kinds of jobs in one rule.

Of a job whose length nobody knows it is expected that it needs about as much again as it has had
(for lengths with a heavy tail the best guess there is), give or take a factor. A job that has
exceeded its length is expected to need as much again as the part beyond it, so that a length that
was declared too short ranks a job first for a short time only. Those who run are
taken for shorter by another factor (`held_service`): in a crowd of such jobs, all that stand in
line would otherwise be in and out every few minutes.
"""

from dataclasses import dataclass

import numpy as np

from weft.model.snapshot import Bools, Floats, Ints, Snapshot
from weft.policy.order.ranking import Ranking
from weft.policy.order.turn import next_turn
from weft.policy.service import held_service

GUESS_FACTOR = 4.0
NEW_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ExpectedShortest:
    """Order by the place that a job can be expected to take among all by remaining time."""

    def __call__(self, snapshot: Snapshot, slots: Ints) -> Ranking:
        keys = places(snapshot, slots), middle_seconds(snapshot, slots)
        return Ranking(keys, wake=_next_turn(snapshot, slots))


def places(snapshot: Snapshot, slots: Ints) -> Floats:
    """How many are surely shorter, and half of those who may be, for each job."""
    low, high = seconds_left(snapshot, slots)
    surely_shorter = np.searchsorted(np.sort(high), low, side="left")
    maybe_shorter = np.searchsorted(np.sort(low), high, side="right") - 1
    found: Floats = 0.5 * (surely_shorter + maybe_shorter).astype(np.float64)
    return found


def middle_seconds(snapshot: Snapshot, slots: Ints) -> Floats:
    """The geometric middle of what is left on one GPU."""
    low, high = seconds_left(snapshot, slots)
    middle: Floats = np.sqrt(low * high)
    return middle


def seconds_left(snapshot: Snapshot, slots: Ints) -> tuple[Floats, Floats]:
    """The least and the most seconds that a job may need on one GPU: what it takes from others."""
    speed = snapshot.speeds(slots, np.ones(len(slots), np.int64))
    low, high = snapshot.remaining_interval(slots)
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = low / speed, high / speed
    guessed = _is_guessed(snapshot, slots)
    if guessed.any():
        held, _ = _unexpected_service(snapshot, slots)
        low = np.where(guessed, held / GUESS_FACTOR, low)
        high = np.where(guessed, held * GUESS_FACTOR, high)
    return low, high


def _is_guessed(snapshot: Snapshot, slots: Ints) -> Bools:
    """Jobs of unknown length, and jobs that have exceeded the most that was expected."""
    guessed: Bools = ~(snapshot.work_done(slots) <= snapshot.jobs.work_high[slots])
    return guessed


def _unexpected_service(snapshot: Snapshot, slots: Ints) -> tuple[Floats, Floats]:
    """Service beyond the most that was expected of each guessed job, and how fast that grows.

    All service of a job of unknown length is unexpected.
    """
    held, rate = held_service(snapshot, slots)
    expected = np.nan_to_num(snapshot.jobs.work_high[slots], nan=0.0)
    done = snapshot.work_done(slots)
    share = np.ones(len(slots))
    np.divide(done - expected, done, out=share, where=(expected > 0.0) & (done > expected))
    return np.maximum(held * share, NEW_SECONDS), rate


def _next_turn(snapshot: Snapshot, slots: Ints) -> float | None:
    """When a running job of guessed length falls behind another that waits."""
    guessed = slots[_is_guessed(snapshot, slots)]
    return next_turn(snapshot.now, *_unexpected_service(snapshot, guessed))
