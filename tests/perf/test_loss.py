"""Losses that are extrapolated: how well, how sure, and when not at all."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.elastic.mixes import erratic, falling
from weft.model.loss import Loss, LossCurve
from weft.perf.loss import MOST_POINTS, NO_LOSSES, Flat, Losses, Target, total_steps
from weft.perf.predictability import PREDICTABLE_AFTER, check_is_due, checked
from weft.perf.total import Source, Total

STEPS = 10_000.0
SIGHTINGS = 600


def seen(loss: Loss, upto: float, *, sightings: int = SIGHTINGS, seed: int = 0) -> Losses:
    """Of so many that the whole run has, those up to that part of it."""
    random, losses = Random(f"seen {seed}"), NO_LOSSES
    for number in range(1, int(upto * sightings) + 1):
        step = STEPS * number / sightings
        losses = losses.with_one(step, loss.at(step, random.random()))
    return losses


def history(loss: Loss, seed: int) -> list[tuple[float, Total | None, int]]:
    """Checks of a whole run: the part done, what was foretold, and the streak."""
    random, losses, found = (
        Random(f"seen {seed}"),
        NO_LOSSES,
        list[tuple[float, Total | None, int]](),
    )
    last, streak = 0.0, 0
    for number in range(1, SIGHTINGS):
        step = STEPS * number / SIGHTINGS
        losses = losses.with_one(step, loss.at(step, random.random()))
        if not check_is_due(step, last):
            continue
        assert loss.target is not None
        total = total_steps(losses, Target(loss.target))
        streak = 0 if total is None else checked(streak, total, step)
        last = step
        found.append((step / STEPS, total, streak))
    return found


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), upto=st.sampled_from((0.2, 0.4, 0.8)))
def test_without_noise_the_end_is_found(seed: int, upto: float) -> None:
    curve = falling(Random(seed), STEPS)
    exact = LossCurve(curve.b0, curve.b1, curve.b2, 0.0, curve.target)
    assert curve.target is not None
    total = total_steps(seen(exact, upto), Target(curve.target))
    assert total is not None and total.source is Source.LOSS
    assert total.likely == pytest.approx(STEPS, rel=0.15)
    assert total.low <= total.likely <= total.high


def test_falling_losses_become_predictable_early_and_their_intervals_cover() -> None:
    by_then, covered = list[bool](), list[bool]()
    for seed in range(60):
        checks = history(falling(Random(seed), STEPS), seed)
        by_then.append(any(s >= PREDICTABLE_AFTER for part, _, s in checks if part <= 0.3))
        covered += [
            total.low <= STEPS <= total.high
            for part, total, _ in checks
            if total is not None and part > 0.15
        ]
    assert np.mean(by_then) >= 0.9
    assert 0.7 <= np.mean(covered) <= 0.9


def test_erratic_losses_are_hardly_ever_predictable() -> None:
    streaks = [s for seed in range(60) for _, _, s in history(erratic(Random(seed), STEPS), seed)]
    assert np.mean([streak >= PREDICTABLE_AFTER for streak in streaks]) <= 0.02


def test_few_points_and_losses_of_nothing_tell_nothing() -> None:
    curve = LossCurve.through(first=5.0, target=1.0, floor=0.5, steps=STEPS)
    assert total_steps(seen(curve, 0.015), Target(1.0)) is None
    assert total_steps(NO_LOSSES, Target(1.0)) is None
    broken = seen(curve, 0.5).with_one(STEPS, 0.0)
    assert total_steps(broken, Target(1.0)) is None or broken.stride > 1


def test_a_target_below_the_floor_is_never_reached() -> None:
    curve = LossCurve.through(first=5.0, target=1.0, floor=0.5, steps=STEPS)
    assert total_steps(seen(curve, 0.9), Target(0.3)) is None


def test_a_loss_that_stands_still_leads_nowhere() -> None:
    flat = LossCurve(0.0, 0.5, 0.0, noise=0.01)
    total = total_steps(seen(flat, 0.5), Target(1.0))
    assert total is None or total.high > 4 * total.low


@given(
    window=st.floats(100.0, 3000.0),
    change=st.floats(0.005, 0.05),
)
@settings(max_examples=50, deadline=None)
def test_flat_is_where_a_window_brings_less_than_the_change(window: float, change: float) -> None:
    curve = LossCurve.through(first=5.0, target=1.0, floor=0.5, steps=STEPS)
    total = total_steps(seen(curve, 0.8), Flat(window, change))
    assert total is not None
    fell = curve.at(total.likely - window) - curve.at(total.likely)
    assert fell == pytest.approx(change, rel=0.1)


def test_points_stay_few_and_keep_the_mean() -> None:
    losses = NO_LOSSES
    for step in range(1, 5001):
        losses = losses.with_one(float(step), float(step % 2))
        assert len(losses.steps) == len(losses.losses) < MOST_POINTS
    assert losses.stride == 64
    assert set(losses.losses) == {0.5}
    assert losses.steps[0] == pytest.approx(32.5)


def test_steps_that_are_taken_again_are_seen_again() -> None:
    losses = NO_LOSSES
    for step in (1.0, 2.0, 3.0, 4.0):
        losses = losses.with_one(step, 10.0)
    losses = losses.with_one(2.5, 5.0)
    assert losses.steps == (1.0, 2.0, 2.5) and losses.losses[-1] == 5.0


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_what_is_no_number_tells_nothing(loss: float) -> None:
    assert NO_LOSSES.with_one(1.0, loss) is NO_LOSSES


def test_one_spike_does_not_move_the_end_much() -> None:
    curve = LossCurve.through(first=5.0, target=1.0, floor=0.5, steps=STEPS, noise=0.005)
    calm = seen(curve, 0.5, sightings=160)
    middle = len(calm.steps) // 2
    losses = (*calm.losses[:middle], 4 * calm.losses[middle], *calm.losses[middle + 1 :])
    spiked = Losses(calm.steps, losses, calm.stride)
    before, after = total_steps(calm, Target(1.0)), total_steps(spiked, Target(1.0))
    assert before is not None and after is not None
    assert after.likely == pytest.approx(before.likely, rel=0.1)
