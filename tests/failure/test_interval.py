"""How often to save: Young's rule within bounds, against the table that it is taken from."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.failure.interval import (
    NODE_FAULTS_PER_DAY,
    Advice,
    Cost,
    advised_seconds,
    observed_node_faults_per_day,
    seconds_between_failures,
    useful_share,
    young_seconds,
)
from weft.model.errors import SpecError

HOUR = 3600.0
TABLE = {
    8: (3692.0, {10: 272.0, 60: 666.0, 300: 1488.0}, (0.999, 0.997, 0.993)),
    64: (462.0, {10: 96.0, 60: 235.0, 300: 526.0}, (0.996, 0.991, 0.981)),
    512: (57.7, {10: 34.0, 60: 83.0, 300: 186.0}, (0.989, 0.975, 0.946)),
    1024: (28.8, {10: 24.0, 60: 59.0, 300: 132.0}, (0.983, 0.964, 0.924)),
    4096: (7.2, {10: 12.0, 60: 29.0, 300: 66.0}, (0.961, 0.923, 0.848)),
    16384: (1.8, {10: 6.0, 60: 15.0, 300: 33.0}, (0.901, 0.829, 0.696)),
}
"""By GPUs: hours between failures, minutes between saves by their seconds, useful shares."""


@pytest.mark.parametrize("gpus", TABLE)
def test_the_table_of_intervals_is_met(gpus: int) -> None:
    hours, minutes, _ = TABLE[gpus]
    mean = seconds_between_failures(gpus)
    assert mean / HOUR == pytest.approx(hours, rel=0.01)
    for save, told in minutes.items():
        assert young_seconds(save, mean) / 60.0 == pytest.approx(told, rel=0.1)


CALMER = {
    8: (453.0, 1109.0, 2481.0),
    64: (160.0, 392.0, 877.0),
    512: (57.0, 139.0, 310.0),
    1024: (40.0, 98.0, 219.0),
    4096: (20.0, 49.0, 110.0),
    16384: (10.0, 25.0, 55.0),
}
"""The same minutes where a node fails 2.34 times in a thousand days."""


@pytest.mark.parametrize("gpus", CALMER)
def test_the_table_of_a_calmer_cluster_is_met(gpus: int) -> None:
    mean = seconds_between_failures(gpus, node_faults_per_day=2.34 / 1_000)
    for save, told in zip((10, 60, 300), CALMER[gpus], strict=True):
        assert young_seconds(save, mean) / 60.0 == pytest.approx(told, rel=0.1)


@pytest.mark.parametrize("gpus", [512, 1024, 4096])
@pytest.mark.parametrize("save", [10, 60, 300])
def test_what_is_useful_is_as_the_closed_form_says(gpus: int, save: int) -> None:
    mean = seconds_between_failures(gpus)
    interval = young_seconds(save, mean)
    told = dict(zip((10, 60, 300), TABLE[gpus][2], strict=True))[save]
    assert useful_share(interval, save, mean) == pytest.approx(told, abs=0.015)
    assert played(interval, save, mean) == pytest.approx(
        useful_share(interval, save, mean), abs=0.01
    )


def played(interval: float, save: float, mean: float, *, restart: float = 300.0) -> float:
    """A job that saves so often, with failures by chance, for a few thousand failures."""
    chance, now, kept, done = random.Random(7), 0.0, 0.0, 0.0
    failure = chance.expovariate(1.0 / mean)
    for _ in range(60_000):
        end = now + interval + save
        while end > failure:
            now = failure + restart
            while (failure := failure + chance.expovariate(1.0 / mean)) < now:
                now = failure + restart
            end = now + interval + save
        now, kept, done = end, done, done + interval
    assert kept <= done
    return done / now


def test_small_jobs_die_of_other_things_than_nodes() -> None:
    assert seconds_between_failures(8, observed_seconds=6 * HOUR) == 6 * HOUR
    assert seconds_between_failures(4096, observed_seconds=60 * HOUR) < 8 * HOUR
    assert seconds_between_failures(0) == seconds_between_failures(1)


@given(
    save=st.floats(0.01, 1000.0),
    mean=st.floats(1.0, 1e8),
    preemptible=st.booleans(),
)
def test_advice_keeps_within_its_bounds(save: float, mean: float, preemptible: bool) -> None:
    found = advised_seconds(save, mean, preemptible=preemptible)
    longest = 1800.0 if preemptible else 3600.0
    assert save / 0.1 - 1e-6 <= found <= max(longest, save / 0.1) + 1e-6


# --- what is told to whoever saves ----------------------------------------------------------------

DAY = 86_400.0
ONE_GPU = Advice(seconds_between_failures(1))


def test_advice_survives_a_command_line() -> None:
    assert Advice.parse(str(ONE_GPU)) == Advice(round(ONE_GPU.gpu_seconds_between_failures), 1800.0)


@pytest.mark.parametrize(
    "text", ["", "7", "7:", "a:b", "0:60", "60:0", "-1:60", "nan:60", "60:inf", "1e99:60", "6:6:6"]
)
def test_what_is_no_advice_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(SpecError, match="no advice") as raised:
        Advice.parse(text)
    assert "100000000:1800" in raised.value.hint


def test_the_first_save_comes_soon_and_shows_what_one_costs() -> None:
    assert ONE_GPU.interval_seconds(64, None) == 60.0


@pytest.mark.parametrize(
    ("gpus", "cost", "seconds"),
    [
        (1024, Cost(10.0), 24 * 60.0),  # as the table above has it
        (4096, Cost(10.0), 12 * 60.0),
        (8, Cost(10.0), 1800.0),  # a preemption costs no more than that
        (1, Cost(0.0), 60.0),
        (16384, Cost(0.001), 60.0),
        (16384, Cost(10.0, 110.0), 1200.0),  # a tenth of its time is the most that it saves
        (0, Cost(10.0), 1800.0),  # none has joined yet
    ],
)
def test_the_interval_follows_width_and_cost_within_bounds(
    gpus: int, cost: Cost, seconds: float
) -> None:
    assert ONE_GPU.interval_seconds(gpus, cost) == pytest.approx(seconds, rel=0.05)


@given(
    st.integers(0, 10**6),
    st.floats(0.0, 1e5),
    st.floats(0.0, 1e5),
    st.floats(1.0, 1e12),
)
def test_no_advice_is_beyond_its_bounds(
    gpus: int, stopped: float, written: float, between: float
) -> None:
    found = Advice(between).interval_seconds(gpus, Cost(stopped, written))
    most = max(1800.0, 10.0 * (stopped + written))
    assert 57.0 <= found <= 1.06 * most


def test_what_is_seen_here_counts_the_more_the_longer_it_is_seen() -> None:
    assert observed_node_faults_per_day((), 100, 0.0) == NODE_FAULTS_PER_DAY
    now = 28 * DAY
    bad = observed_node_faults_per_day([day * DAY for day in range(28)], 10, now)
    assert bad == pytest.approx((6.5 + 28) / (1000 + 280))
    good = observed_node_faults_per_day([0.0], 1000, now)
    assert good < NODE_FAULTS_PER_DAY < bad
