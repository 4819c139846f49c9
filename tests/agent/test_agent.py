"""What the agent says of its job, and what it keeps to itself."""

import asyncio
import json
from pathlib import Path

import pytest

from weft.agent.agent import Agent
from weft.agent.messages import Hello, Pulse, Ready
from weft.agent.reports.report import Said
from weft.agent.settings import Settings


class Reports:
    """In place of the reporter."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def say(self, said: Said, *, soon: bool = False) -> None:
        self.steps.append(said.step)


def pulse(epoch: int, step: int) -> Pulse:
    return Pulse(epoch, step, "standby", 0.0, samples=step, total=100)


def test_a_member_that_has_not_loaded_yet_does_not_say_how_far_the_job_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.agent.agent.free_port", lambda: 29500)
    agent, reports = Agent(Settings(("true",), 1, folder=tmp_path)), Reports()
    monkeypatch.setattr(agent.progress, "reporter", reports)
    mind = agent.coordinator
    mind.start(0.0, source="here", saved_step=41)
    for message in (Hello("worker", 0, 1, ""), Ready(1.0, elastic=True)):
        mind.heard(0, message, 1.0)
    assert mind.members == (0,)
    agent.worker_said(0, pulse(epoch=0, step=0))
    agent.worker_said(0, pulse(epoch=mind.latest_epoch, step=42))
    assert reports.steps == [42]


def test_an_agent_that_cannot_open_its_socket_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("adopt_orphans", "end_orphans", "free_port"):  # this process has children
        monkeypatch.setattr(f"weft.agent.agent.{name}", lambda: 29500)
    agent = Agent(Settings(("true",), 1, folder=tmp_path))

    async def refused(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(agent.server, "open", refused)
    with pytest.raises(PermissionError):
        asyncio.run(agent.run())
    said = json.loads((tmp_path / "outcome.json").read_text())["why"]
    assert (
        said == f"the agent has failed: [Errno 13] Permission denied: '{agent.run_folder.socket}'"
    )
