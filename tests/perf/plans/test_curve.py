"""Curves over plans: what is of use, cliffs and the line above them, and sensitivities."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.plans.shapes import BERT, LLAMA7, LLAMA30
from weft.model.capability import Capability
from weft.model.ids import JobId
from weft.model.plan import AS_WRITTEN
from weft.model.shape import ModelShape
from weft.perf.plans.curve import Allocation, Configuration, PlanCurve, best_plans, plan_curve
from weft.perf.plans.envelope import envelope, shared_out, steps
from weft.perf.plans.fabric import GIB, Fabric
from weft.perf.plans.fit import unmeasured
from weft.perf.plans.laws import Bounds, breaches
from weft.perf.plans.sensitivity import Question, Resource, sensitivity
from weft.perf.plans.step import Work

WIDTHS = tuple(range(1, 33))
FABRIC = Fabric()


def question(shape: ModelShape, batch: int, fabric: Fabric = FABRIC) -> Question:
    model = unmeasured(Work(shape=shape, batch=batch), fabric)
    return Question(model, Bounds(shape=shape, batch=batch), WIDTHS)


def point(gpus: int, speed: float, cores: float = 1.0) -> Configuration:
    return Configuration(Allocation(gpus, cores), AS_WRITTEN, 1.0 / speed, 1.0 / speed)


def curve(*points: tuple[int, float]) -> PlanCurve:
    return PlanCurve.of(point(gpus, speed) for gpus, speed in points)


def test_best_plans_are_legal_and_fit() -> None:
    asked = question(LLAMA7, 64)
    found = best_plans(asked.model, asked.bounds, WIDTHS)
    assert {one.allocation.gpus for one in found} >= {1, 2, 4, 8, 16, 32}
    for one in found:
        assert breaches(one.plan, one.allocation.gpus, asked.bounds) == ()
        assert one.gpu_bytes <= FABRIC.gpu_memory_bytes
        assert one.slow_seconds > one.seconds


def test_what_does_not_fit_anywhere_has_no_curve() -> None:
    tiny = Fabric(gpu_memory_bytes=2 * GIB, host_memory_bytes=2 * GIB)
    asked = question(LLAMA30, 64, tiny)
    assert asked.curve() == PlanCurve(())
    assert asked.curve().at(32) is None
    assert envelope(asked.curve()) == ()


def test_a_smaller_allocation_that_does_the_same_takes_the_place() -> None:
    found = curve((1, 1.0), (2, 1.005), (3, 0.9), (4, 2.0))
    assert [one.allocation.gpus for one in found.points] == [1, 4]


def test_cores_that_do_nothing_are_not_taken() -> None:
    found = PlanCurve.of([point(1, 1.0, 2), point(1, 1.0, 4), point(1, 1.4, 8)])
    assert [one.allocation.cores for one in found.points] == [2, 8]
    assert found.at(1, cores=4) == point(1, 1.0, 2)


def test_cores_are_of_use_to_offload() -> None:
    bounds = Bounds(
        shape=LLAMA7,
        batch=16,
        offers=frozenset({Capability.ACCUMULATION, Capability.OFFLOAD, Capability.RECOMPUTE}),
    )
    found = plan_curve(question(LLAMA7, 16).model, bounds, (1,), cores=(2, 4))
    assert [one.allocation.cores for one in found.points] == [2, 4]
    assert all(one.plan.offload for one in found.points)


def test_a_cliff_is_one_step_of_the_envelope() -> None:
    cliff = curve((1, 0.1), (2, 0.2), (8, 0.6), (16, 5.0), (32, 6.0))
    assert [one.allocation.gpus for one in envelope(cliff)] == [16, 32]
    first, second = steps(envelope(cliff), request_speed=0.6)
    assert (first.gpus, second.gpus) == (16, 16)
    assert first.gain_per_gpu == pytest.approx(5.0 / 16 / 0.6)


SPEEDS = st.dictionaries(st.integers(1, 64), st.floats(0.01, 100.0), min_size=1, max_size=12)


@given(SPEEDS)
def test_the_envelope_is_concave_and_nowhere_below(speeds: dict[int, float]) -> None:
    found = curve(*speeds.items())
    gains = [step.gain_per_gpu for step in steps(envelope(found), 1.0)]
    assert all(before > after > 0 for before, after in pairwise([*gains, 1e-12]))
    vertices = [(0, 0.0)] + [(one.allocation.gpus, one.speed) for one in envelope(found)]
    for one in found.points:
        gpus = one.allocation.gpus
        left = max(v for v in vertices if v[0] <= gpus)
        right = min((v for v in vertices if v[0] >= gpus), default=left)
        share = (gpus - left[0]) / (right[0] - left[0]) if right != left else 0.0
        assert one.speed <= (left[1] + share * (right[1] - left[1])) * (1 + 1e-9)


@given(st.lists(SPEEDS, min_size=1, max_size=4), st.integers(0, 64))
def test_no_more_is_shared_out_than_there_is(jobs: list[dict[int, float]], gpus: int) -> None:
    curves = {JobId(str(n)): curve(*one.items()) for n, one in enumerate(jobs)}
    given_out = shared_out(curves, dict.fromkeys(curves, 1.0), gpus)
    assert sum(one.allocation.gpus for one in given_out.values()) <= gpus


def test_more_gpus_are_looked_for_behind_the_cliff() -> None:
    small = Fabric(gpu_memory_bytes=24 * GIB, host_memory_bytes=16 * GIB)
    asked = question(LLAMA7, 16, small)
    fewest = asked.curve().points[0].allocation.gpus
    assert fewest > 2
    found = sensitivity(Resource.GPUS, Allocation(1, 4.0), asked)
    assert found.after >= fewest
    assert found.elasticity == math.inf
    assert found.per_unit(1.0) > 0.0


def test_one_form_tells_what_a_job_needs() -> None:
    offloads = question(LLAMA7, 16)
    alone = Allocation(1, 2.0)
    assert sensitivity(Resource.CORES, alone, offloads).elasticity > 0.1
    assert sensitivity(Resource.BANDWIDTH, alone, offloads).elasticity == 0.0
    spread = sensitivity(Resource.BANDWIDTH, Allocation(16, 2.0), offloads)
    assert spread.elasticity > 0.05
    in_memory = sensitivity(Resource.CORES, Allocation(8, 2.0), question(BERT, 64))
    assert in_memory.elasticity == 0.0


def test_memory_helps_where_it_spares_offload() -> None:
    tight = question(LLAMA7, 16, Fabric(gpu_memory_bytes=110 * GIB))
    found = sensitivity(Resource.MEMORY, Allocation(1, 4.0), tight)
    assert found.speed_after > 1.05 * found.speed_before
    assert found.elasticity > 0.3


def test_enough_is_enough() -> None:
    asked = question(BERT, 8)
    most = asked.curve().points[-1].allocation
    found = sensitivity(Resource.GPUS, Allocation(most.gpus, 1.0), asked)
    assert found.elasticity == 0.0
    assert found.per_unit(1.0) == 0.0
