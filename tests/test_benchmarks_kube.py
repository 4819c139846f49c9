"""What the Kubernetes benchmarks generate and how they judge, without a cluster."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import orjson
import pytest

from benchmarks.kube.bare import gang_pods, single_pods
from benchmarks.kube.baseline import CLASSES, TOTAL_GPUS, Work, class_of, job_object, kueue_config
from benchmarks.kube.calls import Call, counted, writes
from benchmarks.kube.executor import Executor
from benchmarks.kube.kueue import read_outcome
from benchmarks.kube.onlooker import JobStory, Seen
from benchmarks.kube.upkeep import changes_of, refresh_gaps
from benchmarks.row import aims_at
from weft.kube.operator.observation.queue import read_queue
from weft.kube.operator.observation.queue_tree import build_tree
from weft.kube.resources.training_job import TrainingJobSpec
from weft.model.ids import QueueId


def test_the_whole_baseline_has_the_published_counts() -> None:
    work = Work()
    assert work.jobs == 15_000
    assert len(work.queues) == 30
    assert work.least_seconds == pytest.approx(66.0)
    assert len({(queue, kind.name) for queue, kind in work.streams()}) == 90


def test_a_share_keeps_queues_and_rates() -> None:
    part = Work(1 / 15)
    assert part.queues == Work().queues
    assert [part.count(kind) for kind in CLASSES] == [23, 7, 3]
    assert part.jobs == 990


def test_the_peer_gets_the_same_work() -> None:
    (cohorts,) = kueue_config(Work())["cohorts"]
    (queues,) = cohorts["queuesSets"]
    jobs = sum(each["count"] for each in queues["workloadsSets"])
    assert cohorts["count"] * queues["count"] * jobs == Work().jobs
    assert (queues["nominalQuota"], queues["borrowingLimit"]) == (20, 100)
    intervals = [each["creationIntervalMs"] for each in queues["workloadsSets"]]
    assert intervals == [100, 500, 1200]


def test_queues_make_a_sound_tree() -> None:
    about = {"uid": "u", "resourceVersion": "1"}
    sights = {}
    for body in Work().queue_objects():
        raw = {**body, "metadata": {**body["metadata"], **about}}
        sights[body["metadata"]["name"]] = read_queue(raw)
    tree, faults = build_tree(sights)
    assert not faults
    roots = [queue for queue in tree.queues if queue.parent is None]
    assert sum(queue.limit_gpus or 0 for queue in roots) == TOTAL_GPUS
    assert len(tree.path(QueueId(Work().queues[0]))) == 2


def test_jobs_are_valid_and_tell_their_class() -> None:
    body = job_object("cq-0-cohort-0", CLASSES[2], 7)
    assert TrainingJobSpec.model_validate(body["spec"]).priority == 200
    assert class_of(body["metadata"]["name"]) is CLASSES[2]


def test_bare_pods_are_pinned_node_by_node_and_belong_to_nobody() -> None:
    singles, gang = single_pods("ns", 16), gang_pods("ns", 3, 2)
    assert [_node(body) for body in singles] == ["node-0"] * 8 + ["node-1"] * 8
    assert [_node(body) for body in gang] == ["node-0", "node-1", "extra-0"]
    for body in (*singles, *gang):
        assert "ownerReferences" not in body["metadata"]
        assert not any(name.startswith("weft.dev/") for name in body["metadata"]["labels"])


def test_a_job_that_loses_its_place_starts_over() -> None:
    async def scene() -> Executor:
        executor = Executor(None, Work())  # type: ignore[arg-type]
        for status in (
            {},
            {"state": "Running", "decision": {"epoch": 1}},
            {"state": "Stopping", "decision": {"epoch": 1}},
            {"state": "Running", "decision": {"epoch": 2}},
            {"state": "Succeeded", "decision": {"epoch": 2}},
        ):
            executor._see(_raw("small-0", status))
        return executor

    executor = asyncio.run(scene())
    (life,) = executor._lives.values()
    assert (life.epoch, executor._tally.preempted, executor._ended) == (2, 1, 1)


def test_calls_are_counted_by_verb_and_resource() -> None:
    page = (
        'apiserver_request_total{code="200",component="apiserver",resource="trainingjobs",'
        'scope="resource",subresource="status",verb="PATCH",version="v1alpha1"} 7\n'
        'apiserver_request_total{code="201",resource="pods",subresource="",verb="POST"} 3\n'
        'apiserver_request_total{code="200",resource="pods",subresource="",verb="LIST"} 5\n'
    )
    calls = counted(page)
    assert calls[Call("PATCH", "trainingjobs/status", "200")] == 7
    assert writes(calls, "pods") == 3
    assert writes(calls) == 10


def test_refreshes_are_told_from_changes() -> None:
    story = JobStory(
        writes=[
            Seen(0.0, "Queued", changed=True),
            Seen(1.0, "Queued", changed=False),
            Seen(7.0, "Queued", changed=False),
            Seen(7.5, "Running", changed=True),
        ]
    )
    assert changes_of(story) == 2
    assert refresh_gaps(story) == [6.0]


def test_the_peers_outcome_is_read_from_its_files(tmp_path: Path) -> None:
    (tmp_path / "summary.yaml").write_text(
        """
clusterQueueClasses:
  cq: {cpuUsed: 1, cpuAverageUsage: 300000, nominalQuota: 600000,
       firstEventTime: "2026-01-01T00:00:00Z", lastEventTime: "2026-01-01T00:01:40.5Z"}
workloadClasses:
  large: {count: 2, totalEvictions: 3, averageTimeToAdmissionMs: 1500}
  small: {count: 9, totalEvictions: 1, averageTimeToAdmissionMs: 250}
"""
    )
    (tmp_path / "kueue.stats.yaml").write_text(
        "{wallMs: 110000, userMs: 1500, sysMs: 500, maxrss: 2048}"
    )
    outcome = read_outcome(tmp_path, "kueue")
    assert outcome.wall_seconds == pytest.approx(100.5)
    assert outcome.admission_seconds == {"large": 1.5, "small": 0.25}
    assert (outcome.usage, outcome.cpu_seconds, outcome.peak_mib) == (0.5, 2.0, 2.0)
    assert outcome.evictions == 4


def test_an_aim_that_is_missed_fails_nothing() -> None:
    row = aims_at("x", 2.0, "s", 1.5)
    assert not row.holds
    assert not row.fails


def _node(body: dict[str, object]) -> str:
    found = orjson.loads(orjson.dumps(body))["spec"]["affinity"]["nodeAffinity"]
    terms = found["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return str(terms[0]["matchFields"][0]["values"][0])


def _raw(name: str, status: Mapping[str, object]) -> dict[str, object]:
    about = {"namespace": "cq-0-cohort-0", "name": name, "resourceVersion": "1"}
    return {"metadata": about, "status": status}
