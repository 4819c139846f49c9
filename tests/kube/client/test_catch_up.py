"""A cache that is followed long before anybody leads: when may it be relied upon?"""

import asyncio
from typing import Any

import pytest

from tests.kube.client.cached import MAPS, Item, a_cache, raw_object, trim
from tests.kube.client.test_cache import Noted, Script, page, stop
from tools.testcluster import ControlPlane
from weft.kube.client import cache as cache_module
from weft.kube.client.api import Api
from weft.kube.client.cache import Cache, Mark
from weft.kube.client.errors import Invalid, NotFound, Unavailable


class Marks:
    """Changes an object to this version; a watch brings what came before, and perhaps that."""

    def __init__(self, *seen: dict[str, Any], version: int = 12) -> None:
        self.seen, self.version = seen, version
        self.marked: list[str] = []
        self.cache: Cache[Item] | None = None

    async def __call__(self, key: str) -> int:
        self.marked.append(key)
        asyncio.get_running_loop().call_later(0.02, self._arrive)
        return self.version

    def _arrive(self) -> None:
        assert self.cache is not None
        for raw in self.seen:
            self.cache.take_event("MODIFIED", raw)


async def gone(key: str) -> int:
    raise NotFound("deleted just now")


async def refused(key: str) -> int:
    raise Invalid("this object was stored by another version, and a policy refuses every change")


def caught_up(
    monkeypatch: pytest.MonkeyPatch, mark: Mark | None, *acts: Any, page_size: int = 2
) -> tuple[Cache[Item], Script]:
    """A cache that knows three objects as of version 9 catches up."""
    monkeypatch.setattr(cache_module, "PAGE", page_size)
    monkeypatch.setattr(cache_module, "MARK_SECONDS", 0.2)
    script = Script(*acts)

    async def scene() -> Cache[Item]:
        cache = a_cache(script, backoff=Noted())
        cache.take_list(9, {name: trim(raw_object(name, 5)) for name in "abc"})
        cache.synced.set()
        if isinstance(mark, Marks):
            mark.cache = cache
        await asyncio.wait_for(cache.catch_up(mark), 5.0)
        return cache

    return asyncio.run(scene()), script


def test_a_short_list_is_asked_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = page(12, raw_object("d", 11))
    cache, script = caught_up(monkeypatch, Marks(), listed, page_size=500)
    assert set(cache.items) == {"d"}
    assert len(script.asked) == 1


def test_of_a_long_one_only_what_is_new_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = Marks(raw_object("d", 11), raw_object("c", 12))
    cache, script = caught_up(monkeypatch, mark)
    assert set(cache.items) == {"a", "b", "c", "d"}
    assert cache.version == 12
    assert script.asked == []
    assert mark.marked == ["c"]


@pytest.mark.parametrize("mark", [Marks(), Marks(raw_object("d", 11)), gone, refused])
def test_a_mark_that_does_not_arrive_is_made_good_by_a_list(
    monkeypatch: pytest.MonkeyPatch, mark: Mark
) -> None:
    """What the last leader wrote may be missing: whoever began on this would decide on the past."""
    cache, script = caught_up(monkeypatch, mark, page(13, raw_object("e", 12)))
    assert set(cache.items) == {"e"}
    assert len(script.asked) == 1


def test_what_holds_no_decision_is_taken_as_it_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, script = caught_up(monkeypatch, None)
    assert set(cache.items) == {"a", "b", "c"}
    assert script.asked == []


def test_a_server_that_is_away_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, script = caught_up(
        monkeypatch, None, Unavailable("down"), page(12, raw_object("a", 5)), page_size=500
    )
    assert cache.version == 12
    assert len(script.asked) == 2


def test_nobody_relies_on_what_was_never_listed() -> None:
    async def scene() -> None:
        cache = a_cache(Script(), backoff=Noted())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(cache.catch_up(), 0.05)

    asyncio.run(scene())


def test_an_object_that_cannot_be_read_is_known_throughout_a_list() -> None:
    """For a moment it would otherwise look as if it did not exist, and its pods would go."""

    class Slow(Script):
        async def get(self, *given: Any, **named: Any) -> dict[str, Any]:
            assert "bad" in cache.unreadable
            return await super().get(*given, **named)

    script = Slow(page(12, {"metadata": {**raw_object("bad", 8)["metadata"], "uid": None}}))
    cache = a_cache(script, backoff=Noted())
    cache.unreadable = {"bad": "as before", "gone": "as before"}
    asyncio.run(cache.sync())
    assert "gone" not in cache.unreadable


class Counting(Cache[Item]):
    """Knows how often it was listed."""

    listed = 0

    async def sync(self) -> None:
        self.listed += 1
        await super().sync()


@pytest.mark.slow
def test_a_real_server_is_caught_up_with_without_another_list(
    api_server: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "PAGE", 2)
    for number in range(5):
        body = {"metadata": {"name": f"map-{number}"}, "data": {"text": "before"}}
        api_server.api.must("POST", MAPS, body)

    async def scene() -> None:
        async with await Api.connect(kubeconfig=str(api_server.kubeconfig())) as api:

            async def mark(key: str) -> int:
                name = key.partition("/")[2]
                raw = await api.patch(f"{MAPS}/{name}", {"metadata": {"annotations": {"x": "1"}}})
                return int(raw["metadata"]["resourceVersion"])

            cache = Counting(api, MAPS, trim=trim, on_change=lambda *_: None)
            following = asyncio.create_task(cache.run())
            await cache.synced.wait()
            await api.patch(f"{MAPS}/map-3", {"data": {"text": "after"}})
            await cache.catch_up(mark)
            assert cache.items["default/map-3"].text == "after"
            assert cache.listed == 1
            await stop(following)

    asyncio.run(scene())
