"""Ladders: the hull of a curve over the widths that are allowed, and what each rung is worth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.elastic.handout_oracle import hull
from weft.model.menu import Menus
from weft.model.snapshot import Floats
from weft.policy.packing import Packing
from weft.policy.size.width_ladder import NEVER, Ladders, Ranges, Stride

Span = tuple[int, int]

BY_ONE = Stride()

some_speeds = st.lists(
    st.one_of(st.integers(1, 12).map(float), st.floats(0.1, 20.0)), min_size=1, max_size=16
)


def ladders(
    *curves: list[float], spans: list[Span] | None = None, stride: Stride = BY_ONE
) -> list[list[tuple[int, float]]]:
    """The rungs of each curve (speeds from width 1), from width to width."""
    built, first = build(*curves, spans=spans, stride=stride)
    ends = [*first[1:], len(built.width)]
    return [
        list(zip(built.width[a:b].tolist(), built.speed[a:b].tolist(), strict=True))
        for a, b in zip(first, ends, strict=True)
    ]


def build(
    *curves: list[float], spans: list[Span] | None = None, stride: Stride = BY_ONE
) -> tuple[Ladders, list[int]]:
    rows: list[Floats] = [np.array([0.0, *curve]) for curve in curves]
    spans = spans or [(1, len(curve)) for curve in curves]
    least, most = np.array(spans, np.int64).T
    nobody, one_pool = np.full(len(rows), -1), np.zeros(len(rows), np.int64)
    ranges = Ranges(np.arange(len(rows)), stride.least(least, most), most, nobody, one_pool)
    built, first, _ = Ladders.of(Menus.of([(row, row, row) for row in rows]), ranges, stride)
    return built, first.tolist()


# --- the hull -------------------------------------------------------------------------------------


def test_a_concave_curve_is_climbed_width_by_width() -> None:
    assert ladders([1.0, 1.8, 2.4, 2.8]) == [[(1, 1.0), (2, 1.8), (3, 2.4), (4, 2.8)]]


def test_a_line_keeps_all_its_widths_however_its_speeds_are_rounded() -> None:
    curve = [0.1 * width for width in range(1, 40)]
    assert [width for width, _ in ladders(curve)[0]] == list(range(1, 40))


def test_nobody_climbs_beyond_the_best_width() -> None:
    assert ladders([1.0, 2.0, 2.0, 1.5]) == [[(1, 1.0), (2, 2.0)]]
    assert ladders([3.0, 2.0, 1.0]) == [[(1, 3.0)]]


@pytest.mark.parametrize("dip", range(2, 12))
def test_a_dip_at_any_width_is_stepped_over(dip: int) -> None:
    """A GPU more would be a loss there, and the widths behind are worth it."""
    curve = [float(width) ** 0.9 for width in range(1, 13)]
    curve[dip - 1] = 0.9 * curve[dip - 2]
    assert [width for width, _ in ladders(curve)[0]] == [w for w in range(1, 13) if w != dip]


def test_a_stair_is_climbed_by_its_edges() -> None:
    stair = [2.0 ** int(np.log2(width)) for width in range(1, 65)]
    assert [width for width, _ in ladders(stair)[0]] == [1, 2, 4, 8, 16, 32, 64]


@given(st.lists(some_speeds, min_size=1, max_size=4))
def test_rungs_are_the_points_of_the_hull(curves: list[list[float]]) -> None:
    found = ladders(*curves)
    for curve, ladder in zip(curves, found, strict=True):
        expected = hull(list(enumerate(curve, start=1)))
        assert [width for width, _ in ladder] == [width for width, _ in expected]


@given(some_speeds)
def test_what_a_gpu_gains_only_falls_on_the_way_up(curve: list[float]) -> None:
    built, _ = build(curve)
    climbed = built.cost < NEVER
    assert (np.diff(built.gain[climbed]) <= 1e-9).all()
    assert (built.loss <= built.gain).all()
    assert (built.gain[climbed] > 0).all()


def test_the_gain_of_a_wide_rung_compounds_to_the_whole() -> None:
    built, _ = build([1.0, 1.0, 1.0, 3.0])
    assert built.cost.tolist() == [3, NEVER]
    assert (1.0 + built.gain[0]) ** 3 == pytest.approx(3.0)
    assert (1.0 - built.loss[0]) ** 3 == pytest.approx(1.0 / 3.0)


# --- allowed widths -------------------------------------------------------------------------------


def test_grains_are_counted_from_the_least_width() -> None:
    curve = [float(width) for width in range(1, 11)]
    (ladder,) = ladders(curve, spans=[(3, 10)], stride=Stride(grain_gpus=4))
    assert [width for width, _ in ladder] == [3, 7]


def test_packed_widths_divide_a_node_or_are_made_of_nodes() -> None:
    curve = [float(width) for width in range(1, 31)]
    (ladder,) = ladders(curve, stride=Stride(packed_gpus=8))
    assert [width for width, _ in ladder] == [1, 2, 4, 8, 16, 24]


@given(
    st.integers(1, 12),
    st.integers(1, 40),
    st.integers(0, 20),
    st.sampled_from([1, 2, 3]),
)
def test_a_packed_ladder_holds_no_other_width_unless_the_range_has_none(
    node: int, least: int, more: int, grain: int
) -> None:
    curve = [float(width) for width in range(1, least + more + 1)]
    span = (least, least + more)
    (ladder,) = ladders(curve, spans=[span], stride=Stride(grain, node))
    allowed = [
        width
        for width in range(least, least + more + 1)
        if Packing.NETWORK.allows(width, node) and width % grain == 0
    ]
    assert [width for width, _ in ladder] == (allowed or [least])


# --- curves that are not sure of themselves -------------------------------------------------------


def test_an_unsure_curve_is_read_low_below_the_held_width_and_high_above() -> None:
    likely, low, high = (np.array([0.0, *row]) for row in ([1, 2, 3], [0.5, 1, 2], [1.5, 3, 4]))
    curves = Menus.of([(likely, low, high)])
    one, three = np.array([1]), np.array([3])
    widths = np.array([1, 2, 3])
    owner, none = np.zeros(3, np.int64), np.array([0])
    read = {
        held: Ranges(none, one, three, np.array([held]), none).speeds(curves, owner, widths)
        for held in (-1, 0, 2, 3)
    }
    assert {held: speeds.tolist() for held, speeds in read.items()} == {
        -1: [1.0, 2.0, 3.0],
        0: [1.5, 3.0, 4.0],
        2: [0.5, 2.0, 4.0],
        3: [0.5, 1.0, 3.0],
    }
