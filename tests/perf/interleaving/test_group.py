"""Groups: published figures, members with short iterations, and what no forecast may say."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.interleaving.profiles import DQN, GPT2, VGG16
from weft.model.errors import SpecError
from weft.model.stages import StageProfile
from weft.perf.interleaving.group import DECIDING, LOCK_STEP, CycleModel, foretold

PUBLISHED = CycleModel(ratios=False, at_least_alone=False)


profiles = st.builds(
    StageProfile,
    iteration_seconds=st.floats(0.01, 5.0),
    storage_seconds=st.floats(0.0, 2.0),
    cpu_seconds=st.floats(0.0, 2.0),
    gpu_seconds=st.floats(0.0, 2.0),
    network_seconds=st.floats(0.0, 2.0),
)


def test_four_equal_jobs_have_the_published_utilisation() -> None:
    assert foretold([VGG16] * 4, PUBLISHED).utilisation == pytest.approx(0.68, abs=0.01)


def test_a_storage_bound_and_a_compute_bound_job_have_the_published_cycle() -> None:
    assert foretold([DQN, GPT2], PUBLISHED).cycle_seconds == pytest.approx(0.454, abs=0.001)


def test_published_overheads_are_relative_to_a_job_alone() -> None:
    plain, charged = foretold([DQN, GPT2], PUBLISHED), foretold([DQN, GPT2], LOCK_STEP)
    assert charged.cycle_seconds / plain.cycle_seconds == pytest.approx(1.33 / 1.015)
    assert foretold([DQN], LOCK_STEP).slowdowns == (1.0,)


def test_a_member_with_short_iterations_does_several_in_a_cycle() -> None:
    group = [VGG16, DQN]
    locked, ours = foretold(group, CycleModel(ratios=False)), foretold(group)
    assert ours.iterations == (4, 1)
    assert locked.slowdowns[0] > 3.0 > ours.slowdowns[0]
    assert ours.aggregate > locked.aggregate


def test_nobody_is_faster_in_company_than_alone() -> None:
    assert min(foretold([DQN, GPT2], PUBLISHED).slowdowns) < 1.0
    assert min(foretold([DQN, GPT2]).slowdowns) >= 1.0


@given(st.lists(profiles, min_size=1, max_size=4))
def test_a_forecast_keeps_within_what_can_be(members: list[StageProfile]) -> None:
    found = foretold(members, DECIDING)
    assert 1.0 - 1e-9 <= found.aggregate <= len(members) + 1e-9 or len(members) > 1
    assert found.aggregate <= len(members) + 1e-9
    assert all(slowdown >= 1.0 - 1e-9 for slowdown in found.slowdowns)
    assert found.cycle_seconds == pytest.approx(
        max(
            of.iteration_seconds * times * slowdown
            for of, times, slowdown in zip(members, found.iterations, found.slowdowns, strict=True)
        )
    )


@given(st.lists(profiles, min_size=2, max_size=4), st.floats(0.1, 10.0))
def test_only_ratios_of_times_matter(members: list[StageProfile], factor: float) -> None:
    scaled = [
        StageProfile(
            iteration_seconds=one.iteration_seconds * factor,
            storage_seconds=one.storage_seconds * factor,
            cpu_seconds=one.cpu_seconds * factor,
            gpu_seconds=one.gpu_seconds * factor,
            network_seconds=one.network_seconds * factor,
        )
        for one in members
    ]
    assert foretold(scaled, PUBLISHED).aggregate == pytest.approx(
        foretold(members, PUBLISHED).aggregate
    )


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf, 90_000.0])
def test_an_iteration_that_cannot_be_is_refused(seconds: float) -> None:
    with pytest.raises(SpecError, match="cannot be"):
        StageProfile(iteration_seconds=seconds)


@pytest.mark.parametrize("seconds", [-0.1, math.nan, math.inf])
def test_a_stage_that_cannot_be_is_refused(seconds: float) -> None:
    with pytest.raises(SpecError, match="cannot be"):
        StageProfile(iteration_seconds=1.0, gpu_seconds=seconds)
