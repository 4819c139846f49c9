"""Every reason arises in a scenario, with its numbers; every waiting job is told at least one."""

from collections.abc import Callable

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from tests.brain.failing import ECC, HDFS, kernel, said
from tests.builders import (
    Scene,
    a_cluster,
    a_job,
    a_node,
    a_queue,
    also_waits_because,
    given,
    jobs,
    runs,
    waits_because,
)
from weft.brain.event import Verb
from weft.failure.evidence import Failure, FailureClass
from weft.model.cluster import Cluster
from weft.model.reason import ReasonCode
from weft.model.request import Locality
from weft.model.state import State
from weft.policy.recipes import RECIPES, backfill, fifo, srtf
from weft.policy.replays import muri_srtf

ONE_NODE = a_cluster(nodes=1, gpus=8)
TWO_NODES = a_cluster(nodes=2, gpus=8)


def pending() -> Scene:
    return given(ONE_NODE).submit(a_job("waits"))


def quota_limit() -> Scene:
    scene = given(ONE_NODE).with_queues(a_queue("default", limit=2)).submit(a_job("a", 2)).decide()
    return scene.submit(a_job("waits", 1)).decide()


def quota_firm() -> Scene:
    scene = given(ONE_NODE).with_queues(a_queue("default", 2)).submit(a_job("a", 2)).decide()
    return scene.submit(a_job("waits", 1, preemptible=False)).decide()


def quota_never() -> Scene:
    scene = given(ONE_NODE).with_queues(a_queue("default", limit=2))
    return scene.submit(a_job("waits", 4)).decide()


def busy() -> Scene:
    scene = given(ONE_NODE).submit(a_job("runs", 6)).decide()
    return scene.submit(a_job("waits", 4)).decide()


def host_busy() -> Scene:
    scene = given(a_cluster(a_node("n0", 8, cpus=16.0))).submit(a_job("runs", 0, cpus=12.0))
    return scene.decide().submit(a_job("waits", 0, cpus=8.0)).decide()


def releasing() -> Scene:
    scene = given(ONE_NODE).with_recipe(srtf(min_run=0.0, spacing=1.0))
    scene.submit(a_job("long", 8, seconds=1e5)).decide().stay_silent()
    return scene.submit(a_job("waits", 8)).decide()


def fragmented() -> Scene:
    scene = given(TWO_NODES).submit(*jobs(2, "runs", 5)).decide()
    return scene.submit(a_job("waits", 4, max_nodes=1)).decide()


def patient() -> Scene:
    scene = given(TWO_NODES).submit(*jobs(2, "runs", 5)).decide()
    return scene.submit(a_job("waits", 4, locality=Locality())).decide()


def wrong_type() -> Scene:
    scene = given(a_cluster(a_node("a", 8, type="a"), a_node("b", 8, type="b")))
    scene.submit(a_job("runs", 6, types=[("a", 1.0)])).decide()
    return scene.submit(a_job("waits", 4, types=[("a", 1.0)])).decide()


def no_queue() -> Scene:
    return given(ONE_NODE).submit(a_job("waits", queue="nowhere")).decide()


def infeasible() -> Scene:
    return given(TWO_NODES).submit(a_job("waits", 9, max_nodes=1)).decide()


def kept_for_another() -> Scene:
    scene = given(TWO_NODES).with_recipe(backfill(reserve_after=0.0))
    scene.submit(a_job("runs", 4)).decide().submit(a_job("gang", 16)).decide()
    return scene.submit(a_job("waits", 4, seconds=1e6)).decide()


def behind() -> Scene:
    scene = given(ONE_NODE).with_recipe(fifo()).submit(a_job("runs", 4)).decide()
    return scene.submit(a_job("head", 8), a_job("waits", 1)).decide()


def unhealthy() -> Scene:
    scene = given(TWO_NODES).submit(a_job("first")).decide().lose("n1")
    return scene.submit(a_job("waits", 16)).decide()


def failed_before() -> Scene:
    return given(ONE_NODE).submit(a_job("waits")).decide().fail("waits")


def refused() -> Scene:
    scene = given(ONE_NODE).with_settings(refusals_before_backoff=1).stay_silent()
    return scene.submit(a_job("waits")).decide().refuse("waits")


def lost_before() -> Scene:
    failure = Failure(FailureClass.SERVICE, "waits-1-0: exit code 75")
    return given(ONE_NODE).submit(a_job("waits")).decide().lose_worker("waits", "n0", failure)


def set_aside() -> Scene:
    scene = given(TWO_NODES).submit(a_job("hit", 8)).decide()
    scene.fail("hit", found=kernel("n0")).wait(5.0).expect("hit", runs)
    return scene.submit(a_job("waits", 8)).decide()


def keeps_off() -> Scene:
    scene = given(TWO_NODES).submit(a_job("waits", 8), a_job("other", 8)).decide()
    node = next(iter(scene.nodes("waits")))
    return scene.fail("waits", found=said(ECC, node)).wait(100.0)


def behind_a_breaker() -> Scene:
    scene = given(ONE_NODE).submit(*jobs(4, tenant="other"), a_job("waits")).decide()
    for name in ("job0", "job1", "job2", "job3", "waits"):
        scene.fail(name, found=said(HDFS))
    return scene.wait(5.0)


SCENARIOS: dict[ReasonCode, tuple[Callable[[], Scene], dict[str, float | str]]] = {
    ReasonCode.ROUND_PENDING: (pending, {"delay": 0.0}),
    ReasonCode.QUOTA_LIMIT: (quota_limit, {"queue": "default", "used": 2, "limit": 2, "need": 1}),
    ReasonCode.QUOTA_FIRM: (quota_firm, {"used": 2, "limit": 2, "need": 1}),
    ReasonCode.QUOTA_NEVER: (quota_never, {"queue": "default", "limit": 2, "need": 4}),
    ReasonCode.CAPACITY_HOST: (host_busy, {"cpus": 8.0, "memory": 0.0}),
    ReasonCode.CAPACITY_BUSY: (busy, {"free": 2, "total": 8, "need": 4}),
    ReasonCode.CAPACITY_RELEASING: (releasing, {"need": 8}),
    ReasonCode.FRAGMENTED: (fragmented, {"free": 6, "need": 4, "largest": 3}),
    ReasonCode.HEALTH_ASIDE: (set_aside, {"aside": 8, "free": 0, "need": 8}),
    ReasonCode.HEALTH_AVOIDED: (keeps_off, {"avoided": "n0", "free": 0, "other": 8}),
    ReasonCode.BREAKER_OPEN: (behind_a_breaker, {"service": "hdfs"}),
    ReasonCode.LOCALITY_WAIT: (patient, {"nodes": 2, "fewest": 1, "slowdown": 1.15}),
    ReasonCode.CONSTRAINT_TYPE: (wrong_type, {"free": 2, "other": 8, "need": 4}),
    ReasonCode.CONSTRAINT_QUEUE: (no_queue, {"queue": "nowhere", "need": 1}),
    ReasonCode.CONSTRAINT_NEVER: (infeasible, {"need": 9, "largest": 8}),
    ReasonCode.RESERVED: (kept_for_another, {"free": 12, "holder": "gang", "need": 4}),
    ReasonCode.PRIORITY_BEHIND: (behind, {"ahead": 1, "need": 1, "free": 4}),
    ReasonCode.HEALTH_LOST: (unhealthy, {"free": 7, "lost": 8, "need": 16}),
    ReasonCode.BACKOFF_RETRY: (failed_before, {"failures": 1, "delay": 60.0}),
    ReasonCode.BACKOFF_REFUSED: (refused, {"refusals": 1, "delay": 60.0, "refusal": "no."}),
    ReasonCode.BACKOFF_LOST: (lost_before, {"losses": 1, "delay": 60.0}),
}


OF_WORLDS = {ReasonCode.HEALTH_PROBED}
"""What a world tells of jobs that have seats; a brain never says so."""

OF_BRAINS = [code for code in ReasonCode if code not in OF_WORLDS]


def test_there_is_a_scenario_for_every_reason() -> None:
    assert set(SCENARIOS) == set(OF_BRAINS)


@pytest.mark.parametrize("code", OF_BRAINS, ids=lambda code: code.slug)
def test_each_reason_arises_first_with_its_numbers(code: ReasonCode) -> None:
    scenario, numbers = SCENARIOS[code]
    scenario().expect("waits", waits_because(code, **numbers))


@pytest.mark.parametrize("code", OF_BRAINS, ids=lambda code: code.slug)
def test_each_sentence_and_remedy_has_all_its_numbers_filled_in(code: ReasonCode) -> None:
    scenario, _ = SCENARIOS[code]
    for reason in scenario().reasons("waits"):
        for words in (reason.text, reason.remedy):
            assert words and "{" not in words
        assert 0.0 <= reason.shortage <= 1.0


@pytest.mark.parametrize("code", OF_BRAINS, ids=lambda code: code.slug)
def test_looking_changes_nothing(code: ReasonCode) -> None:
    scene = SCENARIOS[code][0]()
    before = scene.brain.copied()
    first = scene.reasons("waits")
    assert scene.reasons("waits") == first
    assert before.explain(scene.brain.state.specs[scene.brain.state.slot_of["waits"]].id) == first  # type: ignore[index,union-attr]


def test_a_job_that_does_not_wait_has_no_reason() -> None:
    scene = given(ONE_NODE).submit(a_job("job")).decide().expect("job", runs)
    assert scene.reasons("job") == []
    assert scene.finish("job").reasons("job") == []
    assert scene.reasons("nobody") == []


def test_the_words_of_a_refusal_last_until_a_start_succeeds() -> None:
    scene = refused()
    assert list(scene.brain.state.failures.refusals.values()) == ["no"]
    scene.wait(60.0).done("waits", Verb.START)
    assert scene.brain.state.failures.refusals == {}


def test_a_refusal_that_an_earlier_brain_received_is_told_without_its_words() -> None:
    scene = refused()
    scene.brain.state.failures.refusals.clear()
    assert scene.reasons("waits")[0].text.startswith("The backend refused its placement. Tried 1")


def test_all_that_apply_are_shown_and_the_larger_shortage_comes_first() -> None:
    scene = given(ONE_NODE).with_queues(a_queue("default", limit=6)).submit(a_job("a", 5)).decide()
    scene.submit(a_job("waits", 4)).decide()
    scene.expect("waits", also_waits_because(ReasonCode.QUOTA_LIMIT))
    scene.expect("waits", also_waits_because(ReasonCode.CAPACITY_BUSY))
    told = scene.reasons("waits")
    assert [reason.shortage for reason in told] == [3 / 4, 1 / 4]
    assert told[0].code is ReasonCode.QUOTA_LIMIT


def test_what_only_time_can_change_stays_in_front() -> None:
    scene = given(ONE_NODE).submit(a_job("waits", 8)).decide().fail("waits")
    scene.submit(a_job("runs", 8)).decide().expect("runs", runs)
    scene.expect("waits", waits_because(ReasonCode.BACKOFF_RETRY))
    scene.expect("waits", also_waits_because(ReasonCode.CAPACITY_BUSY))


def test_a_remedy_says_what_would_fit_now() -> None:
    assert "2" in busy().reasons("waits")[0].remedy
    assert "at most 3" in fragmented().reasons("waits")[0].remedy


def test_an_empty_cluster_is_explained_as_well() -> None:
    scene = Scene(Cluster(())).submit(a_job("waits")).decide()
    scene.expect("waits", waits_because(ReasonCode.CONSTRAINT_NEVER, largest=0))


def test_first_fit_explains_a_cluster_whose_nodes_are_all_lost() -> None:
    scene = given(ONE_NODE).with_recipe(muri_srtf()).submit(a_job("first")).decide().lose("n0")
    assert scene.submit(a_job("waits")).decide().reasons("waits")


def test_a_job_without_gpus_that_no_node_could_ever_hold_is_told_so() -> None:
    scene = given(a_cluster(a_node("n0", 8, cpus=16.0))).submit(a_job("waits", 0, cpus=64.0))
    scene.decide().expect("waits", waits_because(ReasonCode.CONSTRAINT_NEVER))


@for_all(
    name=st.sampled_from([name for name in RECIPES if not name.startswith("muri")]),
    widths=st.lists(st.integers(1, 20), min_size=1, max_size=8),
    limit=st.integers(0, 20),
)
def test_every_waiting_job_is_told_a_reason_with_a_remedy(
    name: str, widths: list[int], limit: int
) -> None:
    scene = given(TWO_NODES).with_recipe(RECIPES[name]())
    scene.with_queues(a_queue("default", limit=limit), a_queue("other", 4))
    for i, width in enumerate(widths):
        queue = "default" if i % 2 else "other"
        scene.submit(a_job(f"job{i}", width, queue=queue, locality=Locality()))
    scene.decide()
    for i in range(len(widths)):
        told = scene.reasons(f"job{i}")
        waits = scene.state(f"job{i}") in (State.QUEUED, State.ADMITTED)
        assert bool(told) == waits
        assert all(reason.text and reason.remedy for reason in told)
        assert len({reason.code for reason in told}) == len(told)


def test_a_job_that_is_tried_again_at_once_says_why_the_last_start_was_refused() -> None:
    scene = given(ONE_NODE).with_settings(refusals_before_backoff=3).stay_silent()
    scene.submit(a_job("waits")).decide().refuse("waits")
    reason = scene.reasons("waits")[0]
    assert reason.code is ReasonCode.ROUND_PENDING
    assert reason.text.endswith("The last start was refused: no.")
