"""Labels and owners of pods that change: what the operator counts, and what it does about it.

Where the chart's admission policies act, only the operator writes labels under weft.dev/. These
tests feed the operator what it sees without them.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.kube.operator.stage import RUNNING, Raw, Stage, played
from weft.brain.event import InstructionDone
from weft.brain.journal import Journal
from weft.kube.client.cache import Cache
from weft.kube.names import JOB_LABEL, PLACEHOLDER_LABEL, PROBE_LABEL
from weft.kube.operator.main import Operator
from weft.kube.operator.observation.pod import ObservedPod
from weft.kube.operator.options import OperatorOptions
from weft.kube.operator.reconcile.next_step import next_step
from weft.kube.operator.reconcile.step import DeletePods, Note, RecordHeldUp, Step
from weft.model.ids import JobId
from weft.model.state import State

KEY = "a/hide"


class Scene:
    """A job of one GPU that runs on n0, and its worker as the API server has it."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.stage.queue("default")
        self.stage.job(KEY, RUNNING)
        self.raw = self.stage.pod(KEY, epoch=1, seat=0, node="n0")
        self.stage.term._begin()
        assert self.stage.state(KEY) is State.RUNNING

    def relabel(self, **about: Any) -> None:
        """Change the worker's metadata, and deliver to each watch what its selector makes of it."""
        before, self.raw = self.raw, self.stage.changed(self.raw, **about)
        for cache in (self.stage.term.pods, self.stage.informers.foreign):
            was_selected = selects(cache, before)
            if selects(cache, self.raw):
                cache.take_event("MODIFIED" if was_selected else "ADDED", self.raw)
            elif was_selected:
                cache.take_event("DELETED", self.raw)
        self.stage.term.intake.tell_nodes()

    def remove(self) -> None:
        """The pod is gone."""
        self.raw = self.stage.changed(self.raw)
        for cache in (self.stage.term.pods, self.stage.informers.foreign):
            if selects(cache, self.raw):
                cache.take_event("DELETED", self.raw)
        self.stage.term.intake.tell_nodes()

    def waits(self, job: str, gpus: int) -> bool:
        """Whether another job of so many GPUs finds too few of them."""
        self.stage.job(job, resources={"gpus": gpus})
        self.stage.term.intake._meet(job)
        self.stage.rounds()
        return self.stage.state(job) is State.QUEUED

    def foreign_gpus(self) -> float:
        return self.stage.term.intake.foreign_use.others("n0").of("nvidia.com/gpu")

    def step(self) -> Step:
        return next_step(self.stage.term.look(KEY, Note()))


def selects(cache: Cache[ObservedPod], raw: Raw) -> bool:
    """Whether the label selector of a watch selects the pod."""
    labels = raw["metadata"].get("labels") or {}
    terms = cache._params["labelSelector"].split(",")
    return all((term.removeprefix("!") in labels) is not term.startswith("!") for term in terms)


def with_label(name: str) -> Callable[[Scene], Raw]:
    return lambda scene: {"labels": {**scene.raw["metadata"]["labels"], name: "x"}}


@pytest.mark.parametrize(
    "name", [PLACEHOLDER_LABEL, PROBE_LABEL, "weft.dev/epoch", "weft.dev/rank"]
)
def test_a_worker_with_another_label_is_the_same_worker(name: str) -> None:
    async def scene() -> None:
        play = Scene()
        play.relabel(**with_label(name)(play))
        assert play.step().idle
        assert play.foreign_gpus() == 0.0, "its seat accounts for it"
        assert play.waits("a/big", 8), "one GPU of eight is in use"

    played(scene)


LOST: dict[str, Raw] = {
    "no label": {"labels": {}},
    "another job's label": {"labels": {JOB_LABEL: "other"}},
    "no owner": {"ownerReferences": []},
}


@pytest.mark.parametrize("change", LOST)
def test_a_job_does_not_run_twice_while_a_former_worker_runs(change: str) -> None:
    """The worker is reported and not deleted; the job starts again once that pod is gone."""

    async def scene() -> None:
        play = Scene()
        stage = play.stage
        play.relabel(**LOST[change])
        stage.term.deliver_all(play.step())
        assert stage.state(KEY) is State.STOPPING
        (action,) = play.step().actions
        assert isinstance(action, RecordHeldUp)
        assert "hide-1-0 left the watch and still runs on n0" in action.why
        assert "kubectl delete pod -n a hide-1-0" in action.why
        assert play.waits("a/big", 8), "the former worker holds one GPU of eight"
        play.remove()
        (event,) = play.step().events
        assert isinstance(event, InstructionDone)
        stage.term.deliver_all(play.step())
        assert play.foreign_gpus() == 0.0

    played(scene)


@pytest.mark.parametrize("change", LOST)
def test_a_new_leader_waits_for_a_former_worker_too(change: str) -> None:
    async def scene() -> None:
        stage = Stage()
        stage.queue("default")
        stage.job(KEY, RUNNING)
        raw = stage.worker(KEY, epoch=1, seat=0, node="n0")
        raw["metadata"] |= LOST[change]
        for cache in (stage.term.pods, stage.informers.foreign):
            if selects(cache, raw):
                cache.take_event("ADDED", raw)
        stage.term._begin()
        stage.rounds()
        assert stage.state(KEY) is State.STOPPING
        step = next_step(stage.term.look(KEY, Note()))
        assert [type(action) for action in step.actions] == [RecordHeldUp]

    played(scene)


def test_a_former_worker_does_not_keep_its_job_from_being_cancelled() -> None:
    async def scene() -> None:
        play = Scene()
        play.relabel(**LOST["no owner"])
        about = {"annotations": {"weft.dev/cancel": "true"}}
        job = play.stage._about("hide", namespace="a", **about)
        raw = {"metadata": job, "spec": {"run": "x", "image": "i"}, "status": RUNNING}
        play.stage.term.jobs.take_event("MODIFIED", raw)
        while (step := play.step()).events:
            play.stage.term.deliver_all(step)
        assert not any(isinstance(action, DeletePods) for action in step.actions)
        assert JobId(KEY) in play.stage.term.brain.state.closed
        play.stage.term.intake.tell_nodes()
        assert play.foreign_gpus() == 1.0, "it still holds its GPU"
        assert play.waits("a/big", 8)

    played(scene)


def test_the_reports_of_a_former_worker_are_refused() -> None:
    async def scene() -> None:
        play = Scene()
        operator = Operator(OperatorOptions(namespace="weft", identity="me"), lambda *_: Journal())
        operator._term = play.stage.term
        uid = play.raw["metadata"]["uid"]
        assert operator.pod("a", "hide-1-0", uid) is not None
        play.relabel(**LOST["no owner"])
        assert operator.pod("a", "hide-1-0", uid) is None

    played(scene)


def test_a_worker_without_label_and_owner_counts_as_a_foreign_pod() -> None:
    async def scene() -> None:
        play = Scene()
        play.relabel(labels={}, ownerReferences=[])
        play.stage.term.intake.tell_nodes()
        assert play.foreign_gpus() == 1.0

    played(scene)


def test_a_labeled_pod_that_is_no_worker_is_counted_and_never_deleted() -> None:
    """Every label of Weft's, and neither the name nor the owner of a worker."""

    async def scene() -> None:
        stage = Stage()
        stage.queue("default")
        raw = stage.worker("a/none", epoch=1, seat=0, node="n0")
        raw = stage.changed(raw, name="free", ownerReferences=None)
        raw["metadata"]["labels"] |= {PLACEHOLDER_LABEL: "true", PROBE_LABEL: "x"}
        stage.term.pods.take_event("ADDED", raw)
        stage.job("a/big", resources={"gpus": 8})
        stage.term._begin()
        stage.rounds()
        assert stage.term.intake.foreign_use.others("n0").of("nvidia.com/gpu") == 1.0
        assert stage.state("a/big") is State.QUEUED
        assert stage.term._pods.of_job == {}
        assert stage.api.deleted == []

    played(scene)
