"""Lists, as cheap for the server as they can be.

Whole lists are asked for as the server remembers them (`resourceVersion=0`): it then answers from
memory, a moment behind at worst, where the newest state would be read and decoded from the store,
which takes seconds for ten thousand objects. Where only the first few are wanted, the server sends
pages of them. A token that has grown too old between two pages (410) starts the list once more.
"""

import gc
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from weft.kube.client.errors import Gone

if TYPE_CHECKING:
    from weft.kube.client.api import Api

PAGE: Final = 500
PATIENCE_SECONDS: Final = 30.0
REMEMBERED: Final[Mapping[str, str]] = {"resourceVersion": "0"}


@dataclass(frozen=True, slots=True)
class Listing:
    """Objects of one kind, the version they were read at, and how many were left on the server."""

    items: tuple[dict[str, Any], ...]
    version: str
    left: int = 0


async def list_all(
    api: "Api", path: str, params: Mapping[str, str] | None = None, *, most: int | None = None
) -> Listing:
    """All objects as the server remembers them, or the first `most` as they are."""
    try:
        return await _collect(api, path, params or {}, most)
    except Gone:
        return await _collect(api, path, params or {}, most)


async def _collect(api: "Api", path: str, params: Mapping[str, str], most: int | None) -> Listing:
    items: list[dict[str, Any]] = []
    if most is None:
        params, size = {**REMEMBERED, **params}, PAGE
    else:
        size = min(PAGE, most)
    async for page in _pages(api, path, params, size):
        items.extend(page.items)
        if most is not None and len(items) >= most:
            return Listing(tuple(items[:most]), page.version, page.left + len(items) - most)
    return Listing(tuple(items), page.version)


async def _pages(
    api: "Api", path: str, params: Mapping[str, str], size: int
) -> AsyncIterator[Listing]:
    asked = {**params, "limit": str(size)}
    while True:
        body = await api.raw("GET", path, params=asked, timeout_seconds=PATIENCE_SECONDS)
        answer = _decoded(body)
        meta = answer.get("metadata") or {}
        token = meta.get("continue") or ""
        left = int(meta.get("remainingItemCount") or bool(token))
        yield Listing(tuple(answer.get("items") or ()), meta.get("resourceVersion") or "", left)
        if not token:
            return
        asked["continue"] = token


def _decoded(body: bytes) -> dict[str, Any]:
    """Looking for garbage while a large list is made takes longer than making it."""
    looking = gc.isenabled()
    gc.disable()
    try:
        found: dict[str, Any] = orjson.loads(body)
    finally:
        if looking:
            gc.enable()
    return found
