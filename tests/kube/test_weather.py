"""The weather itself: calm it is invisible, bad it is bad in the ways that it says."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.kube.weather import CALM, Climate, Fault, Weather
from tests.waiting import until_async
from tools.testcluster import ControlPlane
from weft.kube.client.api import Api
from weft.kube.client.cache import Cache
from weft.kube.client.errors import ApiError, Conflict, Gone, NotFound, TooManyRequests, Unavailable

MAPS = "/api/v1/namespaces/default/configmaps"


@contextmanager
def weather_before(
    api_server: ControlPlane, climate: Climate = CALM, seed: int = 0
) -> Iterator[Weather]:
    with Weather(api_server.url, ca=api_server.ca, climate=climate, seed=seed) as weather:
        yield weather


@asynccontextmanager
async def through(weather: Weather, api_server: ControlPlane, folder: Path) -> AsyncIterator[Api]:
    path = str(weather.kubeconfig(folder, api_server.admin_token))
    async with await Api.connect(kubeconfig=path) as api:
        yield api


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def test_calm_weather_is_invisible(api_server: ControlPlane, tmp_path: Path) -> None:
    """The same calls with and without it: the same answers, errors and events."""

    async def calls(api: Api, name: str) -> list[Any]:
        start = (await api.get(MAPS, {"limit": "1"}))["metadata"]["resourceVersion"]
        told: list[Any] = [await api.create(MAPS, config_map(name, x="1", y="ü" * 100_000))]
        told.append(await api.patch(f"{MAPS}/{name}", {"data": {"x": "2"}}))
        put = orjson.dumps({**told[-1], "data": {"x": "3"}})
        told.append(orjson.loads(await api.raw("PUT", f"{MAPS}/{name}", body=put)))
        told.append(await api.get(f"{MAPS}/{name}"))
        told.append(await api.delete(f"{MAPS}/{name}", uid=told[0]["metadata"]["uid"]))
        for path in (f"{MAPS}/{name}", "/apis/nobody.dev/v1/x"):
            with pytest.raises(NotFound) as caught:
                await api.get(path)
            told.append((caught.value.status, caught.value.reason, str(caught.value)))
        params = {"resourceVersion": start, "timeoutSeconds": "1"}
        params["fieldSelector"] = f"metadata.name={name}"
        told.append([event async for event in api.watch(MAPS, params)])
        return told

    async def both() -> None:
        with weather_before(api_server) as weather:
            async with await Api.connect(kubeconfig=str(api_server.kubeconfig())) as direct:
                expected = await calls(direct, "a")
            async with through(weather, api_server, tmp_path) as api:
                told = await calls(api, "a")
            assert without_identity(told) == without_identity(expected)
            assert weather.faults() == 0
            assert weather.calls["create", "201"] == 1
            assert weather.calls["get", "404"] == 2

    asyncio.run(both())


def without_identity(told: Any) -> Any:  # noqa: ANN401
    """Leaves out what differs between two objects of the same name."""
    if isinstance(told, dict):
        varying = {"uid", "resourceVersion", "creationTimestamp", "time"}
        return {key: without_identity(told[key]) for key in told if key not in varying}
    if isinstance(told, list | tuple):
        return [without_identity(each) for each in told]
    return told


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault.CONFLICT, Conflict),
        (Fault.BUSY, TooManyRequests),
        (Fault.BROKEN, Unavailable),
        (Fault.RESET_BEFORE, Unavailable),
        (Fault.RESET_AFTER, Unavailable),
    ],
)
def test_each_fault_of_a_write(
    api_server: ControlPlane, tmp_path: Path, fault: Fault, error: type[ApiError]
) -> None:
    async def write() -> None:
        with weather_before(api_server, Climate(rate=1, faults=(fault,))) as weather:
            async with through(weather, api_server, tmp_path) as api:
                with pytest.raises(error) as caught:
                    await api.create(MAPS, config_map("a"))
                assert type(caught.value) is error
                assert weather.calls == {("create", fault): 1}
                assert caught.value.retry_after_seconds == (1 if fault is Fault.BUSY else 0)
                weather.calm()
                done = [m["metadata"]["name"] for m in (await api.get(MAPS))["items"]]
                assert ("a" in done) is (fault is Fault.RESET_AFTER)

    asyncio.run(write())


def test_a_forgotten_history(api_server: ControlPlane, tmp_path: Path) -> None:
    """410 comes as a status and inside the watch; a get never has it, a list may."""

    async def ask() -> None:
        with weather_before(api_server, Climate(rate=1, faults=(Fault.GONE,)), seed=1) as weather:
            async with through(weather, api_server, tmp_path) as api:
                await api.get(MAPS)
                with pytest.raises(Gone):
                    await api.get(MAPS, {"limit": "500"})
                for _ in range(8):
                    with pytest.raises(Gone):
                        async for _ in api.watch(MAPS, {}):
                            pass
                assert weather.calls["watch", Fault.GONE] == 8
                assert 0 < api.calls["watch", "ok"] < 8

    asyncio.run(ask())


def test_late_events_keep_their_order(api_server: ControlPlane, tmp_path: Path) -> None:
    """None arrives before its time, which is hours away until the weather is calm."""
    names: list[str] = []

    async def follow() -> None:
        climate = Climate(event_delay_seconds=36_000.0)
        with weather_before(api_server, climate, seed=2) as weather:
            async with through(weather, api_server, tmp_path) as api:
                start = (await api.get(MAPS))["metadata"]["resourceVersion"]
                for turn in range(10):
                    await api.create(MAPS, config_map(f"m{turn}"))
                watching = asyncio.create_task(watch(api, start))
                await until_async(lambda: weather.calls["watch", "event"] == 10, "all events")
                assert names == []
                weather.calm()
                await until_async(lambda: len(names) == 10, "all events to arrive")
                watching.cancel()

    async def watch(api: Api, start: str) -> None:
        async for _, raw in api.watch(MAPS, {"resourceVersion": start}):
            names.append(raw["metadata"]["name"])

    asyncio.run(follow())
    assert names == [f"m{turn}" for turn in range(10)]


def test_watches_are_cut(api_server: ControlPlane, tmp_path: Path) -> None:
    async def follow() -> None:
        with weather_before(api_server, Climate(cut=1)) as weather:
            async with through(weather, api_server, tmp_path) as api:
                start = (await api.get(MAPS))["metadata"]["resourceVersion"]
                await api.create(MAPS, config_map("a"))
                with pytest.raises(Unavailable):
                    async for _ in api.watch(MAPS, {"resourceVersion": start}):
                        pass
                assert weather.calls["watch", "cut"] == 1

    asyncio.run(follow())


def test_some_paths_are_spared(api_server: ControlPlane, tmp_path: Path) -> None:
    async def ask() -> None:
        climate = Climate(rate=1, faults=(Fault.BROKEN,))
        with Weather(
            api_server.url, ca=api_server.ca, climate=climate, spared=("/secrets",)
        ) as weather:
            async with through(weather, api_server, tmp_path) as api:
                await api.get("/api/v1/namespaces/default/secrets")
                with pytest.raises(Unavailable):
                    await api.get(MAPS)

    asyncio.run(ask())


def test_the_rate_is_kept(api_server: ControlPlane, tmp_path: Path) -> None:
    async def ask() -> float:
        climate = Climate(rate=0.2, retry_after_seconds=0, delay_seconds=0.01)
        with weather_before(api_server, climate, seed=4) as weather:
            async with through(weather, api_server, tmp_path) as api:
                await asyncio.gather(*(quietly(api) for _ in range(500)))
                return weather.faults() / weather.calls.total()

    async def quietly(api: Api) -> None:
        try:
            await api.patch(f"{MAPS}/absent", {})
        except ApiError:
            return

    assert 0.14 < asyncio.run(ask()) < 0.26


class Versioned:
    """The least that a cache keeps."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.uid: str = raw["metadata"]["uid"]
        self.version = int(raw["metadata"]["resourceVersion"])


@pytest.mark.parametrize("seed", range(3))
def test_a_cache_comes_through(api_server: ControlPlane, tmp_path: Path, seed: int) -> None:
    """Under faults of every kind, late events and cut watches, it ends in the truth."""

    async def follow() -> None:
        climate = Climate(rate=0.3, delay_seconds=0.1, event_delay_seconds=0.3, cut=0.1)
        with weather_before(api_server, climate, seed=seed) as weather:
            async with through(weather, api_server, tmp_path) as api:
                cache = Cache(api, MAPS, trim=Versioned, on_change=lambda *_: None)
                task = asyncio.create_task(cache.run())
                async with await Api.connect(kubeconfig=str(api_server.kubeconfig())) as direct:
                    await churn(direct, weather)
                    weather.calm()
                    found = (await direct.get(MAPS))["items"]
                truth = {f"default/{raw['metadata']['name']}": Versioned(raw) for raw in found}
                await until_async(
                    lambda: versions(cache.items) == versions(truth),
                    "the cache to agree with the server",
                )
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def wrong(weather: Weather) -> int:
        return weather.faults() + weather.calls["watch", "cut"]

    async def churn(api: Api, weather: Weather) -> None:
        turns = count()
        while (turn := next(turns)) < 60 or wrong(weather) < 3:
            name = f"m{turn % 7}"
            try:
                await api.create(MAPS, config_map(name))
            except Conflict:
                await api.delete(f"{MAPS}/{name}")

    asyncio.run(follow())


def versions(items: dict[str, Versioned]) -> dict[str, int]:
    return {key: item.version for key, item in items.items()}
