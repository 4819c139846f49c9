"""Each pass over a dataset takes every sample once, in an order that anybody can compute."""

import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft.model.errors import SpecError
from weft.train.data.order import SampleOrder

EDGES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1023, 1024, 1025]
BLOCKS = [8191, 8192, 8193, 20_000]

GOLDEN_TEN = [9, 5, 2, 4, 7, 0, 1, 8, 6, 3, 1, 5, 4, 7, 2, 8, 0, 9, 3, 6]
GOLDEN_SQUARE = [10, 9, 3, 6, 7, 2, 11, 15, 0, 12, 5, 8, 1, 13, 14, 4]
GOLDEN_IMAGENET = [736577, 1124903, 617115, 566539, 595740, 1101974, 816896, 1143324, 586136]
GOLDEN_LARGE = [336847514213, 840836081888, 542299287704]

sizes = st.sampled_from(EDGES) | st.integers(1, 3000)
seeds = st.integers(-(2**70), 2**70)


@pytest.mark.parametrize("samples", EDGES + BLOCKS)
def test_every_pass_takes_every_sample_once(samples: int) -> None:
    order = SampleOrder(samples, seed=3)
    for number in (0, 1, 1000):
        start = number * samples
        assert sorted(order.slice(start, start + samples)) == list(range(samples))


@given(sizes, seeds, st.integers(0, 2**40))
def test_every_pass_is_a_bijection(samples: int, seed: int, number: int) -> None:
    start = number * samples
    taken = SampleOrder(samples, seed).slice(start, start + samples)
    assert sorted(taken) == list(range(samples))


@given(sizes, seeds, st.integers(0, 2**50), st.integers(0, 300), st.booleans())
def test_a_slice_is_its_samples_also_over_pass_borders(
    samples: int, seed: int, start: int, length: int, shuffle: bool
) -> None:
    order = SampleOrder(samples, seed, shuffle)
    positions = range(start, start + length)
    assert order.slice(start, start + length) == [order.sample(at) for at in positions]


@pytest.mark.parametrize("samples", BLOCKS)
def test_a_slice_may_be_longer_than_what_is_computed_together(samples: int) -> None:
    order = SampleOrder(samples, seed=1)
    whole = order.slice(5, 5 + 2 * samples)
    assert whole == [order.sample(at) for at in range(5, 5 + 2 * samples)]


def test_passes_and_seeds_have_orders_of_their_own() -> None:
    orders = [
        tuple(SampleOrder(32, seed).slice(number * 32, (number + 1) * 32))
        for seed in (-1, 0, 1, 2**64, 2**64 + 1)
        for number in range(20)
    ]
    assert len(set(orders)) == len(orders)
    assert tuple(range(32)) not in orders


def test_all_orders_of_four_samples_are_equally_likely() -> None:
    order = SampleOrder(4, seed=0)
    seen = Counter(tuple(order.slice(4 * number, 4 * number + 4)) for number in range(2400))
    assert len(seen) == 24
    deviation = sum((count - 100) ** 2 / 100 for count in seen.values())
    assert deviation < 49.7, "chi-squared of 23 degrees of freedom: 1 in 1000 is above"


def test_neighbours_do_not_stay_neighbours() -> None:
    taken = SampleOrder(100_000, seed=0).slice(0, 100_000)
    steps = Counter(later - earlier for earlier, later in pairwise(taken))
    assert max(steps.values()) < 12, "no distance between neighbours is preferred"


def test_unshuffled_samples_come_as_they_stand() -> None:
    order = SampleOrder(5, seed=9, shuffle=False)
    assert order.slice(3, 12) == [3, 4, 0, 1, 2, 3, 4, 0, 1]
    assert order.sample(10**18 + 3) == 3


def test_the_largest_dataset_can_be_ordered() -> None:
    order = SampleOrder(2**62, seed=0)
    assert order.slice(2**62 - 2, 2**62 + 2) == [
        order.sample(at) for at in range(2**62 - 2, 2**62 + 2)
    ]


@pytest.mark.parametrize("samples", [0, -1, 2**62 + 1])
def test_a_dataset_that_cannot_be_ordered_is_refused(samples: int) -> None:
    with pytest.raises(SpecError, match=f"{samples} samples"):
        SampleOrder(samples, seed=0)


def test_the_order_is_the_same_on_every_machine_and_version() -> None:
    """A resumed job must go on in the order in which it began: these numbers may never change."""
    assert SampleOrder(10, seed=0).slice(0, 20) == GOLDEN_TEN
    assert SampleOrder(16, seed=1).slice(0, 16) == GOLDEN_SQUARE
    assert SampleOrder(1_281_167, seed=42).slice(1_281_160, 1_281_169) == GOLDEN_IMAGENET
    assert SampleOrder(2**40 + 1, seed=-7).slice(10**15, 10**15 + 3) == GOLDEN_LARGE


def test_neither_order_nor_split_needs_torch() -> None:
    code = (
        "import sys, weft.train.data.order, weft.train.data.split; sys.exit('torch' in sys.modules)"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(weft.__file__).parents[1])}
    assert (
        subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
    )
