"""A served world, and the jobs that stand in it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.memory import a_running_job, a_waiting_job
from tests.api.served import Served, serving
from weft.api import peer
from weft.api.backend import JobKey
from weft.api.client import Client

MINE = JobKey("root", "llama")
THEIRS = JobKey("alice", "secret")


@pytest.fixture(autouse=True)
def we_are_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests goes by that name."""
    known = peer.user_name
    ours = os.geteuid()
    monkeypatch.setattr(peer, "user_name", lambda uid: "root" if uid == ours else known(uid))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """One job of root that runs, and one of alice that waits."""
    with serving(tmp_path / "weft.sock") as made:
        made.do(made.world.put(a_running_job(MINE)))
        made.do(made.world.put(a_waiting_job(THEIRS)))
        yield made


@pytest.fixture
def client(served: Served) -> Client:
    return Client(served.socket)
