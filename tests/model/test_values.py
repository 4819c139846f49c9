"""Jobs, widths, curves, plans and placements: what can be written, and what it means."""

import math
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.builders import a_job, a_request, seats
from weft.model.curve import Curve
from weft.model.errors import SpecError
from weft.model.ids import GpuType, JobId
from weft.model.job import Job
from weft.model.kind import kind_of
from weft.model.placement import Placement, Seat
from weft.model.plan import AS_WRITTEN, ExecutionPlan, Sharding
from weft.model.request import INDIFFERENT, Locality, Width, WorkUnit
from weft.model.truth import Work

# --- curve --------------------------------------------------------------------------------------

points = st.dictionaries(st.integers(1, 64), st.floats(0.1, 1e4), min_size=1, max_size=6).map(
    lambda found: tuple(sorted(found.items()))
)


@given(points)
def test_a_curve_goes_through_its_points(measured: tuple[tuple[int, float], ...]) -> None:
    curve = Curve(measured)
    assert [curve.at(width) for width, _ in measured] == [speed for _, speed in measured]


@given(points, st.integers(1, 100))
def test_between_points_a_curve_stays_between_them(
    measured: tuple[tuple[int, float], ...], width: int
) -> None:
    first, last = measured[0], measured[-1]
    speed = Curve(measured).at(width)
    if width >= last[0]:
        assert speed == last[1], "flat beyond the last point"
    elif width <= first[0]:
        assert speed == pytest.approx(first[1] * width / first[0]), "proportional before the first"
    else:
        left = max(point for point in measured if point[0] <= width)
        right = min(point for point in measured if point[0] >= width)
        low, high = sorted((left[1], right[1]))
        assert low - 1e-9 <= speed <= high + 1e-9


def test_a_curve_is_linear_in_between() -> None:
    curve = Curve(((2, 10.0), (4, 16.0)))
    assert [curve.at(width) for width in (1, 2, 3, 4, 5)] == [5.0, 10.0, 13.0, 16.0, 16.0]


@pytest.mark.parametrize("widths", [[], [2, 1], [1, 1], [0, 1]])
def test_a_curve_needs_rising_widths(widths: list[int]) -> None:
    with pytest.raises(SpecError, match="rising widths") as error:
        Curve(tuple((width, 1.0) for width in widths))
    assert error.value.hint


# --- width --------------------------------------------------------------------------------------


@given(st.integers(-3, 12), st.integers(-3, 12), st.integers(-3, 12))
def test_a_width_holds_what_was_asked(low: int, high: int, asked: int) -> None:
    if 0 <= low <= asked <= high:
        assert Width(low, high, asked).elastic == (low < high)
    else:
        with pytest.raises(SpecError):
            Width(low, high, asked)


def test_a_fixed_width_is_one_number() -> None:
    assert Width.fixed(4) == Width(4, 4, 4)
    assert not Width.fixed(4).elastic


# --- plan ---------------------------------------------------------------------------------------


@given(st.integers(0, 8), st.integers(1, 8), st.integers(1, 8), st.integers(1, 600))
def test_a_plan_fits_widths_that_divide_into_whole_replicas(
    data: int, tensor: int, pipeline: int, width: int
) -> None:
    plan = ExecutionPlan(data=data, tensor=tensor, pipeline=pipeline)
    replicas = [data] if data else range(1, width + 1)
    assert plan.fits_width(width) == any(n * tensor * pipeline == width for n in replicas)


def test_a_plan_as_written_fits_every_width() -> None:
    assert all(AS_WRITTEN.fits_width(width) for width in range(1, 20))
    assert AS_WRITTEN.gpus_per_replica == 1
    assert AS_WRITTEN.sharding is Sharding.NONE


# --- locality -----------------------------------------------------------------------------------


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 64), st.integers(1, 64), st.integers(1, 16))
def test_being_spread_never_helps(
    per_node: float, per_rack: float, nodes: int, fewest: int, racks: int
) -> None:
    locality = Locality(per_node, per_rack)
    slowdown = locality.slowdown(nodes=nodes, fewest_nodes=fewest, racks=racks)
    assert slowdown >= 1.0
    assert locality.slowdown(nodes=nodes + 1, fewest_nodes=fewest, racks=racks) >= slowdown
    assert locality.slowdown(nodes=nodes, fewest_nodes=fewest, racks=racks + 1) >= slowdown
    assert INDIFFERENT.slowdown(nodes=nodes, fewest_nodes=fewest, racks=racks) == 1.0


def test_the_costs_of_the_study_are_the_default() -> None:
    two, eight = (Locality().slowdown(nodes=n, fewest_nodes=1) for n in (2, 8))
    assert [two, eight] == pytest.approx([1.15, 1.45])
    assert Locality().slowdown(nodes=2, fewest_nodes=2, racks=2) == pytest.approx(1.10)


# --- job ----------------------------------------------------------------------------------------


def test_a_job_that_asks_for_nothing_is_refused() -> None:
    with pytest.raises(SpecError, match="asks for nothing"):
        a_job("empty", 0)
    assert a_job("cpu", 0, cpus=1.0).width.max_gpus == 0


@pytest.mark.parametrize("amount", [-1.0, math.inf, math.nan])
def test_work_is_a_finite_amount(amount: float) -> None:
    with pytest.raises(SpecError, match="has work of"):
        a_job("odd", seconds=amount)


def test_samples_need_a_curve() -> None:
    with pytest.raises(SpecError, match="no curve"):
        a_job("odd", work=Work(10.0, WorkUnit.SAMPLES))


def test_seconds_scale_with_the_width_or_along_the_curve() -> None:
    plain = a_job("plain", 4, width=(1, 8))
    assert [plain.truth.units_per_second(w) for w in (2, 4, 8)] == [0.5, 1.0, 2.0]
    assert [plain.request.units_per_second(w) for w in (2, 4, 8)] == [0.5, 1.0, 2.0]
    curved = a_job("curved", 4, width=(1, 8), curve=Curve(((4, 100.0), (8, 150.0))))
    assert [curved.truth.units_per_second(w) for w in (2, 4, 8)] == [0.5, 1.0, 1.5]
    assert [curved.request.units_per_second(w) for w in (2, 4, 8)] == [0.5, 1.0, 1.5]


def test_samples_are_read_off_the_curve() -> None:
    job = a_job("samples", 4, work=Work(1e4, WorkUnit.SAMPLES), curve=Curve(((4, 100.0),)))
    assert job.truth.units_per_second(4) == job.request.units_per_second(4) == 100.0
    assert math.isnan(replace(job.request, curve=None).units_per_second(4)), "nobody has said"


def test_only_accepted_types_make_progress() -> None:
    picky = a_job("picky", types=[("v100", 1.0), ("h100", 3.0)])
    assert [picky.request.type_speed(GpuType(t)) for t in ("v100", "h100", "tpu")] == [
        1.0,
        3.0,
        0.0,
    ]
    assert a_job("easy").request.type_speed(GpuType("tpu")) == 1.0


def test_values_do_not_change() -> None:
    job = a_job()
    with pytest.raises(FrozenInstanceError):
        job.request.priority = 3  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        job.truth.work = Work(1.0)  # type: ignore[misc]


# --- kind ---------------------------------------------------------------------------------------

job_fields = st.fixed_dictionaries(
    {
        "gpus": st.integers(1, 3),
        "queue": st.sampled_from("ab"),
        "cpus_per_gpu": st.sampled_from([0.0, 2.0]),
        "max_nodes": st.sampled_from([None, 1]),
        "preemptible": st.booleans(),
        "types": st.sampled_from([(), (("h100", 1.0),)]),
    }
)


@given(job_fields, job_fields)
def test_jobs_are_of_one_kind_exactly_if_they_ask_for_the_same(
    one: dict[str, object], other: dict[str, object]
) -> None:
    first, second = (
        kind_of(a_request(name, seconds=amount, priority=3, tenant=name, **fields))  # type: ignore[arg-type]
        for name, amount, fields in (("x", 1.0, one), ("y", 2.0, other))
    )
    assert (first == second) == (one == other)
    if one == other:
        assert hash(first) == hash(second)


def test_a_kind_knows_whether_the_host_matters() -> None:
    assert not kind_of(a_request()).counts_host
    assert kind_of(a_request(cpus_per_gpu=1.0)).counts_host
    assert kind_of(a_request(memory_gib_per_gpu=1.0)).counts_host


# --- placement ----------------------------------------------------------------------------------


def test_a_placement_adds_up_and_names_each_node_once() -> None:
    placement = Placement((*seats(b=2, a=4).seats, *seats(b=1).seats))
    assert placement.width == 7
    assert placement.nodes == ("b", "a")
    assert isinstance(placement.seats[0], Seat)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_no_job_has_unusable_work(amount: float) -> None:
    assume(not (math.isfinite(amount) and amount >= 0))
    with pytest.raises(SpecError):
        Job.told(id=JobId("x"), width=Width.fixed(1), work=Work(amount))
