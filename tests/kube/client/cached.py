"""A cache that keeps little of each object, for the tests of caches."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.kube.client.cache import Cache

MAPS = "/api/v1/namespaces/default/configmaps"


@dataclass(frozen=True, slots=True)
class Item:
    """What these tests keep of an object."""

    uid: str
    version: int
    text: str = ""


def trim(raw: dict[str, Any]) -> Item:
    about = raw["metadata"]
    text = (raw.get("data") or {}).get("text", "")
    return Item(about.get("uid", ""), int(about["resourceVersion"]), text)


def raw_object(name: str, version: int, uid: str = "u") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid, "resourceVersion": str(version)}}


def a_cache(api: Any = None, **rest: Any) -> Cache[Item]:  # noqa: ANN401
    heard: Callable[..., None] = rest.pop("on_change", lambda *_: None)
    return Cache(api, MAPS, trim=trim, on_change=heard, **rest)
