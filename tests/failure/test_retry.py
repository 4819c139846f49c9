"""Whether a job is tried again: by class, by repetition, by progress, within budgets."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.failure.backoff import Backoff
from weft.failure.classes import FailureClass, NodeAction, Retry
from weft.failure.diagnosis import Diagnosis
from weft.failure.lines import Stream
from weft.failure.retry import BUDGETS, FRESH, RetryState, Run, Terms, decide
from weft.failure.verdict import Verdict
from weft.model.ids import JobId, NodeId

HOUR = 3_600.0


def diagnosis(
    kind: FailureClass,
    fingerprint: str = "same",
    node: str | None = None,
    stream: Stream = Stream.APP,
) -> Diagnosis:
    facts = kind.facts
    return Diagnosis(
        kind=kind,
        rule="rule",
        says="it failed",
        cure=facts.retry,
        advice=facts.advice,
        line="the line",
        fingerprint=fingerprint,
        stream=stream,
        node=NodeId(node) if node else None,
        node_action=NodeAction.SUSPECT if node else NodeAction.NONE,
    )


def run(
    at: float = 0.0, ran: float = 120.0, nodes: str = "a", saved: int | None = None, job: str = "j"
) -> Run:
    return Run(
        job=JobId(job),
        at_seconds=at,
        ran_seconds=ran,
        nodes=frozenset(map(NodeId, nodes)),
        saved=saved,
    )


def verdicts(
    kind: FailureClass, times: int = 12, terms: Terms | None = None, **changes: object
) -> list[Verdict]:
    """One failure after the other, two minutes apart, until the job is given up."""
    state, found = FRESH, []
    for n in range(times):
        one = replace(diagnosis(kind), **changes)  # type: ignore[arg-type]
        verdict, state = decide(one, run(at=n * 120.0), state, terms)
        found.append(verdict)
        if verdict.retry_after_seconds is None:
            break
    return found


@pytest.mark.parametrize(
    ("kind", "retries"),
    [
        (FailureClass.USER, 0),
        (FailureClass.ENVIRONMENT, 0),
        (FailureClass.ACCESS, 0),
        (FailureClass.MEMORY, 0),
        (FailureClass.GPU_MEMORY, 0),
        (FailureClass.LIMIT, 0),
        (FailureClass.CANCELLED, 0),
        (FailureClass.INPUT, 1),
        (FailureClass.CRASH, 1),
        (FailureClass.UNKNOWN, 1),
        (FailureClass.DIVERGED, 2),
        (FailureClass.CHECKPOINT, 2),
        (FailureClass.GPU, 2),
        (FailureClass.NODE, 2),
        (FailureClass.HANG, 2),
        (FailureClass.PEER, 2),
        (FailureClass.NETWORK, 2),
        (FailureClass.START, 2),
        (FailureClass.SERVICE, 5),
        (FailureClass.PREEMPTED, 12),
    ],
)
def test_retries_of_one_failure_without_progress_by_class(kind: FailureClass, retries: int) -> None:
    found = verdicts(kind, terms=Terms(max_retries=99))
    assert sum(one.retry_after_seconds is not None for one in found) == retries


def test_every_class_is_in_that_table() -> None:
    assert {kind for kind in FailureClass if kind.facts.retry in BUDGETS} | {
        FailureClass.PREEMPTED
    } == set(FailureClass)


def test_after_three_attempts_with_one_fingerprint_a_job_is_given_up() -> None:
    *again, last = verdicts(FailureClass.NODE)
    assert len(again) == 2
    assert last.why == (
        "it failed: the line; 3 attempts ended so with no new checkpoint between them"
    )


@pytest.mark.parametrize("kind", [FailureClass.NODE, FailureClass.MEMORY, FailureClass.UNKNOWN])
def test_a_job_that_saves_something_new_each_time_is_never_stopped(kind: FailureClass) -> None:
    state = FRESH
    for n in range(50):
        ended = run(at=n * 2 * HOUR, ran=1.5 * HOUR, saved=100 * (n + 1))
        verdict, state = decide(diagnosis(kind), ended, state)
        assert verdict.retry_after_seconds is not None, n
    verdict, state = decide(diagnosis(kind), run(at=200 * HOUR, saved=5000), state)
    if kind is not FailureClass.NODE:
        assert verdict.retry_after_seconds is None


def test_what_was_saved_before_the_first_failure_buys_no_retry_of_what_is_wrong_anyway() -> None:
    verdict, _ = decide(diagnosis(FailureClass.USER), run(saved=7))
    assert verdict.retry_after_seconds is None


def test_an_error_after_an_hour_gets_one_more_try_and_no_second_one() -> None:
    late = run(ran=1.1 * HOUR)
    verdict, state = decide(diagnosis(FailureClass.USER), late)
    assert verdict.retry_after_seconds == 0.0
    verdict, _ = decide(diagnosis(FailureClass.USER), replace(late, at_seconds=HOUR), state)
    assert verdict.retry_after_seconds is None
    verdict, _ = decide(diagnosis(FailureClass.USER, "x"), replace(late, at_seconds=HOUR), state)
    assert verdict.retry_after_seconds is None, "one a day, whatever it is"


def test_a_job_that_offers_to_change_is_tried_once_with_the_change() -> None:
    terms = Terms(may_change=True)
    verdict, state = decide(diagnosis(FailureClass.MEMORY), run(), FRESH, terms)
    assert verdict.change and verdict.retry_after_seconds == 0.0
    verdict, _ = decide(diagnosis(FailureClass.MEMORY, "x"), run(at=60.0), state, terms)
    assert not verdict.change and verdict.retry_after_seconds is None


def test_the_same_failure_on_other_nodes_is_the_jobs_own() -> None:
    _, state = decide(diagnosis(FailureClass.GPU), run(nodes="ab"))
    verdict, _ = decide(diagnosis(FailureClass.GPU), run(at=9.0, nodes="cd"), state)
    assert verdict.retry_after_seconds is None and "the job is at fault" in verdict.why
    verdict, _ = decide(diagnosis(FailureClass.GPU), run(at=9.0, nodes="bc"), state)
    assert verdict.retry_after_seconds is not None, "one node was there both times"
    verdict, _ = decide(diagnosis(FailureClass.GPU, "x"), run(at=9.0, nodes="cd"), state)
    assert verdict.retry_after_seconds is not None, "another failure"


def test_the_kernels_word_about_two_nodes_is_not_the_jobs_fault() -> None:
    found = diagnosis(FailureClass.GPU, node="a", stream=Stream.KERNEL)
    _, state = decide(found, run(nodes="ab"))
    verdict, _ = decide(found, run(at=9.0, nodes="cd"), state)
    assert verdict.retry_after_seconds is not None


def test_nodes_at_fault_are_avoided_and_a_confirmation_goes_elsewhere() -> None:
    verdict, state = decide(diagnosis(FailureClass.GPU, node="b"), run(nodes="ab"))
    assert verdict.avoid == ("b",)
    verdict, _ = decide(diagnosis(FailureClass.CRASH, "x"), run(at=9.0, nodes="cd"), state)
    assert verdict.avoid == ("b", "c", "d")


def test_services_are_given_ever_more_time_and_not_all_the_same() -> None:
    found = verdicts(FailureClass.SERVICE, terms=Terms(max_retries=9))
    rests = [one.retry_after_seconds or 0.0 for one in found[:-1]]
    assert all(
        base <= rest <= 1.2 * base
        for rest, base in zip(rests, (60, 120, 240, 480, 960), strict=True)
    )
    others = {
        decide(diagnosis(FailureClass.SERVICE), run(job=f"j{n}"))[0].retry_after_seconds
        for n in range(20)
    }
    assert len(others) == 20


def test_a_node_may_fail_once_before_anybody_rests() -> None:
    rests = [one.retry_after_seconds for one in verdicts(FailureClass.NODE)]
    assert rests == [0.0, 60.0, None]


def test_who_fails_within_a_minute_again_and_again_rests_whatever_it_claims_to_have_saved() -> None:
    state = FRESH
    for n in range(5):
        ended = run(at=n * 10.0, ran=5.0, saved=n)
        verdict, state = decide(diagnosis(FailureClass.GPU), ended, state)
        assert verdict.retry_after_seconds == (60.0 if n else 0.0)


def test_what_is_the_jobs_own_costs_retries_and_what_is_not_is_free() -> None:
    never = Terms(max_retries=0)
    for kind in (FailureClass.INPUT, FailureClass.SERVICE, FailureClass.DIVERGED):
        assert decide(diagnosis(kind), run(), FRESH, never)[0].retry_after_seconds is None
    for kind in (FailureClass.NODE, FailureClass.PREEMPTED):
        assert decide(diagnosis(kind), run(), FRESH, never)[0].retry_after_seconds == 0.0


def test_unknown_failures_that_all_look_different_have_a_budget_too() -> None:
    state = FRESH
    for n in range(3):
        verdict, state = decide(diagnosis(FailureClass.UNKNOWN, f"f{n}"), run(at=n * 60.0), state)
        assert (verdict.retry_after_seconds is None) is (n == 2)
    late = run(at=25 * HOUR)
    assert (
        decide(diagnosis(FailureClass.UNKNOWN, "g"), late, state)[0].retry_after_seconds is not None
    )


def test_who_was_preempted_is_remembered_for_nothing() -> None:
    state = RetryState(fingerprint="f", attempts=2, charged=3)
    verdict, after = decide(diagnosis(FailureClass.PREEMPTED), run(), state)
    assert verdict.retry_after_seconds == 0.0 and after is state


@given(
    st.lists(
        st.tuples(
            st.sampled_from(FailureClass),
            st.sampled_from("fgh"),
            st.sampled_from(["a", "ab", "cd", ""]),
            st.one_of(st.none(), st.integers(0, 5)),
            st.floats(1.0, 9_000.0),
        ),
        max_size=30,
    )
)
def test_what_is_remembered_survives_being_written_down_at_any_point(
    course: list[tuple[FailureClass, str, str, int | None, float]],
) -> None:
    state, clock = FRESH, 0.0
    for kind, fingerprint, nodes, saved, ran in course:
        clock += ran
        assert RetryState.read(json.loads(json.dumps(state.told()))) == state
        ended = run(at=clock, ran=ran, nodes=nodes, saved=saved)
        _, state = decide(diagnosis(kind, fingerprint, nodes[:1] or None), ended, state)
        assert len(state.spent) <= sum(BUDGETS.values())
        assert len(json.dumps(state.told())) < 4_000


@given(st.lists(st.sampled_from(FailureClass), min_size=40, max_size=40))
def test_without_progress_everybody_is_given_up_within_a_bound(kinds: list[FailureClass]) -> None:
    """Unless the scheduler itself took them away: that is no failure."""
    state, failures = FRESH, 0
    for n, kind in enumerate(kinds):
        verdict, state = decide(diagnosis(kind, f"f{n}"), run(at=n * 300.0), state)
        failures += kind is not FailureClass.PREEMPTED
        if verdict.retry_after_seconds is None:
            return
    assert failures <= sum(BUDGETS.values())


def test_rests_follow_the_terms() -> None:
    terms = Terms(rests=Backoff(first_seconds=1.0, cap_seconds=2.0))
    verdict, _ = decide(diagnosis(FailureClass.SERVICE), run(), FRESH, terms)
    assert verdict.retry_after_seconds is not None and 1.0 <= verdict.retry_after_seconds <= 1.2


@pytest.mark.parametrize("kind", FailureClass)
def test_nobody_is_told_to_wait_for_what_is_not_tried_again(kind: FailureClass) -> None:
    if kind in (FailureClass.PREEMPTED, FailureClass.CANCELLED):
        return
    state = replace(FRESH, attempts=99, fingerprint=diagnosis(kind).fingerprint)
    verdict, _ = decide(diagnosis(kind), run(saved=None), state)
    assert verdict.retry_after_seconds is None
    assert not verdict.advice.startswith("nothing to do"), verdict.advice
    own = replace(diagnosis(kind), advice="call the lab")
    assert decide(own, run(saved=None), state)[0].advice == "call the lab"


def test_advice_comes_with_the_verdict() -> None:
    verdict, _ = decide(diagnosis(FailureClass.MEMORY), run())
    assert verdict.advice == FailureClass.MEMORY.facts.advice
    assert Retry.STOP.value not in verdict.why
