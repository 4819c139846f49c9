"""What the operator follows: jobs, queues, nodes, and all pods that hold something of a node.

A replica follows from its first moment, whether or not it leads, and beyond the end of a term. So
whoever is elected need not list fifty thousand objects first; it makes sure that nothing which the
last leader wrote is still on its way (`catch_up`), and begins.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any, Protocol

from weft.kube.claims import SLICES, claims_path
from weft.kube.client.api import Api
from weft.kube.client.backoff import Backoff
from weft.kube.client.cache import Cache
from weft.kube.device_index import DeviceIndex
from weft.kube.devices import ObservedClaim, ObservedSlice, read_claim, read_slice
from weft.kube.logs import Log
from weft.kube.metrics import Metrics
from weft.kube.names import (
    LABELED_PODS,
    TERM_ANNOTATION,
    UNLABELED_PODS,
    jobs_path,
    pods_path,
    queues_path,
)
from weft.kube.node_rules import NodeRules
from weft.kube.operator.observation.job import JobReader, ObservedJob
from weft.kube.operator.observation.node import ObservedNode, read_node
from weft.kube.operator.observation.pod import ObservedPod, read_pod
from weft.kube.operator.observation.pod_index import PodIndex
from weft.kube.operator.observation.queue import ObservedQueue, read_queue

log = Log("informers")


class Listener(Protocol):
    """Whoever is told of each change, after the indexes have taken it in."""

    def job_changed(self, key: str, old: ObservedJob | None, new: ObservedJob | None) -> None: ...
    def pod_changed(self, key: str, old: ObservedPod | None, new: ObservedPod | None) -> None: ...
    def foreign_changed(
        self, key: str, old: ObservedPod | None, new: ObservedPod | None
    ) -> None: ...
    def node_changed(
        self, key: str, old: ObservedNode | None, new: ObservedNode | None
    ) -> None: ...
    def queue_changed(
        self, key: str, old: ObservedQueue | None, new: ObservedQueue | None
    ) -> None: ...
    def slice_changed(
        self, key: str, old: ObservedSlice | None, new: ObservedSlice | None
    ) -> None: ...
    def claim_changed(
        self, key: str, old: ObservedClaim | None, new: ObservedClaim | None
    ) -> None: ...


class Informers:
    """Five caches, two more where drivers publish GPUs, and at most one who listens."""

    def __init__(self, api: Api, nodes: NodeRules, metrics: Metrics, random: Random) -> None:
        self.pod_index = PodIndex()
        self.device_index = DeviceIndex()
        self._api = api
        self._metrics = metrics
        self._random = random
        self._job_reader = JobReader()
        self._listener: Listener | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._said: asyncio.Task[None] | None = None
        self.jobs: Cache[ObservedJob] = self._cache(
            jobs_path(), self._job_reader, self._job_changed
        )
        self.pods: Cache[ObservedPod] = self._cache(
            pods_path(), read_pod, self._pod_changed, LABELED_PODS
        )
        self.foreign: Cache[ObservedPod] = self._cache(
            pods_path(), read_pod, self._foreign_changed, UNLABELED_PODS, name="foreign"
        )
        see = partial(read_node, rules=nodes)
        self.nodes: Cache[ObservedNode] = self._cache("/api/v1/nodes", see, self._node_changed)
        self.queues: Cache[ObservedQueue] = self._cache(
            queues_path(), read_queue, self._queue_changed
        )

        self.slices: Cache[ObservedSlice] = self._cache(SLICES, read_slice, self._slice_changed)
        self.claims: Cache[ObservedClaim] = self._cache(
            claims_path(), read_claim, self._claim_changed
        )
        self.gpu_class = nodes.gpu_class

    @property
    def all(self) -> tuple[Cache[Any], ...]:
        found = self.jobs, self.queues, self.nodes, self.pods, self.foreign
        return (*found, self.slices, self.claims) if self.gpu_class else found

    def start(self) -> None:
        """Follow, until stopped."""
        self._tasks = {asyncio.create_task(cache.run(), name=cache.name) for cache in self.all}
        self._said = asyncio.create_task(self._say_when_listed(), name="listed")

    async def stop(self) -> None:
        ending = [*self._tasks, *filter(None, [self._said])]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    @property
    def follows(self) -> bool:
        """Whether all is well; what is broken stays so, and a new one has to be made."""
        return bool(self._tasks) and not any(task.done() for task in self._tasks)

    async def until_broken(self) -> None:
        """For ever, unless one breaks, which is raised here."""
        if not self._tasks:
            await asyncio.Event().wait()
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def catch_up(self, term: int) -> None:
        """Until all is known that was decided before this term.

        Decisions are in the jobs' objects and nowhere else, and are there before any pod. A pod
        that is seen late is one that a decision on record speaks of.
        """
        mark = partial(self._mark, term=term)
        others = (cache.catch_up() for cache in self.all if cache is not self.jobs)
        await asyncio.gather(self.jobs.catch_up(mark), *others)

    async def _mark(self, key: str, *, term: int) -> int:
        namespace, _, name = key.partition("/")
        patch = {"metadata": {"annotations": {TERM_ANNOTATION: str(term)}}}
        marked = await self._api.patch(jobs_path(namespace, name), patch)
        return int(marked["metadata"]["resourceVersion"])

    async def _say_when_listed(self) -> None:
        for cache in self.all:
            await cache.synced.wait()
        log.info("followed", **{cache.name: len(cache.items) for cache in self.all})

    def tell(self, listener: Listener | None) -> None:
        """Who listens from now on; nobody is told of what is there already."""
        self._listener = listener

    def _job_changed(self, key: str, old: ObservedJob | None, new: ObservedJob | None) -> None:
        if new is None and old is not None:
            self._job_reader.forget(old.uid)
        if self._listener is not None:
            self._listener.job_changed(key, old, new)

    def _pod_changed(self, key: str, old: ObservedPod | None, new: ObservedPod | None) -> None:
        self.pod_index.worker_changed(key, old, new)
        if self._listener is not None:
            self._listener.pod_changed(key, old, new)

    def _foreign_changed(self, key: str, old: ObservedPod | None, new: ObservedPod | None) -> None:
        self.pod_index.changed(old, new)
        if self._listener is not None:
            self._listener.foreign_changed(key, old, new)

    def _node_changed(self, key: str, old: ObservedNode | None, new: ObservedNode | None) -> None:
        if self._listener is not None:
            self._listener.node_changed(key, old, new)

    def _queue_changed(
        self, key: str, old: ObservedQueue | None, new: ObservedQueue | None
    ) -> None:
        if self._listener is not None:
            self._listener.queue_changed(key, old, new)

    def _slice_changed(
        self, key: str, old: ObservedSlice | None, new: ObservedSlice | None
    ) -> None:
        self.device_index.slice_changed(old, new)
        if self._listener is not None:
            self._listener.slice_changed(key, old, new)

    def _claim_changed(
        self, key: str, old: ObservedClaim | None, new: ObservedClaim | None
    ) -> None:
        self.device_index.claim_changed(old, new)
        if self._listener is not None:
            self._listener.claim_changed(key, old, new)

    def _cache(
        self,
        path: str,
        trim: Callable[[dict[str, Any]], Any],
        on_change: Callable[[str, Any, Any], None],
        params: Mapping[str, str] | None = None,
        *,
        name: str = "",
    ) -> Cache[Any]:
        cache = Cache(
            self._api,
            path,
            trim=trim,
            on_change=on_change,
            params=params,
            backoff=Backoff(self._random),
            name=name,
        )
        cache.restarted = partial(self._metrics.watch_restarted, cache.kind)
        return cache
