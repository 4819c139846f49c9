"""With the real agent: plain scripts, and what its model must have in common with it."""

import asyncio
from typing import Any

from tests.local.daemons import Lab, a_lab, wait_until
from weft.agent.messages import Drain, Resize, Status
from weft.agent.wire.orders import ask
from weft.local.agents.launch import AGENT

MODEL = "tests.local.model_agent"


def test_the_model_answers_as_the_agent_does() -> None:
    told = [answers(agent) for agent in (AGENT, MODEL)]
    agent, model = told
    assert set(agent["status"]) == set(model["status"])
    workers = [next(iter(found["status"]["workers"].values())) for found in told]
    assert set(workers[0]) == set(workers[1])
    for key in ("width", "target", "live", "draining", "step", "saved_step", "incarnation", "job"):
        assert agent["status"][key] == model["status"][key], key
    assert agent["drained"]["draining"] is model["drained"]["draining"] is True


def answers(agent: str) -> dict[str, dict[str, Any]]:
    """Of a job that has spoken to nobody yet: a script that knows nothing of Weft."""
    run = "sleep 1000" if agent == AGENT else "model total=10 step=1000"
    with a_lab(agent=agent) as lab:
        lab.start()
        lab.submit("same", run, gpus=2, nproc_per_node="gpu", grace="1s")
        lab.wait_for("same", "Running")
        folder = lab.folders().epoch(lab.entry("same"))
        wait_until(lambda: len(said(folder, Status())["workers"]) == 2, "its workers", lab.log)
        status = said(folder, Status())
        drained = said(folder, Drain(5.0))
        return {"status": status, "drained": drained}


def test_a_plain_script_runs_once_with_all_its_slots() -> None:
    with a_lab(agent=AGENT) as lab:
        lab.start()
        lab.submit("plain", 'echo "$RANK of $WORLD_SIZE with $WEFT_GPUS GPUs"', gpus=2)
        lab.wait_for("plain", "Succeeded")
        assert printed(lab, "plain") == ["0 of 1 with 2 GPUs"]
        assert not lab.leftovers()


def test_a_script_for_each_slot_is_told_its_rank() -> None:
    with a_lab(agent=AGENT) as lab:
        lab.start()
        lab.submit(
            "ranks",
            'echo "$RANK of $WORLD_SIZE in $PWD with $GREETING"',
            gpus=2,
            nproc_per_node="gpu",
            env={"GREETING": "hello"},
        )
        lab.wait_for("ranks", "Succeeded")
        assert printed(lab, "ranks") == [
            f"{rank} of 2 in {lab.folder} with hello" for rank in range(2)
        ]
        assert not lab.leftovers()


def test_a_plain_script_that_fails_says_how() -> None:
    with a_lab(agent=AGENT) as lab:
        lab.start()
        lab.submit("broken", "exit 7", retry={"limit": 1})
        lab.wait_for("broken", "Failed")
        entry = lab.entry("broken")
        assert (entry.exit_code, entry.epoch) == (7, 2)


def test_a_plain_script_cannot_be_resized() -> None:
    with a_lab(agent=AGENT, recipe="maxmin(spacing=0.1, hold=0.0, min_run=0.0)") as lab:
        lab.start()
        lab.submit("plain", "sleep 1000", gpus="1..2")
        lab.wait_for("plain", "Running")
        assert lab.entry("plain").width == 2
        lab.submit("second", "true", gpus=1)
        wait_until(lambda: bool(lab.entry("second").reasons), "it to be told why", lab.log)
        assert lab.entry("plain").width == 2
        assert not lab.client.job("plain").detail.line.ending


def said(folder: Any, message: Status | Drain | Resize) -> dict[str, Any]:  # noqa: ANN401
    return asyncio.run(ask(folder, message)).body


def printed(lab: Lab, name: str) -> list[str]:
    logs = sorted(lab.folder.glob(f"jobs/{lab.entry(name).uid}/epoch-*/logs/worker-*.log"))
    return [line for log in logs for line in log.read_text().splitlines()]
