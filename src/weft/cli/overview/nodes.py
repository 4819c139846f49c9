"""`weft nodes`: GPUs, by machine."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from weft.cli.options import output_option
from weft.cli.terminal.grid import Grid
from weft.cli.terminal.screen import print_json, say
from weft.cli.worlds.place import Place, place_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.view.node_page import NodeLine, NodePage

SCHEMA = "weft-nodes/1"
TITLES = ("node", "GPU type", "rack", "GPUs", "used", "foreign", "free", "state", "health")
NUMBERS = frozenset({"GPUs", "used", "foreign", "free", "CPUs", "memory"})


@click.command()
@click.option("--all", "every", is_flag=True, help="Nodes without GPUs too.")
@place_options
@output_option("table", "wide", "json")
def nodes(*, every: bool, place: Place, output: str) -> None:
    """List the nodes: their GPUs, what jobs hold of them, what others do, and their state."""
    page = place.run(lambda world: world.nodes())
    shown = [node for node in page.nodes if every or node.gpus or node.tainted_gpus]
    if output == "json":
        print_json(as_dict(shown, page.notes))
    elif shown:
        grid_of(shown, wide=output == "wide").print()
        say(_sum(shown))
    _talk(page, len(page.nodes) - len(shown))


def grid_of(nodes: "Sequence[NodeLine]", *, wide: bool = False) -> Grid:
    more = ["pool", "CPUs", "memory", "jobs"] if wide else []
    grid = Grid([*TITLES, *more], NUMBERS)
    for node in nodes:
        free = node.free_gpus if node.ready else 0
        cells = (node.name, node.gpu_type, node.rack, node.gpus, node.used_gpus)
        rest = (node.pool, node.cpus, node.memory, ", ".join(node.jobs)) if wide else ()
        grid.add(*cells, node.foreign_gpus, free, node.state, _health(node), *rest)
    return grid


def _health(node: "NodeLine") -> str | None:
    words = [node.health.words] if node.health else []
    if node.tainted_gpus:
        words.append(f"{node.tainted_gpus} tainted")
    return ", ".join(words) or None


def as_dict(nodes: "Sequence[NodeLine]", notes: Sequence[str]) -> dict[str, Any]:
    return {"schema": SCHEMA, "nodes": nodes, "notes": notes}


def _sum(nodes: "Sequence[NodeLine]") -> str:
    total = sum(node.gpus for node in nodes)
    used = sum(node.used_gpus for node in nodes)
    free = sum(node.free_gpus for node in nodes if node.ready)
    return f"{total:,} GPUs on {len(nodes):,} nodes: {used:,} used by jobs, {free:,} free"


def _talk(page: "NodePage", hidden: int) -> None:
    if not page.nodes:
        say("there are no nodes")
    if hidden:
        say(f"note: {hidden:,} nodes without GPUs are left out; --all shows them")
    for note in (*page.notes, *_tainted(page), *_aside(page)):
        say(f"note: {note}")


def _tainted(page: "NodePage") -> "Iterator[str]":
    return (f"{node.name}: {taint}" for node in page.nodes for taint in node.taints)


def _aside(page: "NodePage") -> "Iterator[str]":
    """Where nothing starts, why, and until when."""
    for node in page.nodes:
        health = node.health
        if health is None or not (health.aside_since or health.for_people):
            continue
        if health.for_people:
            yield f"{node.name} should be set aside, but too many are: look at it"
        elif health.lemon:
            yield f"{node.name} is set aside until it is repaired: {health.why}"
        else:
            yield f"{node.name} is set aside until a check has passed: {health.why}"
