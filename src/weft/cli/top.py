"""`weft top`: how full the cluster is, and how far what runs has come."""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from weft.cli.age import lasting, now
from weft.cli.cluster import WATCH, Cluster, Place, place_options
from weft.cli.options import output_option
from weft.cli.screen import cell, coloured, new_table, print_json, say, stdout
from weft.cli.watching import detaching, redraw, reprint_json

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from weft.kube.client.cache import Cache
    from weft.kube.reading.jobs import JobLine
    from weft.kube.reading.nodes import NodeSize

SCHEMA = "weft-top/1"
BAR = 20
SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A cluster at a glance. What concerns nodes is None where the reader may not see them."""

    nodes: int | None
    ready_nodes: int | None
    gpus: int | None
    ready_gpus: int | None
    used_gpus: int
    running: int
    waiting: int
    jobs: "tuple[JobLine, ...]"


@click.command()
@WATCH
@place_options
@output_option()
def top(*, watch: bool, place: Place, output: str) -> None:
    """Show how full the cluster is, and the jobs that run, with their progress.

    Jobs of all namespaces are counted where you may see them, unless -n names one.
    """

    async def work(cluster: Cluster) -> None:
        board = await Board.of(cluster, place.namespace)
        if not watch:
            _print(board.use(), output)
            return
        await _stay(board, output)

    with detaching("jobs go on; weft top shows them again"):
        place.run(work)


class Board:
    """Jobs that are alive, and nodes, as they are now."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.jobs: Cache[JobLine]
        self.nodes: Cache[NodeSize] | None = None

    @classmethod
    async def of(cls, cluster: Cluster, namespace: str | None) -> "Board":
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
        running = sorted((j for j in jobs if not j.waiting), key=lambda j: (-j.gpus, j.name))
        return Use(
            nodes=None if nodes is None else len(nodes),
            ready_nodes=None if nodes is None else sum(node.ready for node in nodes),
            gpus=None if nodes is None else sum(node.gpus for node in nodes),
            ready_gpus=None if nodes is None else sum(node.gpus for node in nodes if node.ready),
            used_gpus=sum(job.gpus for job in running),
            running=len(running),
            waiting=len(jobs) - len(running),
            jobs=tuple(running),
        )

    async def _read_jobs(self, cluster: Cluster, namespace: str | None) -> None:
        from weft.kube.client.cache import Cache
        from weft.kube.names import jobs_path
        from weft.kube.reading.jobs import HOLDING, WAITING, job_line, selecting
        from weft.kube.reading.paging import REMEMBERED

        self.jobs = Cache(
            cluster.api,
            jobs_path(namespace),
            trim=job_line,
            params={**REMEMBERED, **selecting({"", *WAITING, *HOLDING})},
            on_change=self._note,
        )
        await self.jobs.sync()

    async def _read_nodes(self, cluster: Cluster) -> None:
        from weft.kube.client.cache import Cache
        from weft.kube.reading.nodes import NODES, node_size
        from weft.kube.reading.paging import REMEMBERED

        self.nodes = Cache(
            cluster.api, NODES, trim=node_size, params=REMEMBERED, on_change=self._note
        )
        await self.nodes.sync()

    def _note(self, *_: object) -> None:
        self.changed.set()


def drawn(use: Use, at: datetime) -> "Group":
    from rich.console import Group

    return Group(*_sums(use), "", _table(use.jobs, at))


def as_dict(use: Use) -> dict[str, Any]:
    from dataclasses import asdict

    return {"schema": SCHEMA, **asdict(use)}


def bar(share: float, width: int = BAR) -> str:
    """`█████···············`: readable without colour, and in any width."""
    full = round(max(0.0, min(1.0, share)) * width)
    return "█" * full + "·" * (width - full)


async def _stay(board: Board, output: str) -> None:
    from weft.kube.reading.following import kept_up

    nodes = () if board.nodes is None else (board.nodes,)
    async with kept_up(board.jobs, *nodes):
        if output == "json":
            await reprint_json(lambda: as_dict(board.use()), board.changed)
        await redraw(lambda: drawn(board.use(), now()), board.changed)


def _print(use: Use, output: str) -> None:
    if output == "json":
        print_json(as_dict(use))
    else:
        stdout().print(drawn(use, now()))


def _sums(use: Use) -> list[str]:
    jobs = f"jobs   {use.running:,} running, {use.waiting:,} waiting"
    if not use.gpus:
        return [f"GPUs   {use.used_gpus:,} used", jobs]
    share = use.used_gpus / use.gpus
    out = use.gpus - (use.ready_gpus or 0)
    lost = f"; {out:,} are on nodes that take no new work" if out else ""
    return [
        f"GPUs   {bar(share)} {share:.0%}  {use.used_gpus:,} of {use.gpus:,} used{lost}",
        f"nodes  {use.ready_nodes:,} of {use.nodes:,} ready",
        jobs,
    ]


def _table(jobs: "tuple[JobLine, ...]", at: datetime) -> "Table":
    left = len(jobs) - SHOWN
    table = new_table("", caption=f"and {left:,} more; weft ls lists all" if left > 0 else "")
    for title in ("namespace", "job", "state", "GPUs", "progress", "left", "ran"):
        right = title in ("GPUs", "left", "ran")
        table.add_column(title, justify="right" if right else "left", no_wrap=title == "job")
    for job in jobs[:SHOWN]:
        table.add_row(
            *(cell(job.namespace), cell(job.name), coloured(job.state), str(job.gpus)),
            _progress(job.progress),
            lasting(job.remaining_seconds) or "–",
            lasting(job.ran_seconds(at)) or "–",
        )
    return table


def _progress(text: str | None) -> str:
    """A bar beside the number, where it is one."""
    try:
        share = float((text or "").rstrip("%")) / 100
    except ValueError:
        return cell(text)
    return f"{bar(share, BAR // 2)} {cell(text)}"
