"""Choices of groups: what every one of them promises, and what the better one finds."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.perf.interleaving.profiles import A2C, BERT, DQN, GPT2, VGG16, measured
from tests.policy.share.jobs import PUBLISHED, alike, candidates
from weft.model.errors import InvariantBreach
from weft.model.stages import StageProfile
from weft.perf.interleaving.group import foretold
from weft.policy.share.blossom import Blossom
from weft.policy.share.candidates import Candidates
from weft.policy.share.grouping import Choice, Group, Grouping, demand_valid, everybody_alone
from weft.policy.share.guards import Guard, Limits
from weft.policy.share.types import ByTypes

CHOICES = (Blossom(), ByTypes(), ByTypes(most_columns=0))
LIMITS = Limits(gpu_memory_gib=40.0, cores_per_gpu=12.0, host_gib_per_gpu=64.0)


@pytest.mark.parametrize("choice", CHOICES)
@given(jobs=candidates(), free=st.integers(0, 40))
@settings(max_examples=40, deadline=None)
def test_every_choice_keeps_every_guard(choice: Choice, jobs: Candidates, free: int) -> None:
    found = choice(jobs, free, LIMITS)
    demand_valid(jobs, found, free)
    for group in found.shared:
        rows = list(group.members)
        memory = [jobs.profiles[row].gpu_memory_bytes for row in jobs.profile[rows]]
        assert None not in memory
        assert sum(one / 2**30 + 0.5 for one in memory if one is not None) <= 40.0 * 0.97
        assert not jobs.alone[rows].any()
        assert len(set(jobs.tenant[rows].tolist())) == 1 or jobs.open[rows].all()
        assert jobs.cores[rows].sum() <= 12.0 and jobs.host_gib[rows].sum() <= 64.0
        slowdowns = np.array(group.forecast.slowdowns)
        assert (slowdowns <= jobs.cap[rows] + 1e-9).all()
        assert group.forecast.aggregate >= LIMITS.least_gain
        assert len(group) <= LIMITS.most_members


@pytest.mark.parametrize("choice", CHOICES)
@given(jobs=candidates())
@settings(max_examples=20, deadline=None)
def test_nobody_shares_while_there_is_room_for_all(choice: Choice, jobs: Candidates) -> None:
    found = choice(jobs, jobs.demand_gpus, LIMITS)
    assert not found.shared
    assert len(found.groups) == len(jobs)


@given(jobs=candidates(), free=st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_groups_by_types_do_at_least_what_matching_does(jobs: Candidates, free: int) -> None:
    matched, ours = Blossom()(jobs, free, LIMITS), ByTypes()(jobs, free, LIMITS)
    assert ours.aggregate(jobs) >= matched.aggregate(jobs) * 0.999 - 1e-9


def partitions(rows: list[int], seats: int) -> Iterator[list[tuple[int, ...]]]:
    """Every way to seat some of these rows in groups of up to four."""
    yield []
    if not rows or not seats:
        return
    first, rest = rows[0], rows[1:]
    yield from partitions(rest, seats)
    for size in range(4):
        for others in combinations(rest, size):
            left = [row for row in rest if row not in others]
            for more in partitions(left, seats - 1):
                yield [(first, *others), *more]


@given(st.lists(st.sampled_from(PUBLISHED), min_size=1, max_size=6), st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_groups_by_types_are_the_best_there_are(profiles: list[StageProfile], free: int) -> None:
    jobs, limits = alike(profiles), Limits()
    if len(profiles) <= free:
        return
    known: dict[tuple[int, ...], float] = {}

    def worth(members: tuple[int, ...]) -> float:
        if members not in known:
            found = foretold([profiles[row] for row in members])
            fits = len(members) == 1 or (found.worst_slowdown <= 6.0 and found.aggregate >= 1.02)
            known[members] = found.aggregate if fits else -1.0
        return known[members]

    best = max(
        sum(map(worth, one))
        for one in partitions(list(range(len(profiles))), free)
        if all(worth(group) > 0 for group in one)
    )
    assert ByTypes()(jobs, free, limits).aggregate(jobs) == pytest.approx(best, rel=1e-3)


def test_jobs_that_fit_each_other_share() -> None:
    found = ByTypes()(alike([DQN, GPT2]), 1, Limits())
    assert [group.members for group in found.groups] == [(0, 1)]
    assert found.groups[0].forecast.aggregate > 1.8


def test_jobs_that_stress_the_same_do_not() -> None:
    compute = measured(400, 0, 400)
    found = ByTypes()(alike([compute, compute, measured(200, 0, 200)]), 1, Limits())
    assert not found.shared
    assert len(found.groups) == 1


def test_as_published_even_those_are_put_together() -> None:
    assert Blossom(published=True)(alike([GPT2, GPT2]), 1, Limits()).shared


def test_a_cap_keeps_short_iterations_from_long_ones() -> None:
    jobs = alike([VGG16, DQN, A2C], cap=1.3)
    assert {one.guard for one in ByTypes()(jobs, 1, Limits()).refused} == {Guard.SLOWDOWN}


def test_the_pairs_that_were_kept_apart_name_their_guard() -> None:
    found = Blossom()(alike([GPT2, BERT]), 1, Limits(gpu_memory_gib=16.0))
    assert [(one.members, one.guard) for one in found.refused] == [((0, 1), Guard.MEMORY_UNKNOWN)]


def test_weights_say_who_matters() -> None:
    jobs = alike([GPT2, BERT])
    heavier = replace(jobs, weight=np.array([1.0, 5.0]))
    assert ByTypes()(heavier, 1, Limits()).groups[0].members == (1,)


def test_profiles_that_hardly_differ_count_as_one_type() -> None:
    near = [measured(490 + k / 10, 446, 8) for k in range(30)]
    jobs = alike([*near, *[measured(426, 0.6 + k / 10, 410) for k in range(30)]])
    assert len(jobs.types) == 60
    assert len(jobs.coarser().types) < 10
    found = ByTypes(most_columns=1_000)(jobs, 30, Limits())
    assert found.matcher == "types"
    assert sum(map(len, found.groups)) == 60


def test_a_matcher_that_puts_a_job_into_two_groups_is_found_out() -> None:
    jobs = alike([DQN, GPT2])
    group = Group((0, 1), foretold([DQN, GPT2]))
    with pytest.raises(InvariantBreach, match="two groups"):
        demand_valid(jobs, Grouping((group, group), "a broken one"), 8)
    with pytest.raises(InvariantBreach, match="more GPUs"):
        demand_valid(jobs, Grouping((group,), "a broken one"), 0)


def test_nobody_is_in_a_group_of_no_candidates() -> None:
    nobody = Candidates.of([], [], PUBLISHED)
    for choice in (*CHOICES, everybody_alone):
        assert choice(nobody, 8, Limits()).groups == ()
