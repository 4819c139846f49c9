"""Hands that get nowhere with one job leave time for the others, and for the operator itself."""

import asyncio
from random import Random
from typing import Any, cast

import pytest

from weft.brain.event import Tick
from weft.kube.client.api import Api
from weft.kube.metrics import Metrics
from weft.kube.operator import hands
from weft.kube.operator.hands import STEPS_IN_A_ROW, Hands, Scene
from weft.kube.operator.step import Note, Step
from weft.kube.pods import WorkerSettings


class Stubborn:
    """A scene in which whatever the brain is told changes nothing."""

    def __init__(self) -> None:
        self.told = 0

    def look(self, key: str, note: Note) -> str:
        return key

    def deliver_all(self, step: Step) -> None:
        self.told += 1


def test_a_job_of_which_the_brain_learns_nothing_is_left_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hands, "next_step", lambda look: Step(events=(Tick(0.0),)))
    assert asyncio.run(told_at_once("lab/one", "lab/two")) == 2 * STEPS_IN_A_ROW


async def told_at_once(*keys: str) -> int:
    """How often the brain is told something before the loop comes to others."""
    scene = Stubborn()
    made: dict[str, Any] = {"workers": WorkerSettings(), "metrics": Metrics(), "random": Random(0)}
    working = Hands(cast(Api, None), cast(Scene, scene), **made)
    task = asyncio.create_task(working.run())
    for key in keys:
        working.touch(key)
    for _ in range(10):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    working.stop()
    return scene.told
