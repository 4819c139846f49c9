"""What is written into a cell reads back as itself, and what is not understood says so."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.model.curve import Curve
from weft.model.ids import GpuType
from weft.model.plan import ExecutionPlan, Sharding
from weft.model.request import GpuSpeed, Width
from weft.model.stages import StageProfile
from weft.trace import cells

speeds = st.floats(min_value=1e-6, max_value=1e6)
plans = st.builds(
    ExecutionPlan,
    data=st.integers(0, 64),
    tensor=st.integers(1, 8),
    pipeline=st.integers(1, 8),
    sharding=st.sampled_from(Sharding),
    accumulation_steps=st.integers(1, 16),
    recompute=st.booleans(),
    offload=st.booleans(),
    micro_batches=st.integers(1, 16),
    shard_degree=st.integers(0, 8),
    context=st.integers(1, 4),
    expert=st.integers(1, 4),
)


@given(st.integers(0, 512), st.integers(0, 512))
def test_widths(least: int, more: int) -> None:
    width = Width(least, least + more, least + more)
    assert cells.read_width(cells.write_width(width)) == width


@given(st.lists(st.tuples(st.sampled_from(["V100", "A100:80G"]), speeds), min_size=1, max_size=3))
def test_gpu_types(pairs: list[tuple[str, float]]) -> None:
    types = tuple(GpuSpeed(GpuType(name), speed) for name, speed in pairs)
    assert cells.read_gpu_types(cells.write_gpu_types(types)) == types


@given(st.dictionaries(st.integers(1, 1024), speeds, min_size=1, max_size=6))
def test_curves(points: dict[int, float]) -> None:
    curve = Curve(tuple(sorted(points.items())))
    assert cells.read_curve(cells.write_curve(curve)) == curve


seconds = st.floats(0.0, 1.5, allow_nan=False)


@given(
    st.lists(seconds, min_size=5, max_size=5).filter(lambda stages: sum(stages) > 0),
    st.none() | st.integers(0, 2**37),
)
def test_stages(stages: list[float], memory: int | None) -> None:
    storage, cpu, gpu, network, loading = stages
    profile = StageProfile(
        iteration_seconds=1.5,
        storage_seconds=storage,
        cpu_seconds=cpu,
        gpu_seconds=gpu,
        network_seconds=network,
        loading_seconds=loading,
        gpu_memory_bytes=memory,
    )
    assert cells.read_stages(cells.write_stages(profile)) == profile


@given(st.lists(plans, min_size=1, max_size=3).map(tuple))
def test_plans(chosen: tuple[ExecutionPlan, ...]) -> None:
    assert cells.read_plans(cells.write_plans(chosen)) == chosen


def test_loading_for_two_resources_may_be_longer_than_the_iteration() -> None:
    assert cells.read_stages("iteration:0.107|loading:0.117|gpu:0.068").loading_seconds == 0.117


def test_a_gpu_type_alone_has_speed_one() -> None:
    assert cells.read_gpu_types("V100|A100:1.8") == (
        GpuSpeed(GpuType("V100")),
        GpuSpeed(GpuType("A100"), 1.8),
    )


@pytest.mark.parametrize(("cell", "flag"), [("true", True), ("No", False), ("1", True)])
def test_flags(cell: str, flag: bool) -> None:
    assert cells.read_flag(cell) is flag


@pytest.mark.parametrize(
    ("read", "cell", "problem"),
    [
        (cells.read_flag, "maybe", "neither true nor false"),
        (cells.read_width, "2..", "not a number of GPUs"),
        (cells.read_width, "1.5", "part of a GPU"),
        (cells.read_width, "1e20", "is more than 100,000 GPUs"),
        (cells.read_width, "1..99999999999999999999", "is more than 100,000 GPUs"),
        (cells.read_gpu_types, "V100:1e300", "'1e300' is not a speed from 1e-09 to 1e\\+12"),
        (cells.read_gpu_types, "V100:1e-300", "'1e-300' is not a speed from"),
        (cells.read_curve, "1:1|1e20:2", "is more than 100,000 GPUs"),
        (cells.read_stages, "iteration:1|gpu:1|memory:1e300", "more than 100,000 GiB"),
        (cells.read_gpu_types, "V100:fast", "'fast' is not a speed"),
        (cells.read_gpu_types, "V100:0", "'0' is not a speed above 0"),
        (cells.read_gpu_types, "V100|", "names no GPU type"),
        (cells.read_curve, "1:x", "'x' is not a speed"),
        (cells.read_stages, "gpu:0.5", "how long an iteration takes"),
        (cells.read_stages, "iteration:1|disk:2", "'disk' is no stage"),
        (cells.read_stages, "iteration:1|gpu:-2", "not a number of 0 or more"),
        (cells.read_stages, "iteration:1e9", "cannot be"),
        (cells.read_stages, "iteration:9|storage:5|storage:7", "'storage' is given twice"),
        (cells.read_stages, "iteration:1|gpu:9", "'gpu' is longer than the iteration of 1 s"),
        (cells.read_stages, "iteration:1|storage:0|gpu:0", "no stage that takes time"),
        (cells.read_stages, "iteration:1|memory:8", "no stage that takes time"),
        (cells.read_curve, "4:1|2:1", "rising widths"),
        (cells.read_plans, "data=x", "no plan word 'data=x'"),
        (cells.read_plans, "data=0", "'data=0', which is not from 1"),
        (cells.read_plans, "tensor=2|shard_degree=0", "'shard_degree=0', which is not from 1"),
        (cells.read_plans, "data=99999999999999999999", "is not from 1 to 100,000"),
        (cells.read_plans, "zero", "no plan word 'zero'"),
        (cells.read_plans, "sharding=all", "no plan word 'sharding=all'"),
    ],
)
def test_a_cell_that_is_not_understood(
    read: Callable[[str], object], cell: str, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        read(cell)


@pytest.mark.parametrize(
    ("value", "cell"),
    [(None, ""), (True, "true"), (3.0, "3"), (0.1, "0.1"), (1e22, str(10**22)), ("a", "a")],
)
def test_plain_values(value: object, cell: str) -> None:
    assert cells.write_cell(value) == cell
