"""`weft checkpoint ls`: what a folder holds, the newest first."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft.cli.checkpoint.words import FOLDER, VERIFY, size
from weft.cli.options import output_option
from weft.cli.terminal.age import age, now
from weft.cli.terminal.grid import Grid
from weft.cli.terminal.screen import print_json, say

if TYPE_CHECKING:
    from weft.agent.checkpoint.catalogue import Listed

SCHEMA = "weft-checkpoints/1"
TITLES = ("step", "incarnation", "state", "age", "size", "shards", "tensors", "folder", "reason")
NUMBERS = frozenset({"step", "incarnation", "age", "size", "shards", "tensors"})


@click.command()
@FOLDER
@VERIFY
@output_option()
def ls(*, folder: Path, verify: bool, output: str) -> None:
    """List the checkpoints of FOLDER, the newest first, and what is wrong with each.

    A checkpoint is whole if its files are as long as its manifest says; the number of its step is
    that of the last one it knows of, counted from 0.
    """
    from weft.agent.checkpoint.catalogue import listed, root_of

    root = root_of(folder)
    found = list(listed(root, verify=verify))
    if output == "json":
        print_json({"schema": SCHEMA, "folder": str(root), "checkpoints": list(map(line, found))})
    elif found:
        grid_of(found, now()).print()
    else:
        say(f"no checkpoints in {root}")


def line(one: "Listed") -> dict[str, Any]:
    """One as JSON."""
    return {
        "step": one.step,
        "incarnation": one.incarnation,
        "state": one.soundness,
        "reason": one.why,
        "written_at": written_at(one),
        "bytes": one.bytes,
        "shards": None if one.manifest is None else len(one.manifest.shards),
        "tensors": tensors(one),
        "path": str(one.path),
    }


def grid_of(found: "list[Listed]", at: datetime) -> Grid:
    grid = Grid(TITLES, NUMBERS)
    for one in found:
        shards = None if one.manifest is None else len(one.manifest.shards)
        of = (one.step, one.incarnation, one.soundness, age(written_at(one), at))
        grid.add(*of, size(one.bytes), shards, tensors(one), one.path.name, one.why)
    return grid


def written_at(one: "Listed") -> datetime | None:
    """Where somebody has set the clock to a time that cannot be, there is none."""
    if one.manifest is None:
        return None
    try:
        return datetime.fromtimestamp(one.manifest.written_seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def tensors(one: "Listed") -> int | None:
    return None if one.manifest is None else len(one.manifest.shards[0].pieces)
