"""An API server in memory, as far as the command line asks one; the real one has tests of its own.

It answers lists with selectors, single objects, reviews and logs, remembers what was written, and
refuses what it was told to refuse.
"""

import asyncio
import signal
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from tests.cli.objects import Thing
from weft.kube.client.errors import ApiError, Forbidden, Invalid, NotFound

JOBS = "/apis/weft.dev/v1alpha1/trainingjobs"
WAITS = "/apis/weft.dev/v1alpha1/waitreports"
QUEUES = "/apis/weft.dev/v1alpha1/queues"
NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
EVENTS = "/api/v1/events"
LEASES = "/apis/coordination.k8s.io/v1/leases"


@dataclass
class FakeApi:
    """`things` by the path of their whole list; a namespace in a path only narrows it."""

    things: dict[str, list[Thing]] = field(default_factory=dict)
    answers: dict[str, Thing] = field(default_factory=dict)
    forbidden: tuple[str, ...] = ()
    refuses: str = ""
    logs: dict[str, list[bytes | ApiError]] = field(default_factory=dict)
    changes: list[tuple[str, Thing]] = field(default_factory=list)
    watched: str = "trainingjobs"
    written: list[tuple[str, str, Thing, dict[str, str]]] = field(default_factory=list)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    namespace: str = "research"
    context: str = "lab"
    closed: bool = False

    async def get(
        self, path: str, params: Mapping[str, str] | None = None, *, timeout_seconds: float = 5.0
    ) -> Thing:
        found: Thing = orjson.loads(await self.raw("GET", path, params=params))
        return found

    async def create(self, path: str, body: Mapping[str, Any]) -> Thing:
        """Only reviews are created so; whoever is forbidden something is told so by them too."""
        asked = body["spec"]["resourceAttributes"]
        return {"status": {"allowed": asked["resource"] not in self.forbidden}}

    async def patch(
        self, path: str, body: Thing, *, params: Mapping[str, str] | None = None
    ) -> Thing:
        self.written.append(("PATCH", path, body, dict(params or {})))
        return await self.get(path)

    async def raw(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        params: Mapping[str, str] | None = None,
        **_: object,
    ) -> bytes:
        if any(word in path.split("/") for word in self.forbidden):
            raise Forbidden(f"{path} is forbidden")
        if method == "GET":
            return orjson.dumps(self._read(path, dict(params or {})))
        made: Thing = orjson.loads(body)
        self.written.append((method, path, made, dict(params or {})))
        if self.refuses:
            raise Invalid(self.refuses)
        return orjson.dumps({**made, "metadata": {**made["metadata"], "uid": "uid-of-new"}})

    async def watch(
        self, path: str, params: Mapping[str, str]
    ) -> AsyncGenerator[tuple[str, Thing], None]:
        """What was planned for that kind, then silence; a planned interrupt is Ctrl-C."""
        while self.changes and path.endswith(self.watched):
            await asyncio.sleep(0)
            kind, thing = self.changes.pop(0)
            if kind == "INTERRUPT":
                signal.raise_signal(signal.SIGINT)
                break
            yield kind, thing
        await asyncio.Event().wait()

    async def stream(
        self, path: str, params: Mapping[str, str], **_: object
    ) -> AsyncGenerator[bytes, None]:
        """Chunk after chunk; an error among them breaks it off, and the next call goes on."""
        pod = path.removesuffix("/log").rpartition("/")[2]
        self.asked.append((path, dict(params)))
        if pod not in self.logs:
            raise NotFound(f"no pod {pod}")
        for number, chunk in enumerate(self.logs[pod]):
            if isinstance(chunk, ApiError):
                del self.logs[pod][: number + 1]
                raise chunk
            yield chunk

    async def close(self) -> None:
        self.closed = True

    def _read(self, path: str, params: dict[str, str]) -> Thing:
        self.asked.append((path, params))
        if path in self.answers:
            return self.answers[path]
        whole, namespace, name = _parts(path)
        found = self.things.get(whole)
        if found is None:
            raise NotFound(f"{path} is not found")
        kept = [thing for thing in found if _selected(thing, namespace, params)]
        if name is None:
            return _page(kept, params)
        for thing in kept:
            if thing["metadata"]["name"] == name:
                return thing
        raise NotFound(f"{path} is not found")


def _parts(path: str) -> tuple[str, str | None, str | None]:
    """The path of the whole list, the namespace and the name."""
    words = path.split("/")
    namespace = None
    if "namespaces" in words:
        at = words.index("namespaces")
        namespace = words[at + 1]
        del words[at : at + 2]
    root = 4 if words[1] == "api" else 5
    return "/".join(words[:root]), namespace, words[root] if len(words) > root else None


def _page(kept: list[Thing], params: dict[str, str]) -> Thing:
    size, begin = int(params.get("limit", 500)), int(params.get("continue", 0))
    end = begin + size
    about: Thing = {"resourceVersion": "100"}
    if end < len(kept):
        about |= {"continue": str(end), "remainingItemCount": len(kept) - end}
    return {"metadata": about, "items": kept[begin:end]}


def _selected(thing: Thing, namespace: str | None, params: dict[str, str]) -> bool:
    if namespace is not None and thing["metadata"].get("namespace") != namespace:
        return False
    labels = thing["metadata"].get("labels") or {}
    terms = filter(None, params.get("labelSelector", "").split(","))
    if not all(_label_fits(labels, term) for term in terms):
        return False
    return all(
        _field_fits(thing, term)
        for term in filter(None, params.get("fieldSelector", "").split(","))
    )


def _label_fits(labels: Mapping[str, str], term: str) -> bool:
    if term.startswith("!"):
        return term[1:] not in labels
    key, _, value = term.partition("=")
    return labels.get(key) == value


def _field_fits(thing: Thing, term: str) -> bool:
    path, _, value = term.partition("=")
    found: Any = thing
    for name in path.removesuffix("!").split("."):
        found = (found or {}).get(name)
    return ((found or "") == value) is not path.endswith("!")
