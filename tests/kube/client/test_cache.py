"""Keeping up with a server: through refusals that a script plays, then through a real one's."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import orjson
import pytest

from tests.kube.client.cached import MAPS, Item, a_cache, raw_object, trim
from tests.waiting import HANG_SECONDS, until_async
from tests.work import calls_of
from tools.testcluster import ControlPlane
from weft.kube.client import cache as cache_module
from weft.kube.client.api import Api
from weft.kube.client.backoff import Backoff
from weft.kube.client.cache import Cache
from weft.kube.client.credentials import Credentials
from weft.kube.client.errors import ApiError, Gone, TooManyRequests, Unavailable


class Script:
    """An API that plays one list and then one watch after the other, each a result or an error."""

    def __init__(self, *acts: Any) -> None:
        self.acts = list(acts)
        self.asked: list[dict[str, str]] = []
        self.over = asyncio.Event()

    async def get(
        self, path: str, params: Mapping[str, str], *, timeout_seconds: float = 5.0
    ) -> dict[str, Any]:
        self.asked.append(dict(params))
        act = await self._next()
        if isinstance(act, ApiError):
            raise act
        page: dict[str, Any] = act
        return page

    async def watch(
        self, path: str, params: Mapping[str, str]
    ) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        self.asked.append({"watch": "true", **params})
        for event in await self._next():
            if isinstance(event, ApiError):
                raise event
            yield event

    async def _next(self) -> Any:  # noqa: ANN401
        if not self.acts:
            self.over.set()
            await asyncio.Event().wait()
        return self.acts.pop(0)


class Noted(Backoff):
    """Waits for nothing, and remembers for how long it should have."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.waits: list[float] = []

    def next_seconds(self, at_least: float = 0.0) -> float:
        self.waits.append(super().next_seconds(at_least))
        return 0.0


def page(version: int, *items: dict[str, Any], more: str = "") -> dict[str, Any]:
    about = {"resourceVersion": str(version), **({"continue": more} if more else {})}
    return {"metadata": about, "items": list(items)}


def play(*acts: Any) -> tuple[Cache[Item], Script, Noted]:
    """Run a cache on these acts until there are no more."""

    async def run() -> tuple[Cache[Item], Script, Noted]:
        script, noted = Script(*acts), Noted()
        cache = a_cache(script, backoff=noted)
        task = asyncio.create_task(cache.run())
        await script.over.wait()
        await stop(task)
        return cache, script, noted

    return asyncio.run(run())


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_pages_are_one_list() -> None:
    cache, script, _ = play(
        page(9, raw_object("a", 1), more="next"), page(9, raw_object("b", 2)), []
    )
    assert set(cache.items) == {"a", "b"}
    assert cache.version == 9
    assert script.asked[0] == {"limit": "500"}
    assert script.asked[1] == {"limit": "500", "continue": "next"}
    assert script.asked[2]["resourceVersion"] == "9"
    assert script.asked[2]["allowWatchBookmarks"] == "true"
    assert 300 <= int(script.asked[2]["timeoutSeconds"]) <= 600


def test_pages_that_expire_are_asked_for_in_one_piece() -> None:
    cache, script, _ = play(
        page(9, raw_object("a", 1), raw_object("x", 2), more="next"),
        Gone("expired"),
        page(12, raw_object("a", 1), raw_object("b", 11)),
    )
    assert set(cache.items) == {"a", "b"}
    assert script.asked[2] == {}


@pytest.mark.parametrize("lost", [[Gone("too old")], [("ADDED", raw_object("b", 3)), Gone("old")]])
def test_a_gap_in_the_history_is_closed_by_a_list(lost: list[Any]) -> None:
    cache, script, noted = play(page(2, raw_object("a", 1)), lost, page(9, raw_object("c", 8)))
    assert set(cache.items) == {"c"}
    assert "watch" not in script.asked[2]
    assert noted.waits


def test_a_broken_watch_goes_on_where_it_was() -> None:
    cache, script, noted = play(
        page(2),
        [("ADDED", raw_object("a", 3)), Unavailable("reset")],
        [("BOOKMARK", raw_object("", 7))],
        [TooManyRequests("busy", retry_after_seconds=4.0)],
        [("DELETED", raw_object("a", 8))],
    )
    assert [asked["resourceVersion"] for asked in script.asked[1:]] == ["2", "3", "7", "7", "8"]
    assert cache.items == {}
    assert 4.0 in noted.waits


def test_a_list_that_fails_is_asked_for_again() -> None:
    cache, _, noted = play(Unavailable("away"), Gone("why"), Gone("why"), page(2), [])
    assert cache.version == 2
    assert len(noted.waits) == 3


def test_trouble_is_known_until_it_is_over() -> None:
    assert isinstance(play(Unavailable("away"))[0].trouble, Unavailable)
    cache = play(Unavailable("away"), page(2), [("BOOKMARK", raw_object("", 7))])[0]
    assert cache.trouble is None


def test_there_is_no_hot_loop() -> None:
    """A server that lists but never lets us follow is asked more and more rarely."""
    acts = [act for _ in range(12) for act in (page(2), [Gone("no")])]
    waits = play(*acts)[2].waits
    assert waits[0] <= 0.1
    assert all(15 <= wait <= 30 for wait in waits[10:])
    assert len(play(page(2), *[[] for _ in range(12)])[2].waits) == 12


def test_waits_grow_are_scattered_and_start_again() -> None:
    backoff = Backoff(Random(7))
    waits = [backoff.next_seconds() for _ in range(12)]
    for turn, wait in enumerate(waits):
        most = min(0.1 * 2**turn, 30.0)
        assert most / 2 <= wait <= most
    assert backoff.next_seconds(at_least=60) == 60
    backoff.reset()
    assert backoff.next_seconds() <= 0.1
    assert waits != [Backoff(Random(8)).next_seconds() for _ in range(12)]


# --------------------------------------------------------------------------- with a real server


@asynccontextmanager
async def following(
    api_server: ControlPlane, **rest: Any
) -> AsyncIterator[tuple[Api, Cache[Item]]]:
    """A cache of the config maps in `default` that follows a real server."""
    async with await Api.connect(kubeconfig=str(api_server.kubeconfig())) as api:
        cache = a_cache(api, **rest)
        task = asyncio.create_task(cache.run())
        await cache.synced.wait()
        try:
            yield api, cache
        finally:
            await stop(task)


def config_map(name: str, text: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"text": text}}


async def until(done: Callable[[], bool]) -> None:
    await until_async(done, "the cache to follow")


async def truth(api: Api) -> dict[str, Item]:
    items = (await api.get(MAPS))["items"]
    return {f"default/{raw['metadata']['name']}": trim(raw) for raw in items}


def test_a_real_server_is_followed(
    api_server: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "PAGE", 7)

    async def follow() -> None:
        async with await Api.connect(kubeconfig=str(api_server.kubeconfig())) as api:
            for turn in range(20):
                await api.create(MAPS, config_map(f"old-{turn}", "x"))
        changes: Counter[str] = Counter()
        async with following(api_server, on_change=lambda key, *_: changes.update([key])) as both:
            api, cache = both
            assert {f"default/old-{turn}" for turn in range(20)} <= set(cache.items)
            item = cache.put(await api.create(MAPS, config_map("new", "1")))
            assert cache.items["default/new"] == item
            cache.put(await api.patch(f"{MAPS}/new", {"data": {"text": "2"}}))
            await api.delete(f"{MAPS}/old-3")
            await until(lambda: "default/old-3" not in cache.items)
            await cache.sync()
            assert cache.items == await truth(api)
            assert changes["default/new"] == 2

    asyncio.run(follow())


@pytest.mark.slow
def test_a_compacted_history_is_listed_again(api_server: ControlPlane) -> None:
    """We are away, the history is compacted and the server's memory lost: it answers 410."""

    async def follow() -> Cache[Item]:
        async with following(api_server) as (api, cache):
            cache.put(await api.create(MAPS, config_map("a", "1")))
            cache.put(await api.create(MAPS, config_map("b", "1")))
            await until(lambda: cache.version >= cache.items["default/b"].version)
        return cache

    async def follow_again() -> None:
        async with await Api.connect(kubeconfig=str(api_server.kubeconfig())) as api:
            with pytest.raises(Gone):
                async for _ in api.watch(MAPS, {"resourceVersion": str(before.version)}):
                    pass
            cache = a_cache(api)
            cache.take_list(before.version, before.items)
            with pytest.raises(Gone):
                await cache._follow()
            running = asyncio.create_task(cache.run())
            await cache.synced.wait()
            await stop(running)
            assert cache.items == await truth(api)
            assert "default/b" not in cache.items
            assert cache.items["default/a"].text == "2"

    before = asyncio.run(follow())
    api_server.api.must("PUT", f"{MAPS}/a", config_map("a", "2"))
    api_server.api.must("DELETE", f"{MAPS}/b")
    api_server.compact()
    api_server.restart_apiserver()
    asyncio.run(follow_again())


@pytest.mark.slow
def test_a_restarted_server_costs_no_change(api_server: ControlPlane) -> None:
    """Written before and after the server was away: every change is told, once and in order."""
    told: list[str] = []
    ready, restarted = threading.Event(), threading.Event()

    def heard(key: str, old: Item | None, new: Item | None) -> None:
        if key == "default/a" and new is not None:
            told.append(new.text)

    async def follow() -> None:
        async with following(api_server, on_change=heard) as (api, cache):
            await api.create(MAPS, config_map("a", "0"))
            for turn in range(1, 6):
                await api.patch(f"{MAPS}/a", {"data": {"text": str(turn)}})
            await until(lambda: told[-1:] == ["5"])
            ready.set()
            await until(lambda: cache.trouble is not None)
            await until(restarted.is_set)
            for turn in range(6, 12):
                await api.patch(f"{MAPS}/a", {"data": {"text": str(turn)}})
            await until(lambda: told[-1:] == ["11"])
            assert told == [str(turn) for turn in range(12)]
            assert cache.items == await truth(api)
            assert cache.trouble is None

    # The server dies with the thread that started it, so it is this one that restarts it.
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(asyncio.run, follow())
        assert ready.wait(HANG_SECONDS)
        api_server.restart_apiserver()
        restarted.set()
        done.result(2 * HANG_SECONDS)


# --------------------------------------------------------------------------------------- costs


class Replayed(Api):
    """An API whose watch is this text, in pieces as large as a socket's."""

    def __init__(self, text: bytes) -> None:
        super().__init__(Credentials("http://127.0.0.1:9"))
        self.text = text

    async def stream(
        self, path: str, params: Mapping[str, str] | None = None, **_: Any
    ) -> AsyncGenerator[bytes, None]:
        for start in range(0, len(self.text), 16_384):
            yield self.text[start : start + 16_384]


def pod(version: int) -> dict[str, Any]:
    about = {
        "name": f"llama-sft-3-{version % 200}",
        "namespace": "team",
        "uid": f"00000000-0000-4000-8000-{version:012d}",
        "resourceVersion": str(version),
        "labels": {f"weft.dev/label-{turn}": "value" for turn in range(4)},
        "managedFields": [
            {"manager": "weft", "fieldsV1": {f"f:{turn}": {"f:x": {}} for turn in range(40)}}
        ],
    }
    env = [{"name": f"VARIABLE_{turn}", "value": "x" * 30} for turn in range(15)]
    conditions = [
        {"type": f"Condition{turn}", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for turn in range(5)
    ]
    worker = {"name": "worker", "image": "registry/x:tag", "env": env}
    spec = {"nodeName": "node-17", "containers": [worker], "restartPolicy": "Never"}
    status = {"phase": "Running", "conditions": conditions, "hostIP": "10.0.0.1"}
    return {"metadata": about, "spec": spec, "status": status}


def test_an_event_takes_few_calls() -> None:
    """One with a pod of 3 kB; the calls are those of the whole path from bytes to the cache."""
    count = 500
    lines = [
        orjson.dumps({"type": "MODIFIED", "object": pod(turn)}) for turn in range(1, count + 1)
    ]

    async def watch() -> None:
        async with Replayed(b"\n".join(lines) + b"\n") as api:
            cache = a_cache(api)
            await cache._watch()
            assert cache.version == count

    asyncio.run(watch())

    assert calls_of(lambda: asyncio.run(watch())) < 50 * count
