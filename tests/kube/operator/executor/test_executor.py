"""An executor that gets nowhere with one job leaves time for the others, and for the operator."""

import asyncio
from random import Random
from typing import Any, cast

import pytest

from tests.kube.looks import a_job
from weft.brain.event import Tick
from weft.kube.client.api import Api
from weft.kube.client.errors import AlreadyExists, Conflict
from weft.kube.metrics import Metrics
from weft.kube.operator.executor import executor
from weft.kube.operator.executor.executor import STEPS_IN_A_ROW, Context, Executor
from weft.kube.operator.reconcile.step import Note, Step
from weft.kube.pods import WorkerSettings


class Stubborn:
    """A scene in which whatever the brain is told changes nothing."""

    def __init__(self) -> None:
        self.told = 0

    def look(self, key: str, note: Note) -> str:
        return key

    def aside(self, key: str) -> None:
        return None

    def deliver_all(self, step: Step) -> None:
        self.told += 1


def test_a_job_of_which_the_brain_learns_nothing_is_left_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executor, "next_step", lambda look: Step(events=(Tick(0.0),)))
    assert asyncio.run(told_at_once("lab/one", "lab/two")) == 2 * STEPS_IN_A_ROW


async def told_at_once(*keys: str) -> int:
    """How often the brain is told something before the loop comes to others."""
    scene = Stubborn()
    made: dict[str, Any] = {"workers": WorkerSettings(), "metrics": Metrics(), "random": Random(0)}
    working = Executor(cast(Api, None), cast(Context, scene), **made)
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
    made: dict[str, Any] = {
        "workers": WorkerSettings(default_image="i", isolated=isolated),
        "metrics": Metrics(),
        "random": Random(0),
    }
    working = Executor(cast(Api, Taken(owner)), cast(Context, Stubborn()), **made)
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
