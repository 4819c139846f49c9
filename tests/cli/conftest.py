"""The command line as a test calls it: words in; exit status, data and talk out."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from tests.cli.called import Weft, call
from tests.cli.fake_cluster import EVENTS, JOBS, LEASES, NODES, PODS, QUEUES, FakeApi
from tests.cli.objects import (
    Thing,
    a_failed_job,
    a_foreign_pod,
    a_node,
    a_queue,
    a_running_job,
    a_waiting_job,
    a_worker,
    an_event,
    ready,
)

PULLING = {"waiting": {"reason": "ImagePullBackOff"}}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def weft(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Weft:
    """Call the command line in this process, by somebody who has no settings of their own."""
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("NO_COLOR", "WEFT_CONTEXT", "WEFT_LOCAL_SOCKET", "WEFT_VERBOSE"):
        monkeypatch.setenv(name, "")  # so that what a command sets is taken back afterwards
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setattr("weft.cli.worlds.contexts.SYSTEM_SOCKET", tmp_path / "system" / "weft.sock")
    return partial(call, capsys)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """A small cluster at noon: three jobs of `research`, one of `prod`, and all around them."""
    api = FakeApi(
        {
            JOBS: [
                a_failed_job(version=3),
                a_running_job(version=5),
                a_waiting_job(version=7),
                a_waiting_job("eval", namespace="prod", version=9),
            ],
            QUEUES: _queues(),
            NODES: [
                a_node("node-1", rack="r1"),
                a_node("node-2", rack="r1", spec={"unschedulable": True}),
                a_node("node-3", gpu_type="A100", is_ready=False),
                a_node("node-4", spec={"taints": [{"key": "repair", "effect": "NoSchedule"}]}),
                a_node("cpu-1", gpus=0),
            ],
            PODS: [
                a_worker("llama-sft"),
                a_worker("llama-sft", rank=1, node="node-2", state=PULLING, phase="Pending"),
                a_foreign_pod("notebook", node="node-4", gpus=2),
            ],
            EVENTS: [
                an_event("llama-sft", "Started", "It runs.", at="2026-01-01T08:12:00Z"),
                an_event("llama-sft", "Failed", "Lost.", at="2026-01-01T08:11:00Z", times=3),
            ],
            LEASES: [],
        },
        logs={"llama-sft-3-0": [b"step 1\nst", b"ep 2\n", b"\x1b[31mstep 3\x1b[0m"]},
    )

    async def connect(_kubeconfig: str | None, _context: str | None) -> FakeApi:
        return api

    monkeypatch.setenv("WEFT_CONTEXT", "cluster")
    monkeypatch.setattr("weft.cli.worlds.cluster.connect", connect)
    monkeypatch.setattr("weft.kube.reading.waits.now", lambda: NOON)
    for command in ("jobs.ls", "jobs.show", "overview.top", "jobs.why_world"):
        monkeypatch.setattr(f"weft.cli.{command}.now", lambda: NOON)
    return api


def _queues() -> list[Thing]:
    """A root with two children, of which one is wrong, and a queue that nobody has looked at."""
    return [
        a_queue(
            "research",
            spec={"parent": "all", "guaranteed": 16, "limit": 32},
            status={"used": 16, "running": 1, "waiting": 1, **ready()},
        ),
        a_queue(
            "all",
            spec={"recipe": "las(hold=600)"},
            status={"guaranteed": 24, "used": 16, "running": 1, "waiting": 2, **ready()},
        ),
        a_queue(
            "prod",
            spec={
                "parent": "all",
                "guaranteed": 8,
                "namespaces": ["prod"],
                "borrowing": False,
                "weight": 2.5,
            },
            status={"used": 0, "running": 0, "waiting": 1, **ready(False, "too much promised")},
        ),
        a_queue("new"),
    ]
