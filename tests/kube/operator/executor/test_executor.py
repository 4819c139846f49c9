"""An executor that gets nowhere with one job leaves time for the others, and for the operator."""

import asyncio
from random import Random
from typing import Any, cast

import pytest

from tests.kube.looks import a_job
from weft.brain.event import Tick
from weft.kube.client.api import Api
from weft.kube.client.errors import AlreadyExists, Conflict, NotFound
from weft.kube.metrics import Metrics
from weft.kube.operator.executor import executor
from weft.kube.operator.executor.actions import Actions
from weft.kube.operator.executor.executor import STEPS_IN_A_ROW, Context, Executor
from weft.kube.operator.reconcile.step import DeleteJob, Look, Note, Rules, Step
from weft.kube.pods import WorkerSettings
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

    def __init__(self, owner: str) -> None:
        controller = {"controller": True, "uid": owner}
        self._about = {"ownerReferences": [controller] if owner else []}

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        raise AlreadyExists("taken")

    async def get(self, path: str) -> dict[str, Any]:
        assert path in (
            "/api/v1/namespaces/lab/services/weft-vit",
            "/apis/networking.k8s.io/v1/namespaces/lab/networkpolicies/weft-vit",
        )
        return {"metadata": self._about}


def service_of(owner: str, *, isolated: bool = False) -> str | None:
    """What speaks against what a gang needs, where somebody's is there."""
    settings = WorkerSettings(default_image="i", isolated=isolated)
    api, context = cast(Api, Taken(owner)), cast(Context, Stubborn())
    working = Actions(api, context, workers=settings, metrics=Metrics())
    job = a_job(name="vit", namespace="lab", uid="u-new")
    return asyncio.run(working._create_surroundings(job, working._maker(job)))


def test_a_service_of_our_own_is_found_again() -> None:
    assert service_of("u-new") is None


def test_a_service_of_an_earlier_job_of_that_name_is_waited_for() -> None:
    with pytest.raises(Conflict, match="gone"):
        service_of("u-old")


def test_a_service_of_somebody_else_is_told() -> None:
    assert "Service weft-vit" in str(service_of(""))


def test_a_network_policy_of_somebody_else_is_told() -> None:
    assert service_of("u-new", isolated=True) is None
    assert "NetworkPolicy weft-vit" in str(service_of("", isolated=True))
    with pytest.raises(Conflict, match="NetworkPolicy"):
        service_of("u-old", isolated=True)
