"""Ladders: the floor keeps the fair speed and takes no more than the fair share."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.test_host import curves
from weft.model.host import HostCurve, PerGpu
from weft.policy.host.core_ladder import ladder

FAIR, NODE = PerGpu(3.0, 62.5), PerGpu(24.0, 500.0)


@settings(deadline=None)
@given(curves(), st.integers(1, 12), st.integers(10, 200))
def test_the_floor_is_as_fast_as_the_fair_share_and_no_more(
    curve: HostCurve, cores: int, memory: int
) -> None:
    fair = PerGpu(cores / 2, float(memory))
    floor = ladder(curve, fair, NODE).floor
    assert floor.speed >= curve.at(fair) - 1e-9
    assert floor.speed == pytest.approx(curve.at(floor.host))
    assert floor.host.cores <= fair.cores and floor.host.memory_gib <= fair.memory_gib


@settings(deadline=None)
@given(curves())
def test_each_rung_is_faster_dearer_and_worth_less_than_the_one_before(curve: HostCurve) -> None:
    found = ladder(curve, FAIR, NODE)
    steps = [found.floor, *found.rungs]
    slopes = []
    for one, other in pairwise(steps):
        assert other.speed > one.speed and other.price > one.price
        assert other.speed == pytest.approx(curve.at(other.host))
        slopes.append((other.speed - one.speed) / (other.price - one.price))
    assert all(a >= b - 1e-6 for a, b in pairwise(slopes))
    best = curve.at(PerGpu(NODE.cores, NODE.memory_gib))
    assert found.top.speed == pytest.approx(best), "the last rung is as fast as the node allows"


def test_a_dip_holds_nobody_back() -> None:
    curve = HostCurve.by_cores([(3, 1.0), (8, 1.0), (9, 3.0)])
    assert [rung.host.cores for rung in ladder(curve, FAIR, NODE).rungs] == [9.0]


def test_a_job_that_does_not_mind_needs_next_to_nothing() -> None:
    curve = HostCurve((1.0, 24.0), (20.0, 250.0), ((1.0, 1.0), (1.0, 1.0)))
    found = ladder(curve, FAIR, NODE)
    assert found.floor.host == (1.0, 20.0) and found.rungs == ()


def test_what_is_within_reach_is_the_fastest_and_then_the_least() -> None:
    curve = HostCurve((1.0, 3.0, 9.0), (60.0, 120.0), ((0.3, 0.3), (1.0, 1.0), (2.0, 2.5)))
    found = ladder(curve, FAIR, NODE)
    assert found.within(PerGpu(24.0, 500.0)).host == (9.0, 120.0)
    assert found.within(PerGpu(24.0, 100.0)).host == (9.0, 62.5)
    assert found.within(PerGpu(5.5, 62.5)).host == (5.0, 62.5)
    assert found.within(PerGpu(3.5, 62.5)) == found.floor
