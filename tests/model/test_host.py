"""Host curves: what a table of cores and memory says, between its points and beyond them."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_job
from weft.model.errors import SpecError
from weft.model.host import HostCurve, PerGpu

TABLE = HostCurve((1.0, 3.0, 6.0), (20.0, 60.0), ((0.1, 0.4), (0.1, 1.0), (0.1, 1.9)))


@st.composite
def curves(draw: st.DrawFn) -> HostCurve:
    """Tables that never fall."""
    cores = sorted(draw(st.sets(st.integers(1, 24), min_size=1, max_size=5)))
    memory = sorted(draw(st.sets(st.integers(1, 256), min_size=1, max_size=3)))
    rise = st.integers(0, 20)
    steps = draw(st.lists(rise, min_size=len(cores) * len(memory), max_size=200))
    speeds: list[tuple[float, ...]] = []
    for row in range(len(cores)):
        above = speeds[-1] if speeds else (0.0,) * len(memory)
        line: list[float] = []
        for column in range(len(memory)):
            left = line[-1] if line else 0.0
            line.append(max(left, above[column]) + steps[row * len(memory) + column] / 10)
        speeds.append(tuple(line))
    return HostCurve(tuple(map(float, cores)), tuple(map(float, memory)), tuple(speeds))


@pytest.mark.parametrize(
    ("cores", "memory", "speed"),
    [
        (3.0, 60.0, 1.0),
        (6.0, 20.0, 0.1),
        (2.0, 60.0, 0.7),
        (3.0, 40.0, 0.55),
        (4.5, 40.0, (0.1 + 1.45) / 2),
        (24.0, 500.0, 1.9),
        (6.0, inf, 1.9),
        (0.5, 60.0, 0.2),
        (0.0, 60.0, 0.0),
        (6.0, 10.0, 0.05),
    ],
)
def test_linear_between_points_flat_beyond_proportional_before(
    cores: float, memory: float, speed: float
) -> None:
    assert TABLE.at(PerGpu(cores, memory)) == pytest.approx(speed)


def test_a_curve_by_cores_alone_does_not_mind_memory() -> None:
    curve = HostCurve.by_cores([(1, 0.3), (3, 1.0)])
    assert curve.at(PerGpu(3.0, 0.0)) == curve.at(PerGpu(3.0)) == 1.0


@given(curves(), st.data())
def test_more_never_slows_down(curve: HostCurve, data: st.DataObject) -> None:
    amount, more = st.floats(0.0, 300.0), st.floats(0.0, 300.0)
    cores, memory = data.draw(amount), data.draw(amount)
    less = curve.at(PerGpu(cores, memory))
    assert less <= curve.at(PerGpu(cores + data.draw(more), memory + data.draw(more))) + 1e-9


@given(curves())
def test_the_points_are_what_was_measured(curve: HostCurve) -> None:
    for cores, row in zip(curve.cores, curve.speeds, strict=True):
        for memory, speed in zip(curve.memory_gib, row, strict=True):
            assert curve.at(PerGpu(cores, memory)) == pytest.approx(speed)


@pytest.mark.parametrize(
    ("cores", "memory", "speeds"),
    [
        ((), (1.0,), ()),
        ((2.0, 1.0), (1.0,), ((1.0,), (2.0,))),
        ((1.0, 2.0), (1.0,), ((1.0,),)),
        ((1.0,), (1.0, 2.0), ((1.0,),)),
        ((1.0, 2.0), (1.0,), ((2.0,), (1.0,))),
        ((1.0,), (1.0, 2.0), ((2.0, 1.0),)),
        ((1.0,), (inf,), ((1.0,),)),
        ((-1.0,), (1.0,), ((1.0,),)),
    ],
)
def test_a_table_that_is_none_is_refused(
    cores: tuple[float, ...], memory: tuple[float, ...], speeds: tuple[tuple[float, ...], ...]
) -> None:
    with pytest.raises(SpecError):
        HostCurve(cores, memory, speeds)


def test_a_job_with_a_host_curve_says_where_its_speed_is_one() -> None:
    with pytest.raises(SpecError, match="asks for no cores"):
        a_job(host=TABLE)
    assert a_job(host=TABLE, cpus_per_gpu=3.0).truth.host is TABLE
