"""Rules that taint devices: whom they select, and what is left out."""

import asyncio
from typing import Any

import pytest

from tests.waiting import hang_guard
from weft.kube.client.errors import Forbidden, NotFound, Unavailable
from weft.kube.devices import ObservedSlice, devices_on, read_slice, tainted_on
from weft.kube.operator import taint_rules
from weft.kube.operator.taint_rules import TaintRules
from weft.kube.taint_rules import TaintRule, read_rule, with_rules

DRIVER = "gpu.example.com"
TAINT = {"key": "example.com/broken", "value": "fan", "effect": "NoSchedule"}


def a_slice(devices: int = 4, tainted: int = 0, pool: str = "a") -> ObservedSlice:
    found = [{"name": f"gpu-{n}", "taints": [TAINT] if n < tainted else []} for n in range(devices)]
    spec = {"driver": DRIVER, "nodeName": "a", "pool": {"name": pool}, "devices": found}
    return read_slice({"metadata": {"uid": "u", "resourceVersion": "1"}, "spec": spec})


def a_rule(selector: dict[str, Any] | None = None, **taint: str) -> TaintRule | None:
    selected = {} if selector is None else {"deviceSelector": selector}
    return read_rule({"spec": {**selected, "taint": {**TAINT, **taint}}}, DRIVER)


@pytest.mark.parametrize(
    ("selector", "left"),
    [
        (None, 4),  # without a selector none is selected
        ({}, 0),  # the empty one selects all
        ({"driver": DRIVER}, 0),
        ({"driver": "nic.example.com"}, 4),
        ({"pool": "a"}, 0),
        ({"pool": "b"}, 4),
        ({"device": "gpu-1"}, 3),
        ({"driver": DRIVER, "pool": "a", "device": "gpu-1"}, 3),
        ({"pool": "b", "device": "gpu-1"}, 4),
        ({"device": "gpu-9"}, 4),
        ({"deviceClassName": DRIVER}, 0),
        ({"deviceClassName": "other"}, 4),
        ({"selectors": [{"cel": {"expression": "true"}}]}, 4),  # cannot be told here
    ],
)
def test_all_that_a_rule_says_must_fit(selector: dict[str, Any] | None, left: int) -> None:
    rule = a_rule(selector)
    found = with_rules(a_slice(), [rule] if rule is not None else [])
    counted = devices_on("a", DRIVER, [found])
    assert (counted.gpus, counted.kept_away) == (left, 4 - left)
    assert len(tainted_on("a", DRIVER, [found])) == 4 - left


@pytest.mark.parametrize("effect", ["None", "", "PreferNoSchedule"])
def test_what_keeps_nobody_away_is_no_rule(effect: str) -> None:
    assert a_rule({}, effect=effect) is None


def test_a_device_is_counted_once_whoever_taints_it() -> None:
    one, all_of_them = a_rule({"device": "gpu-0"}), a_rule({})
    assert one is not None and all_of_them is not None
    found = with_rules(a_slice(tainted=1), [one, one, all_of_them, all_of_them])
    assert devices_on("a", DRIVER, [found]).kept_away == 4
    words = {trouble.message for trouble in found.tainted}
    assert "gpu-3 has the taint example.com/broken=fan" in words and len(found.tainted) == 4


class Server:
    """Serves one version, or none, or nothing for us."""

    def __init__(self, version: str = "", error: type[Exception] = NotFound) -> None:
        self.version, self.error = version, error
        self.items: list[Any] = []
        self.asked: list[str] = []

    async def get(self, path: str) -> dict[str, Any]:
        self.asked.append(path)
        if f"/{self.version}/" not in path:
            raise self.error("no")
        return {"items": self.items}


async def followed(server: Server, times: int) -> list[tuple[TaintRule, ...]]:
    heard: list[tuple[TaintRule, ...]] = []
    follower = TaintRules(server, DRIVER)  # type: ignore[arg-type]
    task = asyncio.create_task(follower.follow(heard.append))
    async with hang_guard(f"{times} questions"):
        while len(server.asked) < times:
            await asyncio.sleep(0)
            if len(server.asked) == times - 1:
                server.items = []
    task.cancel()
    return heard


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1alpha3"])
def test_the_newest_version_that_is_served_is_asked(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(taint_rules, "EVERY_SECONDS", 0.001)
    server = Server(version)
    server.items = [{"spec": {"deviceSelector": {}, "taint": TAINT}}]
    heard = asyncio.run(followed(server, 10))
    assert [len(rules) for rules in heard] in ([1], [1, 0])
    assert len({path for path in server.asked[3:]}) == 1


@pytest.mark.parametrize("error", [NotFound, Forbidden, Unavailable])
def test_where_they_are_not_served_nothing_is_tainted_by_rule(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    monkeypatch.setattr(taint_rules, "EVERY_SECONDS", 0.001)
    monkeypatch.setattr(taint_rules, "ASK_AGAIN_SECONDS", 0.001)
    assert asyncio.run(followed(Server("none", error), 7)) == []
