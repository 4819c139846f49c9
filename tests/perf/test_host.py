"""What cores make of a speed: the factor under a placement, and the fit to a few points."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.elastic.synergy_jobs import curves
from weft.model.host import HostCurve, PerGpu
from weft.model.ids import NodeId
from weft.model.placement import Seat
from weft.perf.host import fit_cores, host_factor

CURVE = HostCurve((1.0, 3.0, 6.0), (20.0, 60.0), ((0.1, 0.4), (0.1, 1.0), (0.1, 1.9)))


def seat(gpus: int, cpus: float, memory_gib: float = 0.0) -> Seat:
    return Seat(NodeId("n0"), gpus, cpus, memory_gib)


def test_a_job_is_as_fast_as_its_worker_that_is_worst_off() -> None:
    assert host_factor(CURVE, [seat(2, 12.0), seat(1, 3.0)]) == 1.0


def test_memory_of_nothing_is_not_counted() -> None:
    assert host_factor(CURVE, [seat(1, 6.0)]) == 1.9
    assert host_factor(CURVE, [seat(1, 6.0, 20.0)]) == pytest.approx(0.1)


def test_what_is_fed_comes_on_top_for_every_gpu() -> None:
    assert host_factor(CURVE, [seat(2, 2.0, 40.0)], PerGpu(2.0, 40.0)) == pytest.approx(1.0)


def test_without_a_curve_or_without_anything_said_cores_do_not_matter() -> None:
    assert host_factor(None, [seat(1, 0.5)]) == 1.0
    assert host_factor(CURVE, [seat(1, 0.0)]) == 1.0


@given(
    slope=st.floats(0.05, 2.0),
    knee=st.floats(1.5, 20.0),
    rising=st.lists(st.floats(0.05, 0.95), min_size=1, max_size=3, unique=True),
    level=st.lists(st.floats(1.3, 3.0), min_size=1, max_size=2, unique=True),
)
def test_points_on_both_parts_of_a_bent_line_give_that_line(
    slope: float, knee: float, rising: list[float], level: list[float]
) -> None:
    points = [(part * knee, slope * knee * min(part, 1.0)) for part in (*rising, *level)]
    fit = fit_cores(points)
    assert fit.slope == pytest.approx(slope) and fit.top == pytest.approx(slope * knee)
    assert fit.error == pytest.approx(0.0, abs=1e-9)
    assert fit.curve().at(PerGpu(knee / 2)) == pytest.approx(slope * knee / 2)


@given(st.lists(st.tuples(st.floats(0.5, 24.0), st.floats(0.1, 10.0)), min_size=1, max_size=4))
def test_an_interval_holds_what_is_likely_and_widens_away_from_the_points(
    points: list[tuple[float, float]],
) -> None:
    fit = fit_cores(points)
    widths = []
    for cores in (fit.most_cores, 2 * fit.most_cores, 4 * fit.most_cores):
        likely, low, high = fit.at(cores)
        assert 0 < low <= likely <= high
        widths.append(likely / low)
    assert widths == sorted(widths)


def test_one_point_claims_nothing_beyond_itself_but_leaves_room_for_it() -> None:
    fit = fit_cores([(3.0, 1.0)])
    likely, _, high = fit.at(6.0)
    assert likely == 1.0 and high >= 2.0
    likely, _, high = fit.at(1.0)
    assert likely == pytest.approx(1 / 3) and high >= 1.0


def test_three_points_of_synergys_tables_foretell_the_others(traces: Path) -> None:
    errors, covered = [], []
    for curve in curves(traces).values():
        table = [(cores, row[-1]) for cores, row in zip(curve.cores, curve.speeds, strict=True)]
        for some in combinations(table, 3):
            fit = fit_cores(some)
            for cores, speed in table:
                if (cores, speed) not in some:
                    likely, low, high = fit.at(cores)
                    errors.append(abs(likely - speed) / speed)
                    covered.append(low <= speed <= high)
    assert np.median(errors) < 0.05
    assert np.mean(covered) > 0.75
