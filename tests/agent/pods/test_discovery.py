"""How followers find the head: what is asked, how long, and what ends the search."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.reports.endpoint import an_endpoint
from weft.agent.pods.discovery import (
    AGAIN_SECONDS,
    REFUSED_SECONDS,
    Announcer,
    Head,
    address_of,
    find,
    host_and_port,
)
from weft.agent.reports.operator_client import Answer, Destination
from weft.model.errors import WorldError

KEY = "ab" * 32
HEAD = Head("10.0.0.7:4321", KEY)
TOLD = json.dumps({"epoch": 3, "address": HEAD.address, "key": KEY}).encode()


class Desk:
    """An operator that answers as it is told, and a clock that only waiting moves."""

    def __init__(self, folder: Path, *answers: Answer | Exception) -> None:
        (folder / "token").write_text("secret")
        self.destination = Destination(
            url="http://operator/report", token_file=folder / "token", job="lab/llama", epoch=3
        )
        self.answers = list(answers)
        self.asked: list[tuple[str, str, str, bytes | None]] = []
        self.now = 0.0
        self.waits: list[float] = []

    def ask(
        self, _: Destination, token: str, method: str, below: str, body: bytes | None
    ) -> Answer:
        self.asked.append((token, method, below, body))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.now += seconds
        return False

    def find(self, limit: float = 60.0, wait: Callable[[float], bool] | None = None) -> Head:
        return find(
            self.destination, limit, ask=self.ask, clock=lambda: self.now, wait=wait or self.wait
        )


def test_the_head_is_found_as_soon_as_it_has_said_where_it_is(tmp_path: Path) -> None:
    desk = Desk(tmp_path, Answer(404), OSError("no route"), Answer(503), Answer(200, body=TOLD))
    assert desk.find() == HEAD
    assert desk.asked == [("secret", "GET", "/head", None)] * 4
    assert len(desk.waits) == 3


def test_each_wait_is_longer_but_none_is_long(tmp_path: Path) -> None:
    desk = Desk(tmp_path, Answer(404))
    with pytest.raises(WorldError, match="no head was found in time: 404"):
        desk.find(limit=100.0)
    assert desk.waits[0] <= 0.25
    assert 2.5 <= desk.waits[-1] <= 5.0
    assert desk.now <= 100.0


def test_the_operators_wish_is_heeded_within_reason(tmp_path: Path) -> None:
    desk = Desk(tmp_path, Answer(404, 2.0), Answer(404, 120.0), Answer(200, body=TOLD))
    desk.find()
    assert desk.waits == [2.0, 5.0]


@pytest.mark.parametrize("status", [401, 403, 409, 410])
def test_a_pod_that_is_not_wanted_ends_its_search(tmp_path: Path, status: int) -> None:
    desk = Desk(tmp_path, Answer(status, error="placed anew"))
    with pytest.raises(WorldError, match="not wanted: placed anew"):
        desk.find()
    assert REFUSED_SECONDS <= desk.now <= REFUSED_SECONDS + 10.0


def test_a_pod_that_the_operator_does_not_know_yet_goes_on_asking(tmp_path: Path) -> None:
    refusals = [Answer(403, error="no worker")] * 5
    assert Desk(tmp_path, *refusals, Answer(200, body=TOLD)).find() == HEAD


def test_a_search_that_is_stopped_ends(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="given up"):
        Desk(tmp_path, Answer(404)).find(wait=lambda _: True)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        json.dumps({"address": "10.0.0.7:1", "key": 7}).encode(),
        json.dumps({"address": "10.0.0.7:1", "key": "no key"}).encode(),
        json.dumps({"address": ["10.0.0.7:1"], "key": KEY}).encode(),
    ],
)
def test_what_cannot_be_a_head_is_none(tmp_path: Path, body: bytes) -> None:
    with pytest.raises(WorldError, match="cannot be one"):
        Desk(tmp_path, Answer(200, body=body)).find()


@pytest.mark.parametrize("address", ["", "10.0.0.7", "10.0.0.7:", ":80", "a b:80", "[::1:80"])
def test_an_address_without_a_host_or_a_port_is_none(address: str) -> None:
    with pytest.raises(WorldError, match="is no address"):
        host_and_port(address)


@pytest.mark.parametrize("host", ["10.0.0.7", "fd00::7", "head.lab.svc"])
def test_an_address_comes_apart_as_it_was_put_together(host: str) -> None:
    assert host_and_port(address_of(host, 4321)) == (host, 4321)


def test_the_head_says_where_it_is_again_and_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path, OSError("away"), Answer(503), Answer(200))
    announcer = Announcer(desk.destination, HEAD, desk.ask)
    waits = [announcer.turn() for _ in range(4)]
    assert waits[0] < waits[1] < AGAIN_SECONDS
    assert waits[2:] == [AGAIN_SECONDS, AGAIN_SECONDS]
    token, method, below, body = desk.asked[-1]
    assert (token, method, below) == ("secret", "POST", "/head")
    assert body is not None
    assert json.loads(body) == json.loads(TOLD)


def test_a_token_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    desk = Desk(tmp_path, Answer(200, body=TOLD))
    desk.destination.token_file.write_text("")

    def wait(seconds: float) -> bool:
        desk.destination.token_file.write_text("renewed")
        return desk.wait(seconds)

    assert desk.find(wait=wait) == HEAD
    assert desk.asked == [("renewed", "GET", "/head", None)]


# -------------------------------------------------------------------------- the real endpoint


def test_the_real_endpoint_brings_a_follower_to_its_head(
    tmp_path: Path, socket_enabled: None
) -> None:
    async def run() -> Head:
        async with an_endpoint(tmp_path) as endpoint:
            searching = asyncio.create_task(asyncio.to_thread(find, endpoint.of("follower"), 30.0))
            announcer = Announcer(endpoint.of("right"), HEAD)
            assert await asyncio.to_thread(announcer.turn) == AGAIN_SECONDS
            return await searching

    assert asyncio.run(run()) == HEAD


def test_the_real_endpoint_hears_no_head_but_the_first_seat(
    tmp_path: Path, socket_enabled: None
) -> None:
    async def run() -> float:
        async with an_endpoint(tmp_path) as endpoint:
            impostor = Announcer(endpoint.of("follower"), HEAD)
            return await asyncio.to_thread(impostor.turn)

    assert asyncio.run(run()) < AGAIN_SECONDS
