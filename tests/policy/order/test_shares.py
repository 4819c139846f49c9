"""Least attained dominant share first."""

import numpy as np
import pytest

from tests.builders import a_snapshot
from weft.policy.order.shares import LeastShare

NOW = 1000.0


def order(*rows: dict[str, float], hold: float = 0.0) -> list[int]:
    snapshot = a_snapshot(*rows, now=NOW)
    slots = np.arange(len(rows))
    found: list[int] = LeastShare(hold)(snapshot, slots).sorted(snapshot, slots).tolist()
    return found


def test_whoever_has_had_least_goes_first_up_to_now() -> None:
    had = {"attained_share_seconds": 50.0}
    growing = {"attained_share_seconds": 10.0, "share_rate": 2.0, "mark": NOW - 30.0}
    assert order(had, growing, {}) == [2, 0, 1]


def test_those_who_run_are_held_for_a_while() -> None:
    runs = {"attained_share_seconds": 100.0, "share_rate": 4.0, "mark": NOW}
    waits = {"attained_share_seconds": 90.0}
    assert order(runs, waits) == [1, 0]
    assert order(runs, waits, hold=10.0) == [0, 1]


def test_a_round_is_asked_for_when_the_turn_changes() -> None:
    runs = {"attained_share_seconds": 10.0, "share_rate": 2.0, "mark": NOW}
    slower = {"attained_share_seconds": 10.0, "share_rate": 0.5, "mark": NOW}
    waits = {"attained_share_seconds": 50.0}
    snapshot = a_snapshot(runs, slower, waits, now=NOW)
    assert LeastShare(0.0)(snapshot, np.arange(3)).wake == pytest.approx(NOW + 20.0, abs=2.0)
    assert LeastShare(0.0)(snapshot, np.arange(2)).wake is None
    assert LeastShare(0.0)(snapshot, np.array([2])).wake is None
