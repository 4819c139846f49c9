"""A term in one process, without a server, and the objects that it sees.

Objects are handed to its caches as a watch would bring them, and every call to the API fails, so
nothing but the decisions is looked at.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from weft.brain.event import Tick
from weft.kube.client.errors import Unavailable
from weft.kube.metrics import Metrics
from weft.kube.operator.faults import Faults
from weft.kube.operator.main import settings_of
from weft.kube.operator.no_journal import NoJournal
from weft.kube.operator.observation.informers import Informers
from weft.kube.operator.options import OperatorOptions
from weft.kube.operator.term import Term
from weft.kube.pods import owner_of
from weft.model.ids import JobId
from weft.model.state import State

Raw = dict[str, Any]


class NoServer:
    """Every call fails; what was to be changed or deleted is noted."""

    calls: dict[str, int] = {}  # noqa: RUF012 - as the real one has it

    def __init__(self) -> None:
        self.patched: list[tuple[str, Raw]] = []
        self.deleted: list[str] = []

    async def get(self, *given: object, **named: object) -> Raw:
        await asyncio.sleep(0.01)
        raise Unavailable("down")

    create = get

    async def patch(self, path: str, body: Raw, **named: object) -> Raw:
        self.patched.append((path, body))
        return await self.get()

    async def delete(self, path: str, **named: object) -> Raw:
        self.deleted.append(path)
        return await self.get()

    def watch(self, *given: object, **named: object) -> Any:  # noqa: ANN401 - never looked at
        raise Unavailable("down")


class Elected:
    """A lease that is held."""

    transitions = 1
    leading = True

    async def wait_until_lost(self) -> None:
        await asyncio.Event().wait()


class HandFed(Informers):
    """What is followed comes from the test alone, which says when all of it is there."""

    async def catch_up(self, term: int) -> None:
        for cache in self.all:
            await cache.synced.wait()


class Stage:
    """A term, and the objects that it sees."""

    def __init__(
        self,
        recipe: str = "backfill",
        faults: Faults | None = None,
        metrics: Metrics | None = None,
        **options: Any,
    ) -> None:
        given = {"namespace": "weft", "identity": "me", "recipe": recipe, **options}
        self.metrics = Metrics() if metrics is None else metrics
        self.api = NoServer()
        settings = settings_of(OperatorOptions(**given))
        self.informers = HandFed(
            self.api,  # type: ignore[arg-type]
            settings.workers.nodes,
            self.metrics,
            Random(0),
        )
        self.term = Term(
            self.api,  # type: ignore[arg-type]
            Elected(),  # type: ignore[arg-type]
            settings,
            metrics=self.metrics,
            informers=self.informers,
            open_journal=lambda *_: NoJournal(),
            faults=faults,
        )
        self.version = 0
        self.node("n0")

    def _about(self, name: str, **more: object) -> Raw:
        self.version += 1
        return {
            "uid": name,
            "name": name,
            "resourceVersion": str(self.version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **more,
        }

    def node(self, name: str, gpus: str = "8") -> None:
        room = {"nvidia.com/gpu": gpus, "cpu": "64", "memory": "512Gi"}
        conditions = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": room, "conditions": conditions}
        self.term.nodes.take_event("ADDED", {"metadata": self._about(name), "status": status})

    def queue(self, name: str, **spec: object) -> None:
        raw = {"metadata": self._about(name), "spec": spec}
        self.term.queues.take_event("MODIFIED", raw)

    def job(self, name: str, status: Raw | None = None, **spec: object) -> str:
        namespace, _, short = name.partition("/")
        about = self._about(short, namespace=namespace)
        filled = {"run": "x", "image": "i", **spec}
        raw = {"metadata": about, "spec": filled, "status": status or {}}
        self.term.jobs.take_event("MODIFIED", raw)
        return name

    def pod(self, job: str, epoch: int, seat: int, node: str, **more: object) -> Raw:
        """A worker as the watch of labeled pods delivers it."""
        raw = self.worker(job, epoch, seat, node, **more)
        self.term.pods.take_event("ADDED", raw)
        return raw

    def worker(self, job: str, epoch: int, seat: int, node: str, **more: object) -> Raw:
        namespace, _, short = job.partition("/")
        labels = {"weft.dev/job": short, "weft.dev/epoch": str(epoch), "weft.dev/rank": str(seat)}
        owner = owner_of(short, str(more.pop("owner", short)))
        about = self._about(
            f"{short}-{epoch}-{seat}",
            namespace=namespace,
            labels=labels,
            ownerReferences=[owner],
            **more,
        )
        gpus = {"resources": {"requests": {"nvidia.com/gpu": "1"}}}
        return {
            "metadata": about,
            "spec": {"nodeName": node, "containers": [gpus]},
            "status": {"phase": "Running"},
        }

    def changed(self, raw: Raw, **about: object) -> Raw:
        """A new version of an object, with other metadata; None removes a field."""
        self.version += 1
        meta = {**raw["metadata"], **about, "resourceVersion": str(self.version)}
        kept = {name: value for name, value in meta.items() if value is not None}
        return {**raw, "metadata": kept}

    def state(self, job: str) -> State:
        state = self.term.brain.state
        return state.state_of(state.slot_of[JobId(job)])

    def figure(self, series: str) -> float:
        """As it is scraped."""
        lines = self.metrics.exposition()[0].decode().splitlines()
        (found,) = (line for line in lines if line.startswith(f"{series} "))
        return float(found.split()[-1])

    def rounds(self) -> None:
        for later in range(5):
            self.term.decider.deliver(Tick(self.term.now() + 20.0 * later))


def played(scene: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(scene())  # type: ignore[arg-type]


RUNNING: Raw = {
    "state": "Running",
    "decision": {
        "epoch": 1,
        "width": 1,
        "seats": [{"number": 0, "node": "n0", "gpus": 1, "cpus": 0.0, "memoryGib": 0.0}],
    },
}
