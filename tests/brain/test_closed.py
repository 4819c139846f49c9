"""Jobs that are over are shared by the copies of a brain, and yet each has its own."""

import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.work import calls_of
from weft.brain.brain import Brain
from weft.brain.state.closed import Closed, ClosedJobs
from weft.model.ids import JobId
from weft.model.state import State
from weft.policy.recipes import fifo

MANY = 80_000


def an_end(at: float = 0.0) -> Closed:
    return Closed(State.SUCCEEDED, at, (), 0.0, 0, 0)


def many() -> ClosedJobs:
    closed = ClosedJobs()
    closed.update({JobId(f"j{number}"): an_end(number) for number in range(MANY)})
    return closed


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["close", "close", "forget", "copy"]),
        st.integers(0, 3),
        st.text("abcde", max_size=1),
    ),
    max_size=60,
)


@given(STEPS)
@example(
    [("close", 0, "a"), ("copy", 0, ""), ("forget", 0, "a"), ("close", 0, "b"), ("close", 0, "a")]
)
def test_each_copy_is_like_a_dict_of_its_own(steps: list[tuple[str, int, str]]) -> None:
    copies, plain = [ClosedJobs()], [dict[JobId, Closed]()]
    for number, (what, whose, name) in enumerate(steps):
        which, job = whose % len(copies), JobId(name)
        if what == "close" and job not in plain[which]:
            copies[which][job] = plain[which][job] = an_end(number)
        elif what == "forget":
            assert copies[which].pop(job, None) is plain[which].pop(job, None)
        elif what == "copy":
            copies.append(copies[which].copied())
            plain.append(dict(plain[which]))
        for mine, expected in zip(copies, plain, strict=True):
            assert list(mine.items()) == list(expected.items())
            assert len(mine) == len(expected)
            assert (job in mine) == (job in expected)


def test_who_was_never_there_cannot_be_forgotten() -> None:
    with pytest.raises(KeyError):
        del ClosedJobs()[JobId("nobody")]


def test_a_copy_of_a_brain_carries_no_job_that_is_over() -> None:
    brain = Brain(fifo())
    brain.state.closed = many()
    brain.copied()
    brain.state.closed[JobId("one more")] = an_end()
    assert calls_of(brain.copied) < calls_of(Brain(fifo()).copied) + 100
    twin = brain.copied()
    assert len(twin.state.closed) == MANY + 1
    own = vars(twin.state.closed)
    assert sys.getsizeof(own["_latest"]) < 1000
    assert own["_layers"][0] is vars(brain.state.closed)["_layers"][0]


def test_copies_share_what_finished_jobs_needed() -> None:
    brain = Brain(fifo())
    for number in range(500):
        brain.state.finished.add(float(number))
    assert brain.copied().state.finished.samples is brain.state.finished.samples


def test_many_copies_leave_few_layers() -> None:
    closed = ClosedJobs()
    for number in range(2_000):
        closed[JobId(f"j{number}")] = an_end(number)
        closed.copied()
    assert len(vars(closed)["_layers"]) < 12
    assert len(list(closed)) == 2_000
