"""Who leads a job is on record before anybody is told: versions, refusals, and what comes back."""

import asyncio
import copy
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from tests.kube.looks import NOW, a_job, seats
from weft.kube.client.api import Api
from weft.kube.client.errors import Conflict, Unavailable
from weft.kube.operator.executor.headships import MOST_TRIES, record
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.status.patches import decision_patch, head_patch
from weft.kube.reports.headship import FIRST, Headship
from weft.kube.reports.refusal import Refusal
from weft.model.decision import Assignment
from weft.model.errors import NotLeading
from weft.model.state import State

LED = Headship(2, 3, (0, 1))


def merged(status: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """As an API server merges: null takes away."""
    found = copy.deepcopy(status)
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, dict):
            found[name] = merged(found.get(name, {}), value)
        else:
            found[name] = value
    return found


@dataclass
class Server:
    """One job, and an API server that may be ahead of the cache, forget a field or fail."""

    job: ObservedJob
    ahead: int = 0
    prunes: bool = False
    fails: Exception | None = None
    calls: list[str] = field(default_factory=list)

    async def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.calls.append(f"PATCH {path}")
        if self.fails is not None:
            raise self.fails
        if body["metadata"]["resourceVersion"] != str(self.job.version + self.ahead):
            raise Conflict("somebody was faster")
        status = dict(self.job.status)
        return {} if self.prunes else merged(status, body["status"])

    async def get(self, path: str) -> dict[str, Any]:
        self.calls.append(f"GET {path}")
        self.ahead = 0
        return dict(self.job.status)

    def observed(self, key: str) -> ObservedJob | None:
        return self.job if key == self.job.key else None

    def took_job(self, raw: dict[str, Any]) -> None:
        if raw:
            self.job = a_job("Running", status=raw)


def a_server(**more: Any) -> Server:
    return Server(a_job("Running", 1, placement=seats(0, 1, 2)), **more)


def put(server: Server, epoch: int = 1, headship: Headship = LED) -> int:
    try:
        asyncio.run(record(cast(Api, server), server, "lab/vit", epoch, headship))
    except Refusal as refusal:
        return refusal.status
    return 200


def test_what_was_put_on_record_is_found_there() -> None:
    server = a_server()
    assert server.job.headship == FIRST
    assert put(server) == 200
    assert server.job.headship == LED
    assert put(server) == 200
    assert len(server.calls) == 1, "what stands there already is not written again"


def test_a_patch_from_an_old_view_is_made_again_from_the_present_one() -> None:
    server = a_server(ahead=1)
    assert put(server) == 200
    assert [call.split()[0] for call in server.calls] == ["PATCH", "GET", "PATCH"]


def test_resources_that_do_not_know_heads_keep_no_record_and_nobody_relies_on_it() -> None:
    server = a_server(prunes=True)
    assert put(server) == 503
    assert len(server.calls) == MOST_TRIES


@pytest.mark.parametrize("error", [Unavailable("no answer"), NotLeading("another leads", hint="")])
def test_a_write_that_may_not_have_happened_is_no_promise(error: Exception) -> None:
    assert put(a_server(fails=error)) == 503


def test_another_epoch_has_another_head() -> None:
    server = a_server()
    assert put(server, epoch=2) == 409
    assert put(server) == 200
    assignment = Assignment(3, seats(0, 1, 2))
    patch = decision_patch(server.job, 2, assignment, state=State.STARTING, now=NOW, leader=1)
    server.job = a_job(status=merged(dict(server.job.status), patch["status"]))
    assert server.job.headship == FIRST


def test_a_patch_carries_the_version_it_was_made_from() -> None:
    assert head_patch(a_job(version=7), LED) == {
        "metadata": {"resourceVersion": "7"},
        "status": {"decision": {"head": {"seat": 2, "term": 3, "lost": [0, 1]}}},
    }
