"""`weft checkpoint show`: one checkpoint in full: where it stands, and every tensor."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft.cli.checkpoint.ls import line, written_at
from weft.cli.checkpoint.words import FOLDER, VERIFY, size
from weft.cli.exit_status import Exit
from weft.cli.options import output_option
from weft.cli.terminal.age import age, now
from weft.cli.terminal.grid import Grid
from weft.cli.terminal.screen import coloured, fact_table, harmless, print_json, say, stdout

if TYPE_CHECKING:
    from weft.agent.checkpoint.catalogue import Listed
    from weft.agent.checkpoint.manifest import Manifest

SCHEMA = "weft-checkpoint/1"
SHOWN_TENSORS = 40


@click.command()
@FOLDER
@click.argument("step", type=click.IntRange(0), required=False)
@VERIFY
@click.option("--all", "all_tensors", is_flag=True, help="Print every tensor.")
@output_option()
def show(*, folder: Path, step: int | None, verify: bool, all_tensors: bool, output: str) -> None:
    """Show the checkpoint of STEP in FOLDER, or the newest sound one.

    The exit status is 1 if it is damaged.
    """
    from weft.agent.checkpoint.catalogue import chosen, root_of

    found = chosen(root_of(folder), step, verify=verify)
    if output == "json":
        print_json({"schema": SCHEMA, **line(found), **described(found.manifest)})
    else:
        _print(found, now(), all_tensors=all_tensors)
    if not found.usable:
        click.get_current_context().exit(Exit.FAILED)


def described(manifest: "Manifest | None") -> dict[str, Any]:
    """What only the manifest knows."""
    if manifest is None:
        return {"head": None, "tensors": [], "files": [], "facts": None}
    head = manifest.head
    return {
        "head": {name: _plain(getattr(head, name)) for name in type(head).__slots__},
        "tensors": tensor_lines(manifest),
        "files": [
            {"name": shard.file, "bytes": shard.bytes, "chunks": len(shard.chunks)}
            for shard in manifest.shards
        ],
        "facts": manifest.facts,
    }


def tensor_lines(manifest: "Manifest") -> list[dict[str, Any]]:
    """Each as a whole, and how many different parts it is in."""
    from math import prod

    from weft.agent.checkpoint.layout import ITEM_BYTES

    parts: dict[str, set[tuple[int, ...]]] = {}
    for shard in manifest.shards:
        for piece in shard.pieces:
            if piece.record.elements:
                parts.setdefault(piece.record.name, set()).add(piece.record.offsets)
    return [
        {
            "name": record.name,
            "dtype": record.dtype,
            "shape": list(record.shape),
            "bytes": prod(record.shape) * ITEM_BYTES[record.dtype],
            "parts": max(len(parts.get(record.name, ())), 1),
        }
        for record in (piece.record for piece in manifest.shards[0].pieces)
    ]


def _print(found: "Listed", at: datetime, *, all_tensors: bool) -> None:
    console = stdout()
    console.print(
        f"{coloured(found.soundness)}  step {found.step:,}", fact_table(_facts(found, at))
    )
    if found.manifest is None:
        return
    lines = tensor_lines(found.manifest)
    shown = lines if all_tensors else lines[:SHOWN_TENSORS]
    grid = Grid(("tensor", "type", "shape", "size", "parts"), frozenset({"size", "parts"}))
    for one in shown:
        shape = "×".join(map(str, one["shape"])) or "scalar"
        grid.add(one["name"], one["dtype"], shape, size(one["bytes"]), one["parts"])
    console.print()
    grid.print()
    if len(shown) < len(lines):
        say(f"note: {len(lines) - len(shown):,} more tensors; --all prints them")


def _facts(found: "Listed", at: datetime) -> dict[str, str]:
    facts = {"folder": str(found.path), "incarnation": str(found.incarnation)}
    if found.why:
        facts["reason"] = found.why
    if found.manifest is None:
        return facts
    head = found.manifest.head
    shards = len(found.manifest.shards)
    return {
        **facts,
        "job": head.job,
        "steps done": f"{head.step + 1:,}",
        "samples": f"{head.cursor:,}",
        "written": f"{written_at(found) or '–'} ({age(written_at(found), at) or '–'} ago)",
        "size": f"{size(found.bytes)} in {shards} shard{'s' if shards > 1 else ''}",
        "workers": str(head.world),
        "plan": ", ".join(f"{name} {value}" for name, value in head.plan.items()),
        "torch": head.torch,
        **_of_the_program(found.manifest.facts),
    }


def _of_the_program(facts: object) -> dict[str, str]:
    """What is no tensor, as far as it looks like what Weft writes."""
    told = facts if isinstance(facts, dict) else {}
    optimizer = told.get("optimizer")
    groups = optimizer.get("groups", []) if isinstance(optimizer, dict) else []
    kind = optimizer.get("kind", "") if isinstance(optimizer, dict) else ""
    rates = [_rate(group) for group in groups]
    objects = told.get("objects")
    return {
        "optimizer": harmless(f"{kind}, lr {', '.join(rates)}" if rates else str(kind)),
        "objects": ", ".join(objects) if isinstance(objects, dict) else "",
    }


def _rate(group: object) -> str:
    options = group.get("options", group) if isinstance(group, dict) else {}
    rate = options.get("lr") if isinstance(options, dict) else None
    return f"{rate:g}" if isinstance(rate, int | float) else "–"


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever a head holds
    return dict(value) if not isinstance(value, str | int) else value
