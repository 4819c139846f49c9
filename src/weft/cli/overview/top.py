"""`weft top`: how full the world is, and how far what runs has come."""

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from weft.cli.options import output_option
from weft.cli.terminal.age import lasting, now
from weft.cli.terminal.screen import cell, coloured, new_table, print_json, stdout
from weft.cli.terminal.watching import detaching, staying
from weft.cli.worlds.place import WATCH, Place, place_options
from weft.cli.worlds.world import World

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from weft.view.jobs import JobLine
    from weft.view.use import Use

SCHEMA = "weft-top/1"
BAR = 20
SHOWN = 50


@click.command()
@WATCH
@place_options
@output_option()
def top(*, watch: bool, place: Place, output: str) -> None:
    """Show how full the world is, and the jobs that run, with their progress.

    Jobs of all namespaces or users are counted where you may see them, unless -n names one.
    """

    async def work(world: World) -> None:
        if watch:
            pages = world.watch_top(place.namespace)
            await staying(pages, as_dict, lambda use: drawn(use, now(), world.whose), output)
        else:
            _print(await world.top(place.namespace), output, world.whose)

    with detaching("jobs go on; weft top shows them again"):
        place.run(work)


def drawn(use: "Use", at: datetime, whose: str = "namespace") -> "Group":
    from rich.console import Group

    return Group(*_sums(use), "", _table(use.jobs, at, whose))


def as_dict(use: "Use") -> dict[str, Any]:
    return {"schema": SCHEMA, **asdict(use)}


def bar(share: float, width: int = BAR) -> str:
    """`█████···············`: readable without colour, and in any width."""
    full = round(max(0.0, min(1.0, share)) * width)
    return "█" * full + "·" * (width - full)


def _print(use: "Use", output: str, whose: str) -> None:
    if output == "json":
        print_json(as_dict(use))
    else:
        stdout().print(drawn(use, now(), whose))


def _sums(use: "Use") -> list[str]:
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


def _table(jobs: "tuple[JobLine, ...]", at: datetime, whose: str) -> "Table":
    left = len(jobs) - SHOWN
    table = new_table("", caption=f"and {left:,} more; weft ls lists all" if left > 0 else "")
    for title in (whose, "job", "state", "GPUs", "progress", "left", "ran"):
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
