"""A term that begins with many jobs: what is read once, and who is looked at."""

import asyncio
from unittest.mock import patch

from tests.kube.looks import a_pod
from tests.kube.operator.stage import RUNNING, Stage, played
from tests.waiting import hang_guard
from weft.brain.event import Tick
from weft.kube.operator.no_journal import NoJournal
from weft.kube.operator.observation import parsed_request
from weft.kube.operator.observation.job import JobReader
from weft.kube.operator.observation.pod_index import PodIndex, nodes_touched
from weft.model.state import State
from weft.spec.request import to_request


def test_what_a_job_asks_is_worked_out_once_and_never_again() -> None:
    reader = JobReader()
    raw = {
        "metadata": {
            "uid": "u",
            "namespace": "lab",
            "name": "vit",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"run": "train", "resources": {"gpus": 4}},
    }
    with patch.object(parsed_request, "to_request", wraps=to_request) as reads:
        first = reader(raw)
        again = reader({**raw, "status": RUNNING})
    assert reads.call_count == 1
    assert first.parsed is again.parsed
    assert again.parsed is not None and again.parsed.request is not None
    assert again.parsed.request.width.asked_gpus == 4
    assert (first.epoch, first.placement, first.plan) == (0, None, None)
    assert again.placement is again.placement is not None
    assert (again.epoch, again.next_seat) == (1, 1)


def test_a_term_begins_on_what_was_followed_before_it() -> None:
    """Nobody told it of the objects: they were there."""

    async def scene() -> None:
        stage = Stage()
        stage.informers.tell(None)
        stage.queue("default")
        stage.job("a/trains", RUNNING)
        stage.pod("a/trains", epoch=1, seat=0, node="n0")
        stage.job("a/big", resources={"gpus": 8})
        stage.informers.tell(stage.term.intake)
        stage.term._begin()
        stage.rounds()
        assert stage.state("a/trains") is State.RUNNING
        assert stage.state("a/big") is State.QUEUED, "one GPU of eight is in use"

    played(scene)


def test_whoever_only_waits_is_not_looked_at_when_a_term_begins() -> None:
    async def scene() -> None:
        stage = Stage()
        stage.queue("default")
        stage.job("a/waits")
        stage.job("a/queued", {"state": "Queued"})
        stage.job("a/ended", {"state": "Succeeded"})
        stage.job("a/trains", RUNNING)
        stage.job("a/orphan", {"state": "Queued"})
        stage.pod("a/orphan", epoch=1, seat=0, node="n0")
        stage.job("a/aside", {"conditions": [{"type": "SetAside", "message": "why"}]})
        stage.term._begin()
        line = [key for key in stage.term.jobs.items if stage.term.is_busy(key)]
        assert line == ["a/ended", "a/trains", "a/orphan", "a/aside"]

    played(scene)


def test_a_start_goes_before_those_that_may_have_changed() -> None:
    async def scene() -> None:
        stage = Stage()
        stage.queue("default")
        for number in range(3):
            stage.job(f"a/ended-{number}", {"state": "Succeeded"})
        stage.job("a/waits")
        stage.term._begin()
        stage.term.decider.deliver(Tick(stage.term.now() + 20.0))
        assert stage.state("a/waits") is State.STARTING
        assert await stage.term.executor._work_queue.get() == "a/waits"

    played(scene)


def test_the_last_leader_of_a_broken_follower_is_told() -> None:
    """Whatever breaks while objects are followed ends the term that rests on them."""

    async def scene() -> None:
        stage = Stage()
        for cache in stage.informers.all:
            cache.synced.set()

        async def breaks() -> None:
            await stage.term.wait_until_begun()
            raise ZeroDivisionError

        stage.informers._tasks = {asyncio.create_task(breaks())}
        assert stage.informers.follows
        try:
            async with hang_guard("the end of the term"):
                await stage.term.run()
        except ZeroDivisionError:
            assert not stage.informers.follows
        else:
            raise AssertionError("the term went on")

    played(scene)


def test_a_journal_that_nobody_keeps_counts() -> None:
    journal = NoJournal()
    empty = journal.digest
    journal.record(Tick(1.0), [])
    assert (journal.records, journal.digest) == (1, empty)


def test_pods_by_job_and_by_node() -> None:
    index = PodIndex()
    bound, elsewhere = a_pod(0, node="n1"), a_pod(0, node="n2", uid="other")
    index.worker_changed("lab/p", None, bound)
    assert set(index.of_job[bound.key]) == {bound.name}
    assert set(index.on_node) == {"n1"}
    assert nodes_touched(None, bound) == {"n1"}
    ended = a_pod(0, "Succeeded", node="n1")
    index.worker_changed("lab/p", bound, ended)
    assert index.on_node == {} and index.of_job
    index.worker_changed("lab/p", ended, None)
    assert index.of_job == {}
    index.changed(None, elsewhere)
    assert set(index.on_node) == {"n2"} and index.of_job == {}
    assert nodes_touched(bound, elsewhere) == {"n1", "n2"}
