"""Calls to an API server: what is sent, what comes back, and what each refusal means."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kube.weather import Climate, Fault, Weather
from tools.testcluster import ControlPlane
from weft.kube.client.api import APPLY, Api
from weft.kube.client.credentials import Credentials
from weft.kube.client.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    TooManyRequests,
    Unavailable,
    refusal,
)
from weft.model.errors import NotLeading, WorldError

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


# ------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (400, "BadRequest", Invalid),
        (401, "Unauthorized", Forbidden),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (418, "", ApiError),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", Unavailable),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", Unavailable),
    ],
)
def test_each_status_has_its_error(status: int, reason: str, kind: type[ApiError]) -> None:
    body = orjson.dumps({"reason": reason, "message": "no", "details": {"name": "x"}})
    error = refusal(status, body, wrote=True, what="PUT /x")
    assert type(error) is kind
    assert isinstance(error, WorldError)
    assert (error.status, error.reason, error.details) == (status, reason, {"name": "x"})
    assert str(error) == "PUT /x: no"
    assert error.hint


def test_only_a_write_is_ambiguous() -> None:
    for wrote in (True, False):
        error = refusal(500, b"{}", wrote=wrote)
        assert isinstance(error, Unavailable)
        assert error.ambiguous is wrote


def test_a_pause_may_stand_in_header_or_body() -> None:
    assert refusal(429, b"{}", retry_after="7", wrote=False).retry_after_seconds == 7
    body = b'{"details": {"retryAfterSeconds": 3}}'
    assert refusal(429, body, wrote=False).retry_after_seconds == 3
    assert refusal(503, b"", retry_after="soon", wrote=False).retry_after_seconds == 0


@pytest.mark.parametrize("body", [b"<html>bad gateway", b"", b"[1]", b'"no"', b"\xff\xfe"])
def test_a_refusal_need_not_be_json(body: bytes) -> None:
    assert isinstance(refusal(502, body, wrote=False), Unavailable)


# -------------------------------------------------------------------------------- without network


class Piecewise(Api):
    """An API whose answer comes in these pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__(nowhere())
        self.pieces = pieces

    async def stream(
        self, path: str, params: Mapping[str, str] | None = None, **_: Any
    ) -> AsyncGenerator[bytes, None]:
        for piece in self.pieces:
            yield piece


def nowhere() -> Credentials:
    return Credentials("http://127.0.0.1:9")


async def watched(pieces: list[bytes]) -> list[tuple[str, dict[str, Any]]]:
    async with Piecewise(pieces) as api:
        return [event async for event in api.watch("/x", {})]


def cut(text: bytes, places: list[int]) -> list[bytes]:
    borders = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in pairwise(borders)]


@given(st.lists(st.text(max_size=40), max_size=8), st.lists(st.integers(min_value=0), max_size=12))
def test_a_watch_may_be_cut_into_pieces_anywhere(names: list[str], places: list[int]) -> None:
    lines = [orjson.dumps({"type": "ADDED", "object": {"name": name}}) + b"\n" for name in names]
    events = asyncio.run(watched(cut(b"".join(lines), places)))
    assert events == [("ADDED", {"name": name}) for name in names]


def test_an_unfinished_line_is_no_event() -> None:
    line = b'{"type":"ADDED","object":{}}\n'
    assert len(asyncio.run(watched([line + line[:9]]))) == 1


def test_an_error_inside_a_watch_is_raised() -> None:
    status = {"code": 410, "reason": "Expired", "message": "too old resource version"}
    line = orjson.dumps({"type": "ERROR", "object": status}) + b"\n"
    with pytest.raises(Gone, match="too old"):
        asyncio.run(watched([line]))


def test_garbage_inside_a_watch_is_no_answer() -> None:
    with pytest.raises(Unavailable):
        asyncio.run(watched([b"<html>\n"]))


def test_the_gate_stands_before_every_write_and_no_read() -> None:
    async def calls() -> None:
        async with Api(nowhere()) as api:
            api.write_gate = shut
            with pytest.raises(NotLeading):
                await api.create(MAPS, {})
            with pytest.raises(NotLeading):
                await api.patch(MAPS, {})
            with pytest.raises(NotLeading):
                await api.raw("PUT", MAPS)
            with pytest.raises(NotLeading):
                await api.delete(MAPS)
            assert not api.calls

    def shut() -> None:
        raise NotLeading("shut")

    asyncio.run(calls())


# ----------------------------------------------------------------------------- with a real server


def pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "one", "image": "x"}]}}


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def test_an_object_from_creation_to_deletion(api_server: ControlPlane) -> None:
    async def life() -> None:
        async with await Api.connect(kubeconfig=str(api_server.kubeconfig())) as api:
            assert api.namespace == "default"
            made = await api.create(MAPS, config_map("a", x="1"))
            path = f"{MAPS}/a"
            merged = await api.patch(path, {"data": {"y": "2"}})
            assert merged["data"] == {"x": "1", "y": "2"}
            await api.patch(path, {"data": {"x": None}})
            applied = {"apiVersion": "v1", "kind": "ConfigMap", **config_map("a", z="3")}
            await api.patch(path, applied, kind=APPLY)
            found = await api.get(path)
            assert found["data"] == {"y": "2", "z": "3"}
            old = {**found, "metadata": made["metadata"]}
            with pytest.raises(Conflict):
                await api.raw("PUT", path, body=orjson.dumps(old))
            with pytest.raises(Conflict):
                await api.patch(path, old)
            with pytest.raises(Conflict):
                await api.delete(path, uid="another")
            await api.delete(path, uid=made["metadata"]["uid"], propagation="Background")
            with pytest.raises(NotFound):
                await api.get(path)
            assert api.calls["delete", "Conflict"] == 1
            assert api.calls["delete", "ok"] == 1

    asyncio.run(life())


def test_what_is_left_of_an_object_that_several_end_at_once_has_a_version(
    cluster: ControlPlane,
) -> None:
    """The real server answers those who come second with a pod that has none."""

    async def end(api: Api, path: str) -> dict[str, Any] | None:
        try:
            return await api.delete(path, grace_seconds=0)
        except NotFound:
            return {}

    async def race() -> list[dict[str, Any] | None]:
        answers: list[dict[str, Any] | None] = []
        async with await Api.connect(kubeconfig=str(cluster.kubeconfig())) as api:
            for name in (f"pod-{number}" for number in range(40)):
                await api.create(PODS, pod(name))
                answers += await asyncio.gather(*(end(api, f"{PODS}/{name}") for _ in range(6)))
        return answers

    answers = asyncio.run(race())
    assert None in answers
    assert all("resourceVersion" in found["metadata"] for found in answers if found)


def test_refusals_of_a_real_server(api_server: ControlPlane) -> None:
    async def ask() -> None:
        async with await Api.connect(kubeconfig=str(api_server.kubeconfig())) as api:
            await api.create(MAPS, config_map("a"))
            with pytest.raises(AlreadyExists):
                await api.create(MAPS, config_map("a"))
            with pytest.raises(Invalid):
                await api.create(MAPS, config_map("No Name"))
            with pytest.raises(Invalid):
                await api.create(MAPS, b"{")
            with pytest.raises(NotFound):
                await api.get("/apis/nobody.dev/v1/things")
            with pytest.raises(ApiError) as caught:
                await api.raw("PUT", MAPS)
            assert caught.value.status == 405
        async with await Api.connect(kubeconfig=str(api_server.kubeconfig("alice"))) as api:
            with pytest.raises(Forbidden):
                await api.get(MAPS)

    asyncio.run(ask())


def test_a_token_that_is_refused_is_read_again(api_server: ControlPlane, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    config = json.loads(api_server.kubeconfig().read_text())
    config["users"][0]["user"] = {"tokenFile": str(token)}
    path = tmp_path / "config"
    path.write_text(json.dumps(config))

    async def ask() -> None:
        async with await Api.connect(kubeconfig=str(path)) as api:
            with pytest.raises(Forbidden) as caught:
                await api.get(MAPS)
            assert caught.value.status == 401
            token.write_text(api_server.admin_token)
            await api.get(MAPS)

    asyncio.run(ask())


def test_a_question_by_post_passes_the_gate(api_server: ControlPlane) -> None:
    async def ask() -> bool:
        async with await Api.connect(kubeconfig=str(api_server.kubeconfig())) as api:
            api.write_gate = shut
            path = "/apis/authentication.k8s.io/v1/tokenreviews"
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
            told = await api.create(path, {**review, "spec": {"token": api_server.admin_token}})
            return bool(told["status"]["authenticated"])

    def shut() -> None:
        raise NotLeading("shut")

    assert asyncio.run(ask())


def test_a_line_of_two_megabytes_is_watched(api_server: ControlPlane) -> None:
    """aiohttp reads lines up to a limit far below that; quotes double in size on the wire."""
    text = '"' * 1_000_000

    async def follow() -> list[tuple[str, int]]:
        async with await Api.connect(kubeconfig=str(api_server.kubeconfig())) as api:
            version = (await api.get(MAPS))["metadata"]["resourceVersion"]
            api_server.api.must("POST", MAPS, config_map("large", text=text))
            await api.create(MAPS, config_map("small", text="x"))
            await api.patch(f"{MAPS}/large", {"metadata": {"labels": {"a": "b"}}})
            params = {"resourceVersion": version, "timeoutSeconds": "2"}
            events = api.watch(MAPS, params)
            return [(kind, len(raw["data"]["text"])) async for kind, raw in events]

    assert asyncio.run(follow()) == [("ADDED", 1_000_000), ("ADDED", 1), ("MODIFIED", 1_000_000)]


def test_a_frozen_server_is_given_up_in_time_and_leaves_doubt(
    api_server: ControlPlane,
) -> None:
    async def ask() -> None:
        async with await Api.connect(kubeconfig=str(api_server.kubeconfig())) as api:
            await api.get(MAPS)
            api_server.freeze("kube-apiserver")
            try:
                with pytest.raises(Unavailable) as read:
                    await api.raw("GET", MAPS, timeout_seconds=0.5)
                with pytest.raises(Unavailable) as write:
                    await api.raw("POST", MAPS, body=b"{}", timeout_seconds=0.5)
            finally:
                api_server.thaw("kube-apiserver")
            assert not read.value.ambiguous
            assert write.value.ambiguous
            assert "no answer in 0.5 s" in str(write.value)

    asyncio.run(ask())


def test_a_server_that_is_away_did_nothing_for_sure(api_server: ControlPlane) -> None:
    async def ask() -> Unavailable:
        known = nowhere()
        async with Api(known) as api:
            with pytest.raises(Unavailable) as caught:
                await api.create(MAPS, config_map("a"))
            return caught.value

    assert not asyncio.run(ask()).ambiguous


@pytest.mark.parametrize("verb", ["create", "patch", "replace", "delete"])
def test_nothing_is_repeated_behind_our_back(
    api_server: ControlPlane, tmp_path: Path, verb: str
) -> None:
    """aiohttp itself would send a PUT or DELETE again when its connection breaks."""
    storm = Climate(rate=1, faults=(Fault.RESET_AFTER,))

    async def ask(api: Api) -> None:
        await api.create(MAPS, config_map("a"))
        changed = {**await api.get(f"{MAPS}/a"), "data": {"x": "1"}}
        writes: dict[str, Callable[[], Awaitable[object]]] = {
            "create": lambda: api.create(MAPS, config_map("b")),
            "patch": lambda: api.patch(f"{MAPS}/a", {"data": {"x": "1"}}),
            "replace": lambda: api.raw("PUT", f"{MAPS}/a", body=orjson.dumps(changed)),
            "delete": lambda: api.delete(f"{MAPS}/a"),
        }
        weather.climate = storm
        with pytest.raises(Unavailable) as caught:
            await writes[verb]()
        assert caught.value.ambiguous
        assert weather.calls[verb, Fault.RESET_AFTER] == 1
        weather.calm()
        left = {m["metadata"]["name"]: m.get("data") for m in (await api.get(MAPS))["items"]}
        left.pop("kube-root-ca.crt", None)
        changed = {"a": {"x": "1"}}
        assert left == {"create": {"a": None, "b": None}, "delete": {}}.get(verb, changed)

    async def through() -> None:
        path = str(weather.kubeconfig(tmp_path, api_server.admin_token))
        async with await Api.connect(kubeconfig=path) as api:
            await ask(api)

    with Weather(api_server.url, ca=api_server.ca) as weather:
        asyncio.run(through())


def test_more_calls_than_connections_wait_for_their_turn(api_server: ControlPlane) -> None:
    async def many() -> int:
        async with await Api.connect(kubeconfig=str(api_server.kubeconfig())) as api:
            await asyncio.gather(*(api.create(MAPS, config_map(f"m{i}")) for i in range(300)))
            return len((await api.get(MAPS, {"labelSelector": "!none"}))["items"])

    assert asyncio.run(many()) >= 300
