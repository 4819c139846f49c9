"""Small slots and vaults for the tests, made without torch."""

import random
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from weft.agent.checkpoint import layout
from weft.agent.checkpoint.document import Json, plain
from weft.agent.checkpoint.errors import Damaged, SlotError
from weft.agent.checkpoint.layout import TensorRecord, pack, packed_bytes, whole
from weft.agent.checkpoint.slot import (
    DATA_AT,
    PER_WORKER,
    Slot,
    SlotWriter,
    Stamp,
    describe,
    slot_path,
)
from weft.agent.checkpoint.vault import Run, Vault

JOB = "team/train"
WORLD = 2
RUN = Run(world=WORLD, plan={"shard": WORLD}, code="sha256:abc", torch="2.13.0")
FACTS = {"optimizer": {"kind": "AdamW", "groups": [{"lr": 3e-4}]}, "objects": {}}
Part = tuple[TensorRecord, bytes]


def a_stamp(step: int = 10, worker: int = 0, incarnation: int = 1, epoch: int = 1) -> Stamp:
    return Stamp(JOB, incarnation, epoch, worker, step, cursor=step * 8)


def half(worker: int, *, seed: int = 0) -> list[Part]:
    """What one of two workers holds: rows of a matrix, all of a vector, a counter."""
    draw = random.Random(seed * 10 + worker)
    rows = TensorRecord("model/weight", "float32", (7, 5), (4 * worker, 0), (4 - worker, 5))
    bias = whole("model/bias", "bfloat16", (33,))
    step = whole("optimizer/weight/step", "float32", ())
    same = random.Random(seed)
    return [
        (bias, same.randbytes(bias.bytes)),
        (rows, draw.randbytes(rows.bytes)),
        (step, struct.pack("<f", 7.0)),
    ]


def write_slot(
    path: Path, stamp: Stamp, parts: Sequence[Part], facts: Json = FACTS, *, sealed: bool = True
) -> Path:
    """A slot as a trainer leaves it; not sealed: as a trainer that was killed leaves it."""
    writer = SlotWriter(path)
    pieces = pack(record for record, _ in parts)
    memory = writer.reserve(packed_bytes(pieces))
    assert writer.begin()
    for piece, (_, data) in zip(pieces, parts, strict=True):
        memory[DATA_AT + piece.at : DATA_AT + piece.at + len(data)] = data
    head = writer.describe(describe(stamp, plain(layout.to_json(pieces)), facts))
    if sealed:
        writer.seal(head)
    writer.release()
    writer.close()
    return path


def write_slots(
    folder: Path, step: int = 10, *, index: int = 0, incarnation: int = 1, epoch: int = 1
) -> list[Path]:
    """The slots of both workers at one moment."""
    folder.mkdir(exist_ok=True)
    return [
        write_slot(
            slot_path(folder, worker, index),
            a_stamp(step, worker, incarnation, epoch),
            half(worker, seed=step),
        )
        for worker in range(WORLD)
    ]


def newest_slots(folder: Path, workers: Sequence[int]) -> tuple[Path, ...] | None:
    """The slots of the latest moment that all these workers have sealed, in their order."""
    sealed = [_sealed_of(folder, worker) for worker in workers]
    common = set.intersection(*(set(found) for found in sealed)) if sealed else set()
    return tuple(found[max(common)] for found in sealed) if common else None


def _sealed_of(folder: Path, worker: int) -> dict[tuple[int, int, int], Path]:
    found = {}
    for index in range(PER_WORKER):
        path = slot_path(folder, worker, index)
        with suppress(SlotError, Damaged), Slot(path) as slot:
            found[slot.sealed.stamp.moment] = path
    return found


def a_vault(folder: Path, incarnation: int = 1, *, seconds: float = 1000.0) -> Vault:
    return Vault(folder / "vault", JOB, incarnation, threads=1, clock=lambda: seconds)


def save(vault: Vault, step: int, *, epoch: int = 1) -> Path:
    """One whole checkpoint by one agent."""
    slots = write_slots(
        vault.root.parent / "slots", step, incarnation=vault.incarnation, epoch=epoch
    )
    path = vault.write(step, step * 8, slots, run=RUN)
    assert path is not None
    return path


def contents(folder: Path) -> Mapping[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
