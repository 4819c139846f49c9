"""A breaker: opened by jobs of several users, held for all, closed by a probe, left one by one."""

import json

import pytest

from weft.failure.breaker import (
    TERMS,
    Breaker,
    Strike,
    hold,
    probe_due_seconds,
    probed,
    strike,
)
from weft.model.ids import JobId, TenantId

STORE = Breaker(service="object store")


def struck(
    breaker: Breaker, times: int, *, users: int = 3, begin: float = 0.0, gap: float = 1.0
) -> Breaker:
    for n in range(times):
        one = Strike(begin + n * gap, JobId(f"j{n}"), TenantId(f"u{n % users}"))
        breaker = strike(breaker, one)
    return breaker


def held(breaker: Breaker, job: str, user: str, at: float) -> bool:
    return hold(breaker, JobId(job), TenantId(user), at).until_seconds is not None


def test_five_jobs_of_two_users_open_it_for_all() -> None:
    assert not struck(STORE, 4).is_open
    breaker = struck(STORE, 5)
    assert breaker.is_open and breaker.user is None
    assert held(breaker, "other", "stranger", 5.0)


def test_one_job_that_fails_again_and_again_opens_nothing() -> None:
    breaker = STORE
    for n in range(50):
        breaker = strike(breaker, Strike(n * 10.0, JobId("j"), TenantId("u")))
    assert not breaker.is_open


def test_one_user_cannot_hold_the_others() -> None:
    breaker = struck(STORE, 40, users=1)
    assert breaker.is_open and breaker.user == "u0"
    assert held(breaker, "j9", "u0", 50.0)
    assert not held(breaker, "other", "u1", 50.0)
    for_all = strike(breaker, Strike(50.0, JobId("other"), TenantId("u1")))
    assert for_all.is_open and for_all.user is None


def test_failures_that_are_far_apart_are_not_one() -> None:
    assert not struck(STORE, 20, gap=TERMS.window_seconds / 4).is_open


def test_one_job_cannot_push_out_what_others_have_said() -> None:
    breaker = struck(STORE, 4)
    for n in range(500):
        breaker = strike(breaker, Strike(4.0 + n / 100, JobId("noise"), TenantId("u9")))
    assert breaker.is_open and len(breaker.strikes) == 5


def test_who_is_held_is_never_told_to_ask_at_once() -> None:
    breaker = struck(STORE, 5)
    for at in (4.0, 5.0, 500.0):
        until = hold(breaker, JobId("j"), TenantId("u"), at).until_seconds
        assert until is not None and until > at


def test_who_waits_is_told_what_for() -> None:
    found = hold(struck(STORE, 5), JobId("j"), TenantId("u"), 10.0)
    assert found.why == (
        "object store does not answer: 5 jobs failed on it; "
        "it is probed, and all go on when it answers"
    )


def test_a_probe_is_due_at_once_and_then_every_half_minute() -> None:
    assert probe_due_seconds(STORE) == float("inf")
    breaker = struck(STORE, 5)
    assert probe_due_seconds(breaker) == 4.0
    breaker = probed(breaker, 4.5, answers=False)
    assert breaker.is_open and probe_due_seconds(breaker) == 34.5


def test_when_it_answers_all_come_back_spread_out_and_soon() -> None:
    breaker = probed(struck(STORE, 5), 100.0, answers=True)
    assert not breaker.is_open
    backs = [hold(breaker, JobId(f"j{n}"), TenantId("u"), 100.0).until_seconds for n in range(200)]
    times = sorted(back for back in backs if back is not None)
    assert len(times) == 200
    assert times[-1] - times[0] >= 60.0 and times[-1] <= 100.0 + TERMS.spread_seconds
    assert all(not held(breaker, f"j{n}", "u", 181.0) for n in range(200))


def test_a_service_that_fails_again_opens_it_again() -> None:
    breaker = probed(struck(STORE, 5), 100.0, answers=True)
    breaker = struck(breaker, 5, begin=120.0)
    assert breaker.is_open and held(breaker, "j", "u", 130.0)
    assert probe_due_seconds(breaker) == 124.0


def test_a_probe_of_a_closed_breaker_changes_nothing_for_jobs() -> None:
    breaker = probed(STORE, 5.0, answers=True)
    assert not held(breaker, "j", "u", 5.0)


@pytest.mark.parametrize(
    "breaker",
    [
        STORE,
        struck(STORE, 5),
        struck(STORE, 9, users=1),
        probed(struck(STORE, 5), 9.0, answers=False),
        probed(struck(STORE, 5), 9.0, answers=True),
    ],
)
def test_it_survives_being_written_down(breaker: Breaker) -> None:
    assert Breaker.read(json.loads(json.dumps(breaker.told()))) == breaker


def test_what_it_remembers_is_bounded() -> None:
    assert len(json.dumps(struck(STORE, 5_000, gap=0.01).told())) < 4_000
