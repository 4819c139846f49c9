"""A failure that was looked into is judged by its class; nodes and services are judged with it."""

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.brain.failing import ECC, HDFS, MISSING, SYNTAX, kernel, said
from tests.builders import Scene, a_cluster, a_job, a_node, given, is_now, runs, waits_because
from weft.brain.event import HealthRecalled, JobReported, NodeChecked, Phase, ServiceAsked
from weft.brain.instruction import AskService, CheckNode, Start
from weft.failure.classes import FailureClass
from weft.failure.health import Health
from weft.failure.retry import RetryState
from weft.model.ids import JobId, NodeId
from weft.model.reason import Cause, ReasonCode
from weft.model.state import State
from weft.reconcile.belief import past_of

TEN = a_cluster(nodes=10, gpus=8)


def failing_on_hdfs(scene: Scene, count: int = 5, *, first: int = 0) -> Scene:
    """So many jobs of two users run and fail on one service."""
    names = [f"j{n}" for n in range(first, first + count)]
    scene.submit(*(a_job(name, tenant=f"u{n % 2}") for n, name in enumerate(names))).decide()
    for name in names:
        scene.fail(name, found=said(HDFS))
    return scene


def node_of(scene: Scene, job: str) -> str:
    return next(iter(scene.nodes(job)))


# --- by class -----------------------------------------------------------------------------------


def test_a_syntax_error_is_final_at_once_and_kept_with_its_line() -> None:
    scene = given(TEN).submit(a_job("typo")).decide().fail("typo", found=said(SYNTAX, "n0"))
    scene.expect("typo", is_now(State.FAILED))
    closed = scene.brain.state.closed[JobId("typo")]
    assert closed.diagnosis is not None and closed.diagnosis.kind is FailureClass.USER
    assert closed.diagnosis.line == SYNTAX and closed.failures == 1
    assert closed.why.endswith("another try would end the same way")


def test_missing_data_are_confirmed_once_and_on_another_node() -> None:
    scene = given(TEN).submit(a_job("data")).decide()
    first = node_of(scene, "data")
    scene.fail("data", found=said(MISSING, first)).wait(90.0).expect("data", runs)
    assert node_of(scene, "data") != first
    scene.fail("data", found=said(MISSING)).expect("data", is_now(State.FAILED))
    assert scene.brain.state.closed[JobId("data")].failures == 2


def test_what_nobody_looked_into_is_judged_by_its_count_as_ever() -> None:
    scene = given(TEN).submit(a_job("flaky", max_retries=3)).decide()
    for rest in (60.0, 120.0, 240.0):
        scene.expect("flaky", runs).fail("flaky").wait(rest + 5.0)
    scene.fail("flaky").expect("flaky", is_now(State.FAILED))


def test_who_saves_something_new_each_time_is_never_stopped() -> None:
    scene = given(TEN).submit(a_job("long", seconds=1e7)).decide()
    for step in range(1, 21):
        scene.wait(3700.0).expect("long", runs)
        scene.fail("long", kept=1000.0 * step, found=said(MISSING)).wait(90.0)
    scene.expect("long", runs)


def test_the_same_without_progress_is_given_up_at_the_third() -> None:
    scene = given(TEN).submit(a_job("stuck", seconds=1e6)).decide()
    for _ in range(3):
        scene.expect("stuck", runs).wait(100.0)
        scene.fail("stuck", found=kernel(node_of(scene, "stuck"))).wait(3600.0)
    assert "3 attempts" in scene.brain.state.closed[JobId("stuck")].why


# --- away from the node -------------------------------------------------------------------------


def test_a_job_keeps_off_the_node_that_failed_it_though_it_is_the_only_free_one() -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).submit(a_job("moved", 8, seconds=9e5)).decide()
    scene.submit(a_job("other", 8, seconds=9e5)).decide()
    bad = node_of(scene, "moved")
    scene.fail("moved", found=said(ECC, bad)).wait(100.0)
    scene.expect("moved", waits_because(ReasonCode.HEALTH_AVOIDED, avoided=bad))
    scene.wait(1800.0).expect("moved", runs)
    assert node_of(scene, "moved") == bad, "after that it takes what there is"


def test_where_there_is_no_other_node_it_stays() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).submit(a_job("only", 8)).decide()
    scene.fail("only", found=said(ECC, "n0")).wait(90.0).expect("only", runs)


def test_one_that_keeps_off_takes_the_node_when_the_others_are_lost() -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).submit(a_job("moved", 8)).decide()
    scene.submit(a_job("other", 8)).decide()
    bad, good = node_of(scene, "moved"), node_of(scene, "other")
    scene.fail("moved", found=said(ECC, bad)).wait(10.0).lose(good).wait(90.0)
    scene.expect("moved", runs)


# --- nodes --------------------------------------------------------------------------------------


def test_a_node_that_its_kernel_blames_is_no_place_to_start_until_it_is_checked() -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).submit(a_job("hit", 8, seconds=9e5)).decide()
    bad = node_of(scene, "hit")
    scene.fail("hit", found=kernel(bad)).wait(5.0).expect("hit", runs)
    assert scene.last(CheckNode).node == bad
    scene.submit(a_job("next", 8)).wait(300.0)
    scene.expect("next", waits_because(ReasonCode.HEALTH_ASIDE, aside=8, need=8))
    scene.send(NodeChecked(scene.now, NodeId(bad), passed=False)).wait(100.0)
    scene.expect("next", is_now(State.QUEUED))
    scene.send(NodeChecked(scene.now, NodeId(bad), passed=True)).wait(10.0)
    scene.expect("next", runs)
    assert node_of(scene, "next") == bad


@pytest.mark.parametrize("fails", [False, True])
def test_a_node_is_asked_after_again_and_the_more_checks_it_fails_the_later(fails: bool) -> None:
    scene = given(TEN).submit(a_job("hit")).decide().fail("hit", found=kernel("n0"))
    checks = []
    for _ in range(200):
        before = len(scene.all(CheckNode))
        scene.wait(60.0)
        if len(scene.all(CheckNode)) > before:
            checks.append(scene.now)
            if fails:
                scene.send(NodeChecked(scene.now, NodeId("n0"), passed=False))
    gaps = [b - a for a, b in pairwise(checks)]
    assert len(checks) >= 3 and gaps == sorted(gaps)
    assert (gaps[-1] >= 2 * gaps[0]) is fails


def test_no_more_of_a_pool_is_set_aside_than_its_share_and_people_are_told() -> None:
    scene = given(TEN).submit(*(a_job(f"j{n}", 8, tenant=f"u{n}") for n in range(4))).decide()
    for n in range(4):
        scene.fail(f"j{n}", found=kernel(node_of(scene, f"j{n}")))
    health = scene.brain.state.failures.health
    assert (len(health.aside), len(health.for_people)) == (1, 3)


def test_a_pool_of_its_own_has_a_share_of_its_own() -> None:
    nodes = [a_node(f"{pool}{n}", pool=pool) for pool in "ab" for n in range(3)]
    scene = given(a_cluster(*nodes)).submit(*(a_job(f"j{n}", 8) for n in range(6))).decide()
    where = {node_of(scene, f"j{n}"): f"j{n}" for n in range(6)}
    for node in ("a0", "a1", "b0"):
        scene.fail(where[node], found=kernel(node))
    aside = {one.node for one in scene.brain.state.failures.health.aside}
    assert aside == {"a0", "b0"}


def test_a_node_stays_aside_though_its_owner_changes_or_loses_it() -> None:
    scene = given(TEN).submit(a_job("hit")).decide().fail("hit", found=kernel("n0"))
    row = scene.brain.state.node_row[NodeId("n0")]
    scene.change(a_node("n0")).lose("n0").add(a_node("n0"))
    assert scene.brain.state.nodes.cordoned[row]


def test_nobody_asks_after_a_node_that_is_lost_until_it_is_back() -> None:
    scene = given(TEN).submit(a_job("hit")).decide().fail("hit", found=kernel("n0")).wait(5.0)
    asked = len(scene.all(CheckNode))
    scene.lose("n0").wait(90_000.0)
    assert len(scene.all(CheckNode)) == asked
    scene.add(a_node("n0")).wait(5.0)
    assert len(scene.all(CheckNode)) == asked + 1


def test_seats_that_were_promised_on_it_are_promised_no_longer() -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).submit(a_job("hit"), a_job("beside")).decide()
    bad = node_of(scene, "hit")
    assert node_of(scene, "beside") == bad
    scene.fail("hit", found=kernel(bad)).expect("beside", runs)
    scene.submit(a_job("big", 7)).wait(30.0)
    assert scene.nodes("big") and bad not in scene.nodes("big")


def test_a_lemon_passes_checks_and_stays_aside_until_it_is_repaired() -> None:
    scene = given(TEN)
    for times in range(3):
        scene.submit(a_job(f"hit{times}", tenant=f"u{times}")).decide()
        scene.fail(f"hit{times}", found=kernel("n0"))
        if times < 2:
            scene.send(NodeChecked(scene.now, NodeId("n0"), passed=True)).wait(3600.0)
    scene.send(NodeChecked(scene.now, NodeId("n0"), passed=True))
    assert scene.brain.state.failures.health.is_aside(NodeId("n0"))
    scene.send(NodeChecked(scene.now, NodeId("n0"), passed=True, repaired=True))
    assert not scene.brain.state.failures.health.aside


# --- services -----------------------------------------------------------------------------------


def test_jobs_that_fail_on_one_service_wait_for_it_together_and_come_back_spread_out() -> None:
    scene = failing_on_hdfs(given(TEN), 8)
    scene.wait(5.0)
    assert [one.service for one in scene.all(AskService)] == ["hdfs"]
    for n in range(8):
        scene.expect(f"j{n}", waits_because(ReasonCode.BREAKER_OPEN, service="hdfs"))
    for _ in range(40):
        scene.wait(30.0).send(ServiceAsked(scene.now, "hdfs", answers=False))
    starts = len(scene.all(Start))
    assert starts == 8, "nobody is started in vain"
    scene.send(ServiceAsked(scene.now, "hdfs", answers=True))
    begun = []
    for _ in range(100):
        scene.wait(1.0)
        if len(scene.all(Start)) > starts:
            begun += [scene.now] * (len(scene.all(Start)) - starts)
            starts = len(scene.all(Start))
    assert len(begun) == 8 and begun[-1] - begun[0] > 20.0
    assert not scene.brain.state.failures.health.blames.entries
    for n in range(8):
        scene.expect(f"j{n}", runs)
    assert scene.waited("j0")[Cause.BREAKER] > 1000.0


def test_failures_behind_an_open_breaker_cost_a_job_nothing() -> None:
    scene = given(TEN).submit(a_job("slow", tenant="u9", max_retries=1)).decide()
    failing_on_hdfs(scene).fail("slow", found=said(HDFS))
    retry = scene.brain.state.failures.retry(scene.brain.state.slot_of[JobId("slow")])
    assert (retry.attempts, retry.charged, retry.service) == (0, 0, "hdfs")


def test_where_nobody_can_ask_the_service_jobs_find_out_for_themselves() -> None:
    scene = failing_on_hdfs(given(TEN))
    scene.wait(500.0).expect("j0", is_now(State.QUEUED))
    scene.wait(250.0)
    for n in range(5):
        scene.expect(f"j{n}", runs)


def test_who_may_not_be_retried_is_not_held() -> None:
    scene = given(TEN).submit(a_job("once", max_retries=0)).decide()
    failing_on_hdfs(scene).fail("once", found=said(HDFS)).expect("once", is_now(State.FAILED))


def test_jobs_of_others_that_did_not_fail_on_it_start() -> None:
    scene = failing_on_hdfs(given(TEN)).submit(a_job("free")).wait(10.0).expect("free", runs)
    assert scene.brain.state.failures.health.breaker("hdfs").is_open


# --- what survives ------------------------------------------------------------------------------


def test_a_new_brain_goes_on_with_what_was_written_down() -> None:
    old = failing_on_hdfs(given(TEN)).submit(a_job("hit")).decide()
    old.fail("hit", found=kernel(node_of(old, "hit")))
    kept = Health.read(old.brain.state.failures.health.told())
    assert kept == old.brain.state.failures.health
    new = given(TEN).submit(*(a_job(f"j{n}", tenant=f"u{n % 2}") for n in range(5)))
    new.send(HealthRecalled(0.0, kept))
    for n in range(5):
        past = past_of(old.brain, JobId(f"j{n}"))
        assert past is not None and past.retry is not None
        past = replace(past, retry=RetryState.read(past.retry.told()))
        new.send(JobReported(0.0, JobId(f"j{n}"), 1, Phase.ABSENT, 0.0, past=past))
    new.wait(20.0)
    assert not new.all(Start), "its breaker is still open"
    new.expect("j0", waits_because(ReasonCode.BREAKER_OPEN))
    assert {one.node for one in new.brain.state.failures.health.aside} == {
        one.node for one in kept.aside
    }
    aside = next(iter(kept.aside)).node
    assert new.brain.state.nodes.cordoned[new.brain.state.node_row[aside]]


def test_a_brain_that_has_learnt_something_knows_better_than_what_was_written_down() -> None:
    scene = given(TEN).submit(a_job("hit")).decide().fail("hit", found=kernel("n0"))
    scene.send(HealthRecalled(scene.now, Health()))
    assert scene.brain.state.failures.health.is_aside(NodeId("n0"))


def test_a_copy_learns_for_itself() -> None:
    scene = given(TEN).submit(a_job("hit")).decide().fail("hit", found=kernel("n0"))
    twin = scene.brain.copied()
    twin.handle(NodeChecked(scene.now, NodeId("n0"), passed=True))
    assert not twin.state.failures.health.aside
    assert scene.brain.state.failures.health.is_aside(NodeId("n0"))
    row = scene.brain.state.node_row[NodeId("n0")]
    assert scene.brain.state.nodes.cordoned[row] and not twin.state.nodes.cordoned[row]


@pytest.mark.parametrize("answers", [True, False])
def test_news_of_a_service_or_a_node_that_nobody_missed_changes_nothing(answers: bool) -> None:
    scene = given(TEN).send(ServiceAsked(0.0, "nobody's", answers=answers))
    scene.send(NodeChecked(0.0, NodeId("nowhere"), passed=answers))
    assert scene.brain.state.failures.health.told() == Health().told()
