"""The Gittins table against the definition, written out twice: here in plain Python with exact
sums, and in `benchmarks.gittins_oracle` in NumPy for samples of realistic size."""

import csv
import math
import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.gittins_oracle import brute_force_index, brute_force_index_at
from weft.model.errors import SpecError
from weft.policy.order.gittins_index import GittinsTable

Floats = npt.NDArray[np.float64]

service = st.one_of(
    st.integers(0, 12).map(float),  # many ties
    st.floats(1e-6, 1e12),  # gaps of every size
)
populations = st.lists(service, min_size=1, max_size=40)
# Eighths add and subtract without rounding, so `s <= a + D` and `s − a <= D` agree.
eighths = st.integers(0, 400).map(lambda n: n / 8)


def ratio_by_definition(samples: list[float], attained: float, quantum: float) -> float:
    remaining = [s - attained for s in samples if s > attained]
    ended = sum(1 for r in remaining if r <= quantum)
    return ended / math.fsum(min(r, quantum) for r in remaining) if ended else 0.0


def index_by_definition(samples: list[float], attained: float) -> float:
    quanta = [s - attained for s in samples if s > attained]
    return max((ratio_by_definition(samples, attained, d) for d in quanta), default=0.0)


def around(points: list[float]) -> list[float]:
    """Each point, its neighbours among the floats, and the middle between one and the next."""
    ordered = sorted(points)
    beside = [math.nextafter(p, side) for p in ordered for side in (0.0, math.inf)]
    between = [(p + q) / 2 for p, q in pairwise(ordered)]
    return [0.0, *ordered, *beside, *between]


def assert_matches_definition(samples: list[float], attained: list[float]) -> None:
    expected = [index_by_definition(samples, a) for a in attained]
    got = GittinsTable.from_samples(np.array(samples)).index(np.array(attained))
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=0.0)


@given(populations, st.lists(service, max_size=10))
def test_equals_the_definition(samples: list[float], attained: list[float]) -> None:
    assert_matches_definition(samples, attained + around(samples))


@pytest.mark.parametrize(
    "samples",
    [
        pytest.param([7.0], id="one sample"),
        pytest.param([5.0] * 9, id="all alike"),
        pytest.param([0.0, 0.0, 3.0, 4.0], id="some zero"),
        pytest.param([float(s) for s in range(1, 60)], id="rising hazard"),
        pytest.param([1.3**k for k in range(60)], id="falling hazard"),
        pytest.param([1e6 + 1.1**k for k in range(60)], id="far along a hull"),
        pytest.param([1e15 + k for k in range(0, 40, 3)], id="fine grain in huge sums"),
        pytest.param(
            [1e-3 * k for k in range(1, 9)] + [1e13 + k for k in (1, 2, 5)], id="two ages"
        ),
    ],
)
def test_equals_the_definition_on_telling_shapes(samples: list[float]) -> None:
    assert_matches_definition(samples, around(samples))


def test_by_hand() -> None:
    table = GittinsTable.from_samples(np.array([10.0, 1.0, 10.0, 1.0]))
    # Fresh: aim at 1, where two of four end for 4 units. Past 1: both end after 9 units each.
    # One unit short of the end: certain completion within one unit.
    np.testing.assert_allclose(table.index(np.array([0.0, 1.0, 9.0])), [2 / 4, 1 / 9, 1.0])


def test_a_job_that_outlived_every_sample_comes_last() -> None:
    table = GittinsTable.from_samples(np.array([2.0, 8.0]))
    assert table.index(np.array([8.0, 9.0, math.inf])).tolist() == [0.0, 0.0, 0.0]
    assert table.index_at(np.array([8.0, 9.0, math.inf]), 5.0).tolist() == [0.0, 0.0, 0.0]


def test_only_zero_samples_promise_nothing() -> None:
    assert GittinsTable.from_samples(np.zeros(3)).index(np.zeros(2)).tolist() == [0.0, 0.0]


def test_keeps_the_shape_given() -> None:
    table = GittinsTable.from_samples(np.array([2.0, 8.0]))
    assert table.index(np.zeros((0,))).shape == (0,)
    assert table.index(np.zeros((2, 3))).shape == (2, 3)
    assert table.index(np.float64(1.0)).shape == ()
    assert table.index_at(np.zeros((2, 1)), np.ones(3)).shape == (2, 3)


@given(populations, st.randoms(use_true_random=False))
def test_order_of_samples_does_not_matter(samples: list[float], rng: random.Random) -> None:
    shuffled = samples.copy()
    rng.shuffle(shuffled)
    attained = np.array(around(samples))
    one, other = (
        GittinsTable.from_samples(np.array(s)).index(attained) for s in (samples, shuffled)
    )
    assert one.tolist() == other.tolist()


@given(
    st.lists(eighths, min_size=1, max_size=30),
    st.lists(eighths, max_size=10),
    st.one_of(eighths.filter(bool), st.just(math.inf)),
)
def test_fixed_quantum_equals_the_definition(
    samples: list[float], attained: list[float], quantum: float
) -> None:
    expected = [ratio_by_definition(samples, a, quantum) for a in attained]
    table = GittinsTable.from_samples(np.array(samples))
    np.testing.assert_allclose(table.index_at(np.array(attained), quantum), expected, rtol=1e-9)


@given(st.lists(eighths, min_size=1, max_size=30), eighths)
def test_index_is_the_best_fixed_quantum(samples: list[float], attained: float) -> None:
    table = GittinsTable.from_samples(np.array(samples))
    quanta = np.array([s - attained for s in samples if s > attained] + [0.125, math.inf])
    best = float(np.max(table.index_at(attained, quanta)))
    assert best == pytest.approx(float(table.index(attained)), rel=1e-12)


@pytest.mark.parametrize("samples", [[], [1.0, math.nan], [1.0, math.inf], [-1.0, 2.0]])
def test_unusable_samples_are_refused_with_a_hint(samples: list[float]) -> None:
    with pytest.raises(SpecError) as refusal:
        GittinsTable.from_samples(np.array(samples))
    assert refusal.value.hint


@pytest.mark.parametrize("quantum", [0.0, -1.0, math.nan])
def test_unusable_quantum_is_refused_with_a_hint(quantum: float) -> None:
    with pytest.raises(SpecError) as refusal:
        GittinsTable.from_samples(np.array([1.0])).index_at(np.zeros(1), quantum)
    assert refusal.value.hint


def test_table_cannot_be_changed() -> None:
    table = GittinsTable.from_samples(np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match="read-only"):
        table.values[0] = 5.0


def yarn_durations(traces: Path, name: str) -> Floats:
    with (traces / "tiresias" / name).open(newline="") as file:
        return np.array([float(row["duration"]) for row in csv.DictReader(file)])


def probes(samples: Floats, seed: int) -> Floats:
    """Some 300 attained values: on samples, beside them, in between, and past the end."""
    rng = np.random.default_rng(seed)
    at = np.concatenate((rng.choice(samples, 60), [samples.min(), samples.max()]))
    beside = (np.nextafter(at, 0.0), np.nextafter(at, np.inf), at - 0.5)
    return np.concatenate((at, *beside, rng.uniform(0, samples.max(), 50), [0.0, 1e9]))


@pytest.mark.parametrize("name", ["yarn-gput1000.csv", "yarn-gput5000.csv", "yarn-gput10000.csv"])
def test_conforms_on_the_yarn_samples_of_tiresias(traces: Path, name: str) -> None:
    samples = yarn_durations(traces, name)
    attained = probes(samples, seed=len(samples))
    table = GittinsTable.from_samples(samples)
    expected = brute_force_index(samples, attained)
    np.testing.assert_allclose(table.index(attained), expected, rtol=1e-9, atol=0.0)
    # The quantum of the authors' simulator, on whole seconds, where sums of floats are exact.
    whole = np.floor(attained)
    at_quantum = brute_force_index_at(samples, whole, 3250.0)
    np.testing.assert_allclose(table.index_at(whole, 3250.0), at_quantum, rtol=1e-9, atol=0.0)


def test_the_two_oracles_agree(traces: Path) -> None:
    samples = yarn_durations(traces, "yarn-gput1000.csv")
    attained = [0.0, 121.0, 5000.5, float(samples.max()) - 1.0]
    expected = [index_by_definition(samples.tolist(), a) for a in attained]
    np.testing.assert_allclose(brute_force_index(samples, np.array(attained)), expected, rtol=1e-9)
