"""An executor that gets nowhere with one job leaves time for the others, and for the operator."""

import asyncio
from random import Random
from typing import Any, cast
from unittest.mock import Mock

import pytest

from tests.kube.looks import a_job, a_pod, seats
from weft.brain.event import Tick
from weft.kube.client.api import Api
from weft.kube.client.errors import AlreadyExists, Conflict, NotFound
from weft.kube.metrics import Metrics
from weft.kube.names import GPU_RESOURCE, JOB_LABEL
from weft.kube.operator.executor import executor
from weft.kube.operator.executor.actions import Actions
from weft.kube.operator.executor.executor import STEPS_IN_A_ROW, Context, Executor
from weft.kube.operator.reconcile.step import (
    CreatePods,
    DeleteJob,
    DeletePods,
    Look,
    Note,
    Rules,
    Step,
)
from weft.kube.pods import WorkerSettings, owner_of
from weft.reconcile.belief import Belief


class Stubborn:
    """A context in which nothing that is told or done changes anything."""

    def __init__(self) -> None:
        self.told = 0

    def look(self, key: str, note: Note) -> Look:
        return Look(key, a_job(), (), Belief(), note, now=0.0, rules=Rules(), lost={})

    def changes(self, key: str) -> int:
        return 0

    def aside(self, key: str) -> None:
        return None

    def deliver_all(self, step: Step) -> None:
        self.told += 1


def test_a_job_of_which_the_brain_learns_nothing_is_left_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executor, "next_step", lambda look: Step(events=(Tick(0.0),)))
    assert asyncio.run(told_at_once("lab/one", "lab/two")) == 2 * STEPS_IN_A_ROW


def test_an_action_that_changes_nothing_is_not_repeated_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executor, "next_step", lambda look: Step(actions=(DeleteJob(),)))
    api = Gone()
    asyncio.run(told_at_once("lab/one", "lab/two", api=api))
    assert api.calls == 2


class Gone:
    """An API server that has nothing any more."""

    def __init__(self) -> None:
        self.calls = 0

    async def delete(self, path: str, **named: object) -> None:
        self.calls += 1
        raise NotFound("gone")


async def told_at_once(*keys: str, api: Gone | None = None) -> int:
    """How often the brain is told something before the loop comes to others."""
    scene = Stubborn()
    made: dict[str, Any] = {"workers": WorkerSettings(), "metrics": Metrics(), "random": Random(0)}
    working = Executor(cast(Api, api), cast(Context, scene), **made)
    task = asyncio.create_task(working.run())
    for key in keys:
        working.touch(key)
    for _ in range(10):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    working.stop()
    return scene.told


class Taken:
    """An API server that has something of that name already."""

    def __init__(self, *owners: dict[str, Any]) -> None:
        self._about = {"ownerReferences": list(owners)}

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        raise AlreadyExists("taken")

    async def get(self, path: str) -> dict[str, Any]:
        assert path in (
            "/api/v1/namespaces/lab/services/weft-vit",
            "/apis/networking.k8s.io/v1/namespaces/lab/networkpolicies/weft-vit",
        )
        return {"metadata": self._about}


def service_of(*owners: dict[str, Any], isolated: bool = False) -> str | None:
    """What speaks against what a gang needs, where somebody's is there."""
    settings = WorkerSettings(default_image="i", isolated=isolated)
    api, context = cast(Api, Taken(*owners)), cast(Context, Stubborn())
    working = Actions(api, context, workers=settings, metrics=Metrics())
    job = a_job(name="vit", namespace="lab", uid="u-new")
    return asyncio.run(working._create_surroundings(job, working._maker(job)))


def test_a_service_of_our_own_is_found_again() -> None:
    assert service_of(owner_of("vit", "u-new")) is None


def test_a_service_of_an_earlier_job_of_that_name_is_waited_for() -> None:
    with pytest.raises(Conflict, match="gone"):
        service_of(owner_of("vit", "u-old"))


CONTROLLER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "vit", "controller": True}


@pytest.mark.parametrize("owners", [(), ({**CONTROLLER, "uid": "u-new"},)])
def test_a_service_of_somebody_else_is_told(owners: tuple[dict[str, Any], ...]) -> None:
    why = str(service_of(*owners))
    assert "Service weft-vit in namespace lab has the name of the Service of this job" in why
    assert "kubectl delete service -n lab weft-vit" in why


def test_a_network_policy_of_somebody_else_is_told() -> None:
    assert service_of(owner_of("vit", "u-new"), isolated=True) is None
    assert "NetworkPolicy weft-vit" in str(service_of(isolated=True))
    with pytest.raises(Conflict, match="NetworkPolicy"):
        service_of(owner_of("vit", "u-old"), isolated=True)


# --- a pod that has the name of a worker ----------------------------------------------------------


class Squatted:
    """An API server that has a pod vit-1-0 already; what is asked of it is noted."""

    def __init__(self, labels: dict[str, str], *owners: dict[str, Any]) -> None:
        about = {"name": "vit-1-0", "namespace": "lab", "uid": "p", "resourceVersion": "7"}
        meta = {**about, "labels": labels, "ownerReferences": list(owners)}
        self.raw = {"metadata": meta, "spec": {"containers": []}, "status": {"phase": "Pending"}}
        self.events: list[dict[str, Any]] = []
        self.took: list[dict[str, Any]] = []

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path.endswith("/events"):
            self.events.append(body)
            return body
        raise AlreadyExists("taken")

    async def get(self, path: str) -> dict[str, Any]:
        assert path == "/api/v1/namespaces/lab/pods/vit-1-0"
        return self.raw

    async def delete(self, path: str, **named: object) -> None:
        raise Conflict("the uid in the precondition does not match")

    def actions(self) -> Actions:
        context = Mock(leader=1, identity="me")
        context.gpu_resource.return_value = GPU_RESOURCE
        context.took_pod.side_effect = self.took.append
        workers = WorkerSettings(default_image="i")
        return Actions(cast(Api, self), context, workers=workers, metrics=Metrics())

    def created(self) -> Note | None:
        """What is remembered of an attempt to create the job's only worker."""
        job = a_job("Starting", 1, placement=ONE, spec={"resources": {"gpus": 1}})
        look = Look("lab/vit", job, (), Belief(), Note(), now=0.0, rules=Rules(), lost={})
        return asyncio.run(self.actions().perform(look, CreatePods(1, ONE, (0,))))


ONE = seats(0)
LABEL = {JOB_LABEL: "vit"}


@pytest.mark.parametrize(
    ("labels", "owners"),
    [
        ({}, []),
        ({}, [owner_of("vit", "u")]),
        (LABEL, []),
        (LABEL, [{**CONTROLLER, "uid": "s"}]),
        (LABEL, [owner_of("other", "u")]),
        ({JOB_LABEL: "other"}, [owner_of("vit", "u")]),
    ],
)
def test_a_pod_without_the_label_or_owner_of_a_worker_is_not_adopted(
    labels: dict[str, str], owners: list[dict[str, Any]]
) -> None:
    server = Squatted(labels, *owners)
    note = server.created()
    assert note is not None and note.refusal is not None
    epoch, serial, why = note.refusal
    assert (epoch, serial, server.took) == (1, 0, [])
    assert "Pod vit-1-0 in namespace lab has the name of a worker of this job" in why
    assert "kubectl delete pod -n lab vit-1-0" in why
    assert [(event["reason"], event["note"]) for event in server.events] == [("NotStarted", why)]


@pytest.mark.parametrize("uid", ["u", "earlier"])
def test_a_worker_that_exists_already_is_found_again(uid: str) -> None:
    """Created by a call without an answer, or for an earlier job of that name."""
    server = Squatted(LABEL, owner_of("vit", uid))
    assert server.created() is None
    assert server.took == [server.raw]


def test_a_pod_that_took_the_name_of_a_deleted_worker_is_not_adopted() -> None:
    server = Squatted({})
    look = Look("lab/vit", a_job("Stopping", 1), (), Belief(), Note(), 0.0, Rules(), lost={})
    asyncio.run(server.actions().perform(look, DeletePods((a_pod(0),))))
    assert server.took == []
