"""The parts of a step make it up exactly, whoever computes them and however small they are cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.model.errors import InvariantBreach, SpecError
from weft.train.data.split import Share, fixed_shares, shares

steps = st.integers(0, 2**40)
batches = st.integers(1, 700)
crowds = st.integers(1, 40)
micros = st.none() | st.integers(1, 100)
logicals = st.integers(0, 5).map(lambda power: 2**power)


def dealt(
    step: int, batch: int, workers: int, micro: int | None = None, logical: int | None = None
) -> list[tuple[Share, ...]]:
    """What each rank gets."""
    return [shares(step, batch, workers, rank, micro, logical) for rank in range(workers)]


def makes_up(step: int, batch: int, parts: list[tuple[Share, ...]]) -> bool:
    """Whether all parts together are the step, in order, without gap or overlap."""
    flat = [share for part in parts for share in part]
    meet = all(before.stop == after.start for before, after in pairwise(flat))
    return meet and (flat[0].start, flat[-1].stop) == (step * batch, (step + 1) * batch)


@given(steps, batches, crowds, micros)
def test_all_ranks_together_compute_the_step_exactly_once(
    step: int, batch: int, workers: int, micro: int | None
) -> None:
    parts = dealt(step, batch, workers, micro)
    assert makes_up(step, batch, parts)
    sizes = [sum(share.samples for share in part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@given(steps, batches, crowds, st.integers(1, 100))
def test_fixed_micro_batches_are_the_same_at_every_width(
    step: int, batch: int, workers: int, micro: int
) -> None:
    parts = [fixed_shares(step, batch, workers, rank, micro) for rank in range(workers)]
    assert makes_up(step, batch, parts)
    flat = [(share.start, share.stop) for part in parts for share in part]
    assert flat == [(s.start, s.stop) for s in fixed_shares(step, batch, 1, 0, micro)]
    sizes = [stop - start for start, stop in flat]
    assert set(sizes[:-1]) <= {micro}
    assert 0 < sizes[-1] <= micro
    assert max(map(len, parts)) == max(map(len, dealt(step, batch, workers, micro)))
    for part in parts:
        assert [share.last for share in part] == [False] * (len(part) - 1) + [True] * bool(part)


@given(steps, batches, st.integers(1, 10), st.integers(1, 100), st.integers(2, 4))
def test_fixed_micro_batches_are_equally_many_for_those_who_hold_a_model_together(
    step: int, batch: int, replicas: int, micro: int, together: int
) -> None:
    workers = replicas * together
    parts = [fixed_shares(step, batch, workers, rank, micro, together) for rank in range(workers)]
    assert makes_up(step, batch, [tuple(s for s in part if s.samples) for part in parts])
    for first in range(0, workers, together):
        assert len({len(part) for part in parts[first : first + together]}) == 1


@given(steps, batches, crowds, micros)
def test_micro_batches_are_as_few_and_as_equal_as_they_can_be(
    step: int, batch: int, workers: int, micro: int | None
) -> None:
    for part in dealt(step, batch, workers, micro):
        sizes = [share.samples for share in part]
        assert all(0 < size <= (micro or batch) for size in sizes)
        assert not part or max(sizes) - min(sizes) <= 1
        assert len(part) == -(-sum(sizes) // (micro or batch))


@given(steps, batches, crowds, micros, st.none() | logicals)
def test_exactly_the_last_micro_batch_of_a_rank_is_marked(
    step: int, batch: int, workers: int, micro: int | None, logical: int | None
) -> None:
    scale = logical or 1
    for part in dealt(step, batch * scale, workers, None if logical else micro, logical):
        assert [share.last for share in part] == [False] * (len(part) - 1) + [True] * bool(part)


@given(steps, st.integers(1, 50), crowds, logicals)
def test_logical_workers_compute_the_step_exactly_once(
    step: int, each: int, workers: int, logical: int
) -> None:
    parts = dealt(step, each * logical, workers, None, logical)
    assert makes_up(step, each * logical, parts)
    counts = [len(part) for part in parts]
    assert max(counts) - min(counts) <= 1
    assert not any(counts[logical:]), "ranks beyond the logical workers have nothing to do"


@given(steps, st.integers(1, 50), crowds, logicals)
def test_the_pieces_of_logical_workers_do_not_depend_on_the_workers(
    step: int, each: int, workers: int, logical: int
) -> None:
    batch = each * logical
    parts = dealt(step, batch, workers, each, logical)
    pieces = [(share.start, share.stop) for part in parts for share in part]
    assert pieces == [(at, at + each) for at in range(step * batch, (step + 1) * batch, each)]


def test_uneven_parts_go_to_the_first_ranks() -> None:
    assert dealt(2, 8, 3) == [
        (Share(16, 19, last=True),),
        (Share(19, 22, last=True),),
        (Share(22, 24, last=True),),
    ]


def test_a_part_is_cut_into_micro_batches() -> None:
    assert shares(0, 20, 2, 1, micro=4) == (
        Share(10, 14, last=False),
        Share(14, 17, last=False),
        Share(17, 20, last=True),
    )


def test_more_workers_than_samples_leave_some_without_work() -> None:
    assert [len(part) for part in dealt(0, 2, 4)] == [1, 1, 0, 0]


@pytest.mark.parametrize("logical", [0, -2, 3, 6, 12])
def test_logical_workers_are_a_power_of_two(logical: int) -> None:
    with pytest.raises(SpecError, match="power of two"):
        shares(0, 12, 1, 0, None, logical)


def test_logical_workers_divide_the_batch() -> None:
    with pytest.raises(SpecError, match="not a multiple of 8") as refused:
        shares(0, 12, 1, 0, None, 8)
    assert refused.value.hint


def test_a_logical_worker_that_does_not_fit_in_a_micro_batch_is_refused() -> None:
    assert len(shares(0, 32, 1, 0, 8, 4)) == 4
    with pytest.raises(SpecError, match="8 samples at once"):
        shares(0, 32, 1, 0, 7, 4)


@pytest.mark.parametrize(("batch", "micro"), [(0, None), (-1, None), (4, 0), (4, -1)])
def test_nothing_is_smaller_than_one_sample(batch: int, micro: int | None) -> None:
    with pytest.raises(SpecError, match="samples"):
        shares(0, batch, 1, 0, micro)


@pytest.mark.parametrize(("workers", "rank"), [(0, 0), (2, 2), (2, -1)])
def test_a_rank_that_is_no_member_gets_nothing_by_mistake(workers: int, rank: int) -> None:
    with pytest.raises(InvariantBreach):
        shares(0, 8, workers, rank)


@given(
    batch=st.integers(1, 60),
    replicas=st.integers(1, 4),
    together=st.integers(1, 4),
    micro=st.none() | st.integers(1, 9),
)
def test_who_holds_a_model_together_has_as_many_micro_batches(
    batch: int, replicas: int, together: int, micro: int | None
) -> None:
    workers = replicas * together
    parts = [shares(3, batch, workers, rank, micro, together=together) for rank in range(workers)]
    for first in range(0, workers, together):
        assert len({len(part) for part in parts[first : first + together]}) == 1
    taken = [at for part in parts for share in part for at in range(share.start, share.stop)]
    assert taken == list(range(3 * batch, 4 * batch))
    assert all(part[-1].last and not any(s.last for s in part[:-1]) for part in parts if part)
    assert not micro or all(share.samples <= micro for part in parts for share in part)
