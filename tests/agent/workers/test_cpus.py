"""Processors are shared out in equal parts, and a worker is where its part is."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.agent.workers import cpus
from weft.model.errors import SpecError

MINE = tuple(sorted(os.sched_getaffinity(0)))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("", ()), ("3", (3,)), ("0-3,8", (0, 1, 2, 3, 8)), ("2,1,1", (1, 2))],
)
def test_numbers_as_people_write_them(text: str, numbers: tuple[int, ...]) -> None:
    assert cpus.parse_numbers(text) == numbers


@pytest.mark.parametrize("text", ["a", "1-", "-1", "1-b", "1;2", "5-3"])
def test_what_is_no_number_is_told(text: str) -> None:
    with pytest.raises(SpecError, match="is no list of numbers"):
        cpus.parse_numbers(text)


@given(pool=st.sets(st.integers(0, 99), min_size=1), count=st.integers(0, 120))
def test_slices_are_equal_and_use_everything(pool: set[int], count: int) -> None:
    found = cpus.slices(tuple(sorted(pool)), count)
    assert len(found) == count
    assert all(part and set(part) <= pool for part in found)
    if 0 < count <= len(pool):
        assert sorted(one for part in found for one in part) == sorted(pool)
        sizes = {len(part) for part in found}
        assert max(sizes) - min(sizes) <= 1


def test_without_a_pool_nobody_is_bound() -> None:
    assert cpus.slices((), 3) == [(), (), ()]


def test_a_processor_that_is_not_there_is_told() -> None:
    assert cpus.usable(MINE[:1]) == MINE[:1]
    with pytest.raises(SpecError, match="processor 9999 is not there"):
        cpus.usable((*MINE, 9999))


def test_what_is_started_there_stays_there_until_it_is_moved() -> None:
    with cpus.on(MINE[:1]):
        started = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert os.sched_getaffinity(0) == set(MINE)
        assert os.sched_getaffinity(started.pid) == {MINE[0]}
        cpus.move(started.pid, MINE)
        assert os.sched_getaffinity(started.pid) == set(MINE)
    finally:
        started.communicate(b"\n")


def test_a_process_that_has_ended_is_moved_nowhere() -> None:
    done = subprocess.Popen(["true"])
    done.wait()
    cpus.move(done.pid, MINE)
