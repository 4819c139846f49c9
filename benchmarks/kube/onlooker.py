"""Plays a user who submits, looks on, and writes down when what was seen.

Jobs and pods of one namespace are watched from the beginning, so times are those of the API
server's own stream and no poll blurs them.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from weft.kube.client.api import Api
from weft.kube.client.errors import Unavailable
from weft.kube.names import jobs_path, pods_path
from weft.kube.wishes import training_job
from weft.model.errors import WorldError

CONNECTIONS = 32
LONG_CALL_SECONDS = 60.0
POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Seen:
    """One write of a job's status."""

    at: float
    state: str
    changed: bool  # of state; otherwise of words and numbers only


@dataclass(slots=True)
class JobStory:
    """What is known of one job now, and every write of its status so far."""

    status: Mapping[str, Any] = field(default_factory=dict)
    writes: list[Seen] = field(default_factory=list)

    @property
    def state(self) -> str:
        return str(self.status.get("state", ""))

    @property
    def reason(self) -> str:
        return str(self.status.get("reason", ""))


class Onlooker:
    """One namespace, seen through watches."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.jobs: dict[str, JobStory] = {}
        self.running_pods: set[str] = set()
        self.pods: set[str] = set()
        self.pods_created = 0
        self._api = api
        self._namespace = namespace
        self._blind: BaseException | None = None

    async def submit(self, name: str, **spec: object) -> float:
        """As `weft submit` does; when it was sent."""
        asked = {"run": "train", **spec}
        body = orjson.dumps(training_job(asked, namespace=self._namespace, name=name))
        sent = time.monotonic()
        path = jobs_path(self._namespace)
        await self._api.raw("POST", path, body=body, timeout_seconds=LONG_CALL_SECONDS)
        return sent

    async def submit_all(self, specs: Mapping[str, Mapping[str, object]]) -> float:
        """At full speed; when the first was sent."""
        line = iter(specs.items())
        began = time.monotonic()

        async def lane(todo: Iterable[tuple[str, Mapping[str, object]]]) -> None:
            for name, spec in todo:
                await self.submit(name, **spec)

        async with asyncio.TaskGroup() as group:
            for _ in range(CONNECTIONS):
                group.create_task(lane(line))
        return began

    async def delete(self, name: str) -> None:
        await self._api.delete(jobs_path(self._namespace, name))

    async def until(self, true: Callable[[], bool], what: str, seconds: float) -> float:
        """When it was seen to be true."""
        deadline = time.monotonic() + seconds
        while not true():
            if self._blind is not None:
                raise WorldError(f"nobody looks on any more: {self._blind}") from self._blind
            if time.monotonic() > deadline:
                raise WorldError(f"waited {seconds:.0f} s for {what}: {self.counts()}")
            await asyncio.sleep(POLL_SECONDS)
        return time.monotonic()

    def counts(self) -> dict[str, int]:
        """Jobs by state."""
        counts: dict[str, int] = {}
        for story in self.jobs.values():
            counts[story.state] = counts.get(story.state, 0) + 1
        return counts

    def are(self, *states: str) -> int:
        """How many jobs are in one of these states."""
        return sum(story.state in states for story in self.jobs.values())

    def runs(self, job: str) -> int:
        """How many pods of the job run."""
        return sum(name.startswith(f"{job}-") for name in self.running_pods)

    async def follow(self) -> None:
        """For ever; what ends it is raised where somebody waits."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watch(jobs_path(self._namespace), self._see_job))
                group.create_task(self._watch(pods_path(self._namespace), self._see_pod))
        except BaseExceptionGroup as error:
            self._blind = error
            raise

    async def _watch(self, path: str, see: Callable[[str, dict[str, Any]], None]) -> None:
        version = (await self._api.get(path, {"limit": "1"}))["metadata"]["resourceVersion"]
        while True:
            params = {"resourceVersion": version, "timeoutSeconds": "3600"}
            # A watch on which nothing happens for minutes is taken for dead; it goes on from there.
            with suppress(Unavailable):
                async with aclosing(self._api.watch(path, params)) as events:
                    async for kind, raw in events:
                        version = raw["metadata"]["resourceVersion"]
                        see(kind, raw)

    def _see_job(self, kind: str, raw: dict[str, Any]) -> None:
        name = raw["metadata"]["name"]
        if kind == "DELETED":
            self.jobs.pop(name, None)
            return
        story = self.jobs.setdefault(name, JobStory())
        status = raw.get("status") or {}
        if status == story.status:
            return
        state = status.get("state", "")
        story.writes.append(Seen(time.monotonic(), state, state != story.state))
        story.status = status

    def _see_pod(self, kind: str, raw: dict[str, Any]) -> None:
        name = raw["metadata"]["name"]
        if kind == "DELETED":
            self.pods.discard(name)
            self.running_pods.discard(name)
            return
        if kind == "ADDED":
            self.pods_created += 1
        self.pods.add(name)
        if raw["status"].get("phase") == "Running":
            self.running_pods.add(name)
        else:
            self.running_pods.discard(name)


@asynccontextmanager
async def onlooker(kubeconfig: Path, namespace: str) -> AsyncIterator[Onlooker]:
    """Somebody who looks on for as long as the block lasts."""
    async with await Api.connect(kubeconfig=str(kubeconfig), user_agent="onlooker") as api:
        who = Onlooker(api, namespace)
        follow = asyncio.create_task(who.follow())
        await asyncio.sleep(0.2)
        try:
            yield who
        finally:
            follow.cancel()
            await asyncio.gather(follow, return_exceptions=True)
