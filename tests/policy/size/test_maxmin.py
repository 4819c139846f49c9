"""Elastic max-min: floors in rank order, then the tenant that has least."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import a_cluster, a_job, sized
from tests.builders import given as scene
from weft.model.job import Job
from weft.policy.recipes import maxmin
from weft.policy.size.maxmin import MaxMin


def widths(*jobs: Job, gpus: int, grain: int = 1) -> list[int]:
    """What waiting jobs would get, in the order in which they are given."""
    world = scene(a_cluster(nodes=1, gpus=gpus)).with_recipe(maxmin()).submit(*jobs)
    snapshot = world.brain.state.snapshot(0.0)
    found: list[int] = sized(MaxMin(grain), snapshot, np.arange(len(jobs))).tolist()
    return found


def ranged(name: str, low: int, high: int, tenant: str = "t") -> Job:
    return a_job(name, high, width=(low, high), tenant=tenant)


def test_floors_come_before_any_surplus() -> None:
    assert widths(ranged("a", 1, 8), ranged("b", 3, 8), gpus=4) == [1, 3]


def test_the_tenant_with_least_gets_the_next_piece() -> None:
    one, two = ranged("a", 1, 8, "x"), ranged("b", 1, 8, "x")
    assert widths(one, two, ranged("c", 1, 8, "y"), gpus=8) == [2, 2, 4]


def test_whoever_does_not_fit_gets_nothing_and_the_next_is_asked() -> None:
    assert widths(ranged("a", 4, 4), ranged("b", 2, 2), ranged("c", 1, 1), gpus=5) == [4, 0, 1]


@pytest.mark.parametrize(("grain", "expected"), [(1, [3, 2]), (2, [3, 1])])
def test_surplus_goes_in_pieces(grain: int, expected: list[int]) -> None:
    jobs = ranged("a", 1, 3, "x"), ranged("b", 1, 2, "y")
    assert widths(*jobs, gpus=5, grain=grain) == expected


@settings(max_examples=200, deadline=None)
@given(
    gpus=st.integers(0, 24),
    ranges=st.lists(
        st.tuples(st.integers(1, 6), st.integers(0, 6), st.sampled_from("xyz")), max_size=8
    ),
)
def test_nobody_could_get_more_without_taking_from_one_that_has_no_more(
    gpus: int, ranges: list[tuple[int, int, str]]
) -> None:
    jobs = [ranged(f"j{i}", low, low + more, who) for i, (low, more, who) in enumerate(ranges)]
    found = widths(*jobs, gpus=gpus)
    assert sum(found) <= gpus
    held = dict.fromkeys("xyz", 0)
    for job, width in zip(jobs, found, strict=True):
        held[job.tenant] += width
    for job, width in zip(jobs, found, strict=True):
        assert width == 0 or job.width.min_gpus <= width <= job.width.max_gpus
        if 0 < width < job.width.max_gpus:
            assert sum(found) == gpus, "something is left, and somebody could have it"
            for other, more in zip(jobs, found, strict=True):
                if more > other.width.min_gpus and other.tenant != job.tenant:
                    assert held[other.tenant] <= held[job.tenant] + 1
