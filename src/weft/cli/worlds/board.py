"""What `weft top` shows of a cluster: jobs that are alive, and nodes, kept up while it is shown."""

import asyncio
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING

from weft.cli.terminal.screen import say
from weft.view.use import Use, widest_first

if TYPE_CHECKING:
    from weft.cli.worlds.cluster import ClusterWorld
    from weft.kube.client.cache import Cache
    from weft.kube.reading.node_reader import NodeSize
    from weft.view.jobs import JobLine


class Board:
    """Jobs that are alive, and nodes, as they are now."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.jobs: Cache[JobLine]
        self.nodes: Cache[NodeSize] | None = None

    @classmethod
    async def of(cls, cluster: "ClusterWorld", namespace: str | None) -> "Board":
        """What the reader may see: all namespaces or one, with nodes or without."""
        from weft.kube.client.errors import Forbidden

        board = cls()
        try:
            await board._read_jobs(cluster, namespace)
        except Forbidden:
            if namespace is not None:
                raise
            say(f"note: you may not list the jobs of all namespaces: '{cluster.namespace}' only")
            await board._read_jobs(cluster, cluster.namespace)
        try:
            await board._read_nodes(cluster)
        except Forbidden:
            say("note: you may not list nodes: the cluster's size is unknown")
            board.nodes = None
        return board

    def use(self) -> Use:
        """The sums, and the jobs that hold something, widest first."""
        nodes = None if self.nodes is None else tuple(self.nodes.items.values())
        jobs = self.jobs.items.values()
        running = widest_first(jobs)
        return Use(
            nodes=None if nodes is None else len(nodes),
            ready_nodes=None if nodes is None else sum(node.ready for node in nodes),
            gpus=None if nodes is None else sum(node.gpus for node in nodes),
            ready_gpus=None if nodes is None else sum(node.gpus for node in nodes if node.ready),
            used_gpus=sum(job.gpus for job in running),
            running=len(running),
            waiting=len(jobs) - len(running),
            jobs=running,
        )

    def kept_up(self) -> AbstractAsyncContextManager[None]:
        """While inside, both follow the server."""
        from weft.kube.reading.following import kept_up

        nodes = () if self.nodes is None else (self.nodes,)
        return kept_up(self.jobs, *nodes)

    async def _read_jobs(self, cluster: "ClusterWorld", namespace: str | None) -> None:
        from weft.kube.client.cache import Cache
        from weft.kube.names import jobs_path
        from weft.kube.reading.jobs import job_line, selecting
        from weft.kube.reading.paging import REMEMBERED
        from weft.view.states import HOLDING, WAITING

        self.jobs = Cache(
            cluster.api,
            jobs_path(namespace),
            trim=job_line,
            params={**REMEMBERED, **selecting({"", *WAITING, *HOLDING})},
            on_change=self._note,
        )
        await self.jobs.sync()

    async def _read_nodes(self, cluster: "ClusterWorld") -> None:
        from weft.kube.client.cache import Cache
        from weft.kube.reading.node_reader import NODES, node_size, selected
        from weft.kube.reading.paging import REMEMBERED
        from weft.kube.reading.settings import read_node_rules

        rules = await read_node_rules(cluster.api)

        self.nodes = Cache(
            cluster.api,
            NODES,
            trim=partial(node_size, rules=rules),
            params={**REMEMBERED, **selected(rules)},
            on_change=self._note,
        )
        await self.nodes.sync()

    def _note(self, *_: object) -> None:
        self.changed.set()
