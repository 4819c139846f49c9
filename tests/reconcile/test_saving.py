"""What a job is told of failures: by the nodes of its cluster, and by its own."""

import pytest

from tests.builders import a_cluster, a_job, given
from weft.brain.event import HealthRecalled
from weft.failure.blame import Blame, Blames
from weft.failure.health import Health
from weft.failure.interval import NODE_FAULTS_PER_DAY
from weft.model.ids import JobId, NodeId, TenantId
from weft.reconcile.saving import saving_advice

DAY = 86_400.0


def blames(count: int, weight: float = 1.0) -> Health:
    entries = (
        Blame(
            node=NodeId("n0"),
            at_seconds=1.0,
            job=JobId(f"j{number}"),
            user=TenantId("u"),
            fingerprint="f",
            weight=weight,
        )
        for number in range(count)
    )
    return Health(blames=Blames(tuple(entries)))


def test_a_gpu_fails_as_often_as_its_node_does_by_its_share() -> None:
    scene = given(a_cluster(nodes=2, gpus=4)).submit(a_job("vit", gpus=4))
    found = saving_advice(scene.brain, JobId("vit"))
    per_gpu = DAY / (NODE_FAULTS_PER_DAY / 4)
    assert found.gpu_seconds_between_failures == pytest.approx(per_gpu)
    assert found.longest_seconds == 1800.0


def test_who_cannot_be_stopped_for_others_saves_less_often() -> None:
    scene = given(a_cluster(nodes=1, gpus=4)).submit(a_job("vit", gpus=4, preemptible=False))
    assert saving_advice(scene.brain, JobId("vit")).longest_seconds == 3600.0
    assert saving_advice(scene.brain, JobId("unknown")).longest_seconds == 1800.0


def test_nodes_that_failed_here_make_for_more_saves() -> None:
    scene = given(a_cluster(nodes=2, gpus=4)).submit(a_job("vit", gpus=4))
    before = saving_advice(scene.brain, JobId("vit")).gpu_seconds_between_failures
    scene.send(HealthRecalled(scene.now, blames(20, weight=0.5)))
    assert saving_advice(scene.brain, JobId("vit")).gpu_seconds_between_failures == before
    scene = given(a_cluster(nodes=2, gpus=4)).submit(a_job("vit", gpus=4))
    scene.send(HealthRecalled(scene.now, blames(20)))
    assert saving_advice(scene.brain, JobId("vit")).gpu_seconds_between_failures < before / 3
