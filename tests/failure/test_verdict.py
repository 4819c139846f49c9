"""What follows from a failure, by its class and by what came before it."""

import pytest

from weft.failure.backoff import Backoff
from weft.failure.evidence import UNEXPLAINED, Failure, FailureClass
from weft.failure.verdict import History, Loss, judge, judge_loss
from weft.model.ids import NodeId

RESTS = Backoff(first_seconds=60.0, cap_seconds=600.0)


@pytest.mark.parametrize(
    ("failures", "rest"), [(1, 60.0), (2, 120.0), (3, 240.0), (4, 480.0), (5, 600.0), (9, 600.0)]
)
def test_each_rest_is_twice_the_one_before_up_to_the_cap(failures: int, rest: float) -> None:
    assert judge(UNEXPLAINED, History(failures, 10), RESTS).retry_after_seconds == rest


FINAL = frozenset(
    (FailureClass.USER, FailureClass.ENVIRONMENT, FailureClass.ACCESS, FailureClass.CANCELLED)
)


@pytest.mark.parametrize("kind", FailureClass)
def test_only_what_ends_the_same_way_anywhere_is_never_tried_again(kind: FailureClass) -> None:
    verdict = judge(Failure(kind), History(1, 3), RESTS)
    assert (verdict.retry_after_seconds is None) is (kind in FINAL)


@pytest.mark.parametrize("kind", sorted(set(FailureClass) - FINAL))
def test_after_the_last_retry_the_job_is_given_up_whatever_it_was(kind: FailureClass) -> None:
    assert judge(Failure(kind), History(3, 3), RESTS).retry_after_seconds == 240.0
    assert judge(Failure(kind), History(4, 3), RESTS).retry_after_seconds is None


def test_a_job_without_retries_has_one_try() -> None:
    assert judge(UNEXPLAINED, History(1, 0), RESTS).retry_after_seconds is None


def test_the_reason_shows_the_evidence_or_else_says_what_the_class_means() -> None:
    shown = Failure(FailureClass.MEMORY, "w-3: OOMKilled", NodeId("n1"), 3)
    assert judge(shown, History(1, 3), RESTS).why == "w-3: OOMKilled; try 1 of 3"
    assert judge(shown, History(4, 3), RESTS).why == "w-3: OOMKilled; failed 4 times with 3 retries"
    for kind in FailureClass:
        assert judge(Failure(kind), History(1, 3), RESTS).why.startswith(kind.meaning)


# --- workers that were lost -----------------------------------------------------------------------

NO_ANSWER = Failure(FailureClass.SERVICE, "w-0: exit code 75")
EVICTED = Failure(FailureClass.NODE, "w-0: Evicted")


def test_each_loss_in_a_row_costs_twice_the_rest_and_a_node_may_fail_once() -> None:
    rests = [judge_loss(NO_ANSWER, before, 5.0, RESTS).rest_seconds for before in range(6)]
    assert rests == [60.0, 120.0, 240.0, 480.0, 600.0, 600.0]
    moved = [judge_loss(EVICTED, before, 5.0, RESTS).rest_seconds for before in range(6)]
    assert moved == [0.0, 60.0, 120.0, 240.0, 480.0, 600.0]


def test_after_a_run_that_was_long_enough_the_count_begins_anew() -> None:
    assert judge_loss(NO_ANSWER, 7, 600.0, RESTS) == Loss(1, 60.0)
    assert judge_loss(NO_ANSWER, 7, 599.0, RESTS) == Loss(8, 600.0)


def test_who_was_asked_to_leave_goes_on_at_once_and_is_not_counted() -> None:
    assert judge_loss(UNEXPLAINED, 3, 5.0, RESTS) == Loss(3, 0.0)


def test_no_number_of_times_is_too_large_to_rest_after() -> None:
    assert RESTS.after(10**9) == RESTS.cap_seconds
