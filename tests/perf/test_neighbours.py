"""What is learnt of neighbours: bounded, fading, and laid to those who are to blame."""

from hypothesis import given
from hypothesis import strategies as st

from weft.perf.neighbours import HALF_LIFE_SECONDS, MOST_PAIRS, MOST_SLOWER, Label, Slowdowns

NAMES = [Label("t", name) for name in "abcd"]
MINE = Label("t", "mine")

a_lesson = st.tuples(
    st.sampled_from(NAMES),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=7),
    st.floats(-10.0, 1e9),
    st.floats(0.0, 1e6),
)


@given(st.lists(a_lesson, max_size=30))
def test_it_is_bounded_whatever_is_measured(
    lessons: list[tuple[Label, list[Label], float, float]],
) -> None:
    learnt, now = Slowdowns(), 0.0
    for job, beside, slower, later in lessons:
        now += later
        learnt.learn(job, beside, slower, now)
        assert all(0.0 <= seen.slower <= MOST_SLOWER for seen in learnt.pairs.values())
        assert all(0.0 <= learnt.slower(*pair, now) <= MOST_SLOWER for pair in learnt.pairs)


@given(st.floats(0.01, 2.0), st.floats(0.0, 100 * HALF_LIFE_SECONDS))
def test_it_fades(slower: float, later: float) -> None:
    learnt = Slowdowns()
    learnt.learn(MINE, NAMES[:1], slower, 0.0)
    before, after = (learnt.slower(MINE, NAMES[0], at) for at in (0.0, later))
    assert after <= before
    assert learnt.slower(MINE, NAMES[0], later + HALF_LIFE_SECONDS) <= after / 2 + 1e-12


def test_what_is_measured_again_and_again_is_believed() -> None:
    learnt = Slowdowns()
    for at in range(10):
        learnt.learn(MINE, NAMES[:1], 0.3, float(at))
    assert abs(learnt.slower(MINE, NAMES[0], 10.0) - 0.3) < 0.01


def test_nobody_is_believed_to_slow_others_beyond_measure() -> None:
    learnt = Slowdowns()
    for at in range(10):
        learnt.learn(MINE, NAMES[:1], 1e6, float(at))
    assert learnt.slower(MINE, NAMES[0], 10.0) <= MOST_SLOWER


def test_it_is_forgotten_when_it_is_so_no_more() -> None:
    learnt = Slowdowns()
    for at in range(20):
        learnt.learn(MINE, NAMES[:1], 0.3 if at < 10 else 0.0, float(at))
    assert learnt.slower(MINE, NAMES[0], 20.0) < 0.01


def test_who_does_no_harm_elsewhere_is_not_blamed() -> None:
    good, bad = NAMES[:2]
    learnt = Slowdowns()
    for at in range(30):
        learnt.learn(MINE, [good], 0.0, float(at))
        learnt.learn(MINE, [good, bad], 0.4, float(at))
    assert learnt.slower(MINE, bad, 30.0) > 0.3
    assert learnt.slower(MINE, good, 30.0) < 0.1


def test_of_many_the_oldest_are_forgotten() -> None:
    learnt = Slowdowns()
    for number in range(MOST_PAIRS + 10):
        learnt.learn(MINE, [Label("t", f"p{number}")], 0.5, float(number))
    assert len(learnt.pairs) == MOST_PAIRS
    assert len(learnt.near) == MOST_PAIRS + 1
    assert learnt.slower(MINE, Label("t", "p0"), 0.0) == 0.0


def test_a_copy_learns_for_itself() -> None:
    learnt = Slowdowns()
    learnt.learn(MINE, NAMES[:1], 0.5, 0.0)
    twin = learnt.copied()
    twin.learn(MINE, NAMES[:2], 2.0, 1.0)
    assert learnt.near[MINE] == {NAMES[0]}
    assert learnt.slower(MINE, NAMES[1], 1.0) == 0.0
