"""Groups are judged by what they do: no harm, caps, and rests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.interleaving.profiles import A2C, BERT, DQN, GPT2, VGG16
from weft.perf.interleaving.experience import (
    MOST_KINDS,
    REST_SECONDS,
    Experience,
    Signature,
    signature_of,
)
from weft.perf.interleaving.watch import GOES_ON, Course, Shown, Watch

PAIR = signature_of([VGG16, DQN])


def shown(*speeds: float, seconds: float = 400.0, cycles: float = 100.0) -> Shown:
    """Members that keep such parts of their speed."""
    return Shown(seconds, cycles, tuple(speed * seconds for speed in speeds))


def test_a_group_that_does_less_than_one_alone_is_broken_up() -> None:
    _, verdict = Watch.over([6.0, 6.0]).look(shown(0.5, 0.4))
    assert verdict.course is Course.BROKEN_UP
    assert "0.90 times" in verdict.why


def test_a_group_that_does_more_goes_on() -> None:
    assert Watch.over([6.0, 6.0]).look(shown(0.7, 0.4))[1] == GOES_ON


@pytest.mark.parametrize(("seconds", "cycles"), [(299.0, 49.0), (1.0, 49.0)])
def test_nothing_is_said_before_there_is_enough(seconds: float, cycles: float) -> None:
    found = shown(0.1, 0.1, seconds=seconds, cycles=cycles)
    assert Watch.over([6.0, 6.0]).look(found)[1] == GOES_ON


@pytest.mark.parametrize(("seconds", "cycles"), [(300.0, 1.0), (1.0, 50.0)])
def test_time_or_cycles_are_enough(seconds: float, cycles: float) -> None:
    found = shown(0.1, 0.1, seconds=seconds, cycles=cycles)
    assert Watch.over([6.0, 6.0]).look(found)[1].course is Course.BROKEN_UP


def test_a_member_beyond_its_cap_is_released_at_the_second_look() -> None:
    slow = shown(0.95, 0.2)
    watch, first = Watch.over([6.0, 2.0]).look(slow)
    assert first == GOES_ON
    _, second = watch.look(slow)
    assert (second.course, second.released) == (Course.RELEASES, 1)
    assert "5.0 times slower" in second.why


def test_looks_must_follow_each_other() -> None:
    slow, well = shown(0.95, 0.2), shown(0.95, 0.9)
    watch, _ = Watch.over([6.0, 2.0]).look(slow)
    watch, _ = watch.look(well)
    assert watch.look(slow)[1] == GOES_ON


def test_a_little_beyond_the_cap_is_borne() -> None:
    watch = Watch.over([6.0, 2.0])
    for _ in range(5):
        watch, verdict = watch.look(shown(0.9, 1 / 2.3))
        assert verdict == GOES_ON


def test_who_does_nothing_is_slowed_without_bound() -> None:
    watch = Watch.over([6.0, 6.0])
    watch, _ = watch.look(shown(1.0, 0.0))
    assert watch.look(shown(1.0, 0.0))[1].released == 1


def test_a_signature_is_of_profiles_and_not_of_places() -> None:
    assert signature_of([DQN, BERT]) == signature_of((BERT, DQN))
    assert signature_of([DQN, DQN]) != signature_of([DQN, BERT])


def test_a_first_measurement_is_believed_and_later_ones_are_averaged() -> None:
    known = Experience()
    assert known.factor(PAIR) == 1.0
    known.learn(PAIR, foretold_seconds=1.0, measured_seconds=1.3)
    assert known.factor(PAIR) == pytest.approx(1.3)
    known.learn(PAIR, foretold_seconds=1.0, measured_seconds=1.0)
    assert 1.0 < known.factor(PAIR) < 1.3
    assert known.has_drifted(PAIR)


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=30))
def test_a_factor_never_leaves_its_bounds(measured: list[float]) -> None:
    known = Experience()
    for seconds in measured:
        known.learn(PAIR, foretold_seconds=1.0, measured_seconds=seconds)
    assert 0.5 <= known.factor(PAIR) <= 20.0


def test_the_truth_is_learnt_from_a_hundred_noisy_cycles() -> None:
    known = Experience()
    for cycle in range(100):
        known.learn(PAIR, foretold_seconds=1.0, measured_seconds=1.5 + 0.1 * (-1) ** cycle)
    assert known.factor(PAIR) == pytest.approx(1.5, rel=0.1)


def learnt(known: Experience, group: Signature, factor: float) -> None:
    known.learn(group, foretold_seconds=2.0, measured_seconds=2.0 * factor)


def test_of_who_was_never_tried_what_others_lose_is_expected() -> None:
    known = Experience()
    learnt(known, PAIR, 1.3)
    learnt(known, signature_of([BERT, A2C]), 1.5)
    other = signature_of([GPT2, A2C])
    assert known.factor(other) == pytest.approx((1.0 + 1.3 + 1.5) / 3)
    assert known.factor(PAIR) == pytest.approx(1.3)
    learnt(known, other, 1.1)
    assert known.factor(other) == pytest.approx(1.1)


def test_a_larger_group_is_expected_to_lose_as_the_largest_that_was_tried() -> None:
    known = Experience()
    assert known.factor(signature_of([BERT, A2C, DQN])) == 1.0
    learnt(known, PAIR, 1.4)
    assert known.typical(4) == known.typical(2) == pytest.approx(1.2)
    learnt(known, signature_of([BERT, A2C, DQN]), 1.8)
    assert known.typical(4) == known.typical(3) == pytest.approx(1.4)
    assert known.typical(2) == pytest.approx(1.2)
    assert known.typical(1) == 1.0


def test_a_kind_measured_often_weighs_no_more_than_one_measured_once() -> None:
    known = Experience()
    for _ in range(50):
        learnt(known, PAIR, 2.0)
    learnt(known, signature_of([BERT, A2C]), 1.0)
    assert known.typical(2) == pytest.approx((1.0 + 2.0 + 1.0) / 3)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.floats(0.5, 20.0)), min_size=1, max_size=40),
)
def test_what_is_typical_is_the_mean_of_what_is_remembered(said: list[tuple[int, float]]) -> None:
    known = Experience()
    for kind, factor in said:
        learnt(known, (f"{kind}", "x"), factor)
    each = [known.factor((f"{kind}", "x")) for kind in {kind for kind, _ in said}]
    assert known.typical(2) == pytest.approx((1.0 + sum(each)) / (1 + len(each)))


def test_the_kinds_that_were_measured_last_are_remembered() -> None:
    known = Experience()
    for kind in range(MOST_KINDS + 10):
        learnt(known, (f"{kind}", "x"), 3.0 if kind < 10 else 1.0)
    assert known.typical(2) == pytest.approx(1.0)
    assert known.factor(("0", "x")) == pytest.approx(1.0)


def test_a_group_that_did_harm_rests_for_an_hour() -> None:
    known = Experience()
    known.rest(PAIR, 100.0)
    assert known.rests(PAIR, 100.0 + REST_SECONDS - 1.0)
    assert not known.rests(PAIR, 100.0 + REST_SECONDS)
    assert not known.rests(signature_of([VGG16, VGG16]), 100.0)


def test_after_its_rest_a_group_is_as_any_that_was_never_tried() -> None:
    known = Experience()
    learnt(known, PAIR, 3.0)
    known.rest(PAIR, 0.0)
    assert known.factor(PAIR) == known.factor(signature_of([BERT, A2C])) == pytest.approx(2.0)
    learnt(known, PAIR, 1.2)
    assert known.factor(PAIR) == pytest.approx(1.2)


def test_a_copy_learns_by_itself() -> None:
    known = Experience()
    learnt(known, PAIR, 1.0)
    twin = known.copied()
    learnt(twin, signature_of([BERT, A2C]), 2.0)
    twin.rest(PAIR, 0.0)
    assert known.typical(2) == 1.0 and not known.rests(PAIR, 1.0)
