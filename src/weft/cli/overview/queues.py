"""`weft queues`: the tree of shares, what is used of each, and who waits."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from weft.cli.options import output_option
from weft.cli.terminal.grid import Grid
from weft.cli.terminal.screen import print_json, say
from weft.cli.terminal.watching import detaching, staying
from weft.cli.worlds.place import WATCH, Place, place_options
from weft.cli.worlds.world import World

if TYPE_CHECKING:
    from weft.view.queues import QueueLine

SCHEMA = "weft-queues/1"
NUMBERS = ("guaranteed", "limit", "used", "running", "waiting")

HOURS = {"GPU hours": "gpu_hours", "fair part": "owed_gpu_hours"}


@click.command()
@WATCH
@place_options
@output_option("table", "wide", "json")
def queues(*, watch: bool, place: Place, output: str) -> None:
    """Show the tree of queues: GPUs guaranteed, at most, and used; jobs running and waiting.

    On one machine also its users: GPU hours that they have had, and what their fair part was.
    """

    async def work(world: World) -> None:
        if not watch:
            _print(await world.queues(), output)
            return
        wide = output == "wide"
        await staying(
            world.watch_queues(), as_dict, lambda lines: grid_of(lines, wide=wide), output
        )

    with detaching("weft queues shows them again"):
        place.run(work)


def grid_of(lines: "Iterable[QueueLine]", *, wide: bool = False) -> Grid:
    from weft.view.queues import in_tree_order

    more = ["borrowing", "weight", "namespaces", "recipe"] if wide else []
    lines = list(lines)
    hours = list(HOURS) if any(line.gpu_hours is not None for line in lines) else []
    numbered = frozenset({*NUMBERS, *hours})
    grid = Grid(["queue", *NUMBERS, *hours, "ready", *more], numbered, state="ready")
    for depth, line in in_tree_order(lines):
        numbers = [getattr(line, name) for name in NUMBERS]
        numbers += [_hours(getattr(line, HOURS[title])) for title in hours]
        grid.add("  " * depth + line.name, *numbers, _ready(line), *(_more(line) if wide else ()))
    return grid


def as_dict(lines: "Iterable[QueueLine]") -> dict[str, Any]:
    from weft.view.queues import in_tree_order

    rows = [{**asdict(line), "depth": depth} for depth, line in in_tree_order(lines)]
    return {"schema": SCHEMA, "queues": rows}


def _print(lines: "tuple[QueueLine, ...]", output: str) -> None:
    if output == "json":
        print_json(as_dict(lines))
    elif lines:
        grid_of(lines, wide=output == "wide").print()
    else:
        say("there are no queues")


def _hours(hours: float | None) -> str:
    return "" if hours is None else f"{hours:,.1f}"


def _ready(line: "QueueLine") -> str:
    if line.ready is None:
        return ""
    return "yes" if line.ready else f"no: {line.message}"


def _more(line: "QueueLine") -> tuple[object, ...]:
    namespaces = ", ".join(line.namespaces) or "all"
    return ("yes" if line.borrowing else "no", f"{line.weight:g}", namespaces, line.recipe)
