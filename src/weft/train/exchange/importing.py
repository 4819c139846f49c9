"""From what others have written to a vault that a job resumes from.

The tensors are read straight into a slot on the target's disk, and the vault makes a checkpoint of
it as it does of any other: with digests, a manifest and a name that appears last. A checkpoint that
Weft has exported comes back bit for bit. Of a foreign one only the program knows which parameter is
the third of its optimizer, so it is kept in the names that it came with, and translated when the
program loads it (`weft.train.state.adoption`).
"""

import mmap
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from weft.agent.checkpoint import layout
from weft.agent.checkpoint.catalogue import root_of
from weft.agent.checkpoint.document import MOST_COUNT, Json, plain
from weft.agent.checkpoint.errors import NotWritten, SlotError
from weft.agent.checkpoint.layout import TensorRecord, pack, packed_bytes
from weft.agent.checkpoint.slot import DATA_AT, SlotWriter, Stamp, describe, slot_path
from weft.agent.checkpoint.vault import Run, Vault
from weft.model.errors import SpecError
from weft.train.exchange import notes
from weft.train.exchange.exporting import check_free
from weft.train.exchange.foreign import Foreign, Progress, records_of, understood
from weft.train.exchange.safetensors_files import SUFFIX, SafetensorsFiles
from weft.train.exchange.whole import tensor_at
from weft.train.state.adoption import KEY
from weft.train.state.progress import Progress as Steps

INCARNATION: Final = 0  # before any start of the job
SLOTS: Final = ".import"
COUNTER: Final = "/step"


@dataclass(frozen=True, slots=True)
class Wish:
    """What the importer is told where the checkpoint does not say it."""

    job: str | None = None
    step: int | None = None
    samples: int | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """What has come of it, and what people have to be told."""

    path: Path
    job: str
    step: int
    samples: int | None
    bytes: int
    kind: str
    foreign: bool
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _State:
    """All that makes up a checkpoint but the bytes."""

    job: str
    step: int
    samples: int
    torch: str
    names: Mapping[str, str]
    facts: Json


def bring_in(source: Path, target: Path, wish: Wish, tell: Progress) -> Imported:
    """One checkpoint, into a folder that is empty or not there yet."""
    check_free(target)
    if max(wish.step or 0, wish.samples or 0) >= MOST_COUNT:
        raise SpecError("--step or --samples is larger than any training", hint="mind the digits")
    foreign = _reader(source)
    noted = notes.read(source) if source.is_dir() else None
    state, remarks = _guessed(foreign, wish) if noted is None else (_noted(noted, wish), ())
    records = records_of(foreign, state.names)
    path = _write(foreign, target, state, records, tell)
    return Imported(
        path=path,
        job=state.job,
        step=state.step,
        samples=state.samples if noted is not None or wish.samples is not None else None,
        bytes=sum(record.bytes for record in records.values()),
        kind=foreign.kind,
        foreign=noted is None,
        remarks=remarks,
    )


def _reader(source: Path) -> Foreign:
    if not source.exists():
        raise SpecError(f"{source} does not exist", hint="name a file or a folder")
    if source.is_dir() and (source / ".metadata").exists():
        from weft.train.exchange.dcp import DcpFiles

        return DcpFiles(source)
    if source.suffix == SUFFIX or (source.is_dir() and any(source.glob(f"*{SUFFIX}"))):
        return SafetensorsFiles(source)
    if source.is_dir():
        _refuse_own(source)
    raise SpecError(
        f"{source} is neither a DCP checkpoint nor safetensors",
        hint="what torch.save has written: load it in Python and save it by "
        "torch.distributed.checkpoint.save",
    )


def _refuse_own(source: Path) -> None:
    try:
        root = root_of(source)
    except SpecError:
        return
    raise SpecError(
        f"{root} is a folder of Weft's own checkpoints", hint="a job resumes from it as it is"
    )


def _noted(noted: notes.Notes, wish: Wish) -> _State:
    if (wish.step, wish.samples) != (None, None):
        raise SpecError(
            f"{notes.NAME} says that it is step {noted.step} after {noted.samples:,} samples",
            hint="leave --step and --samples out",
        )
    job = wish.job or noted.job
    return _State(job, noted.step, noted.samples, noted.torch, noted.tensors, noted.facts)


def _guessed(foreign: Foreign, wish: Wish) -> tuple[_State, tuple[str, ...]]:
    found = understood(foreign)
    step, remarks = wish.step, []
    if step is None:
        step = _counted(foreign, found.names) - 1
        remarks.append(f"steps done: {step + 1:,}, by the optimizer's own counters")
    steps = Steps((step + 1,), before=None if wish.samples is None else (step + 1, wish.samples))
    told = {**found.facts, "has_optimizer": found.has_optimizer}
    facts = {KEY: told, "progress": steps.to_json()}
    if not found.has_optimizer:
        remarks.append("not in it: the optimizer's state; it begins anew")
    if not found.facts["scheduler"]:
        remarks.append("not in it: a scheduler; the script's own begins anew")
    if wish.samples is None:
        remarks.append(
            "not in it: the position in the data; taken to be steps × the script's batch"
        )
    remarks += [f"left out: {name}" for name in found.left_out]
    samples = wish.samples or 0
    return (
        _State(wish.job or "job", step, samples, torch.__version__, found.names, facts),
        tuple(remarks),
    )


def _counted(foreign: Foreign, names: Mapping[str, str]) -> int:
    """Steps that the optimizer says it has made."""
    counters = [
        theirs
        for name, theirs in names.items()
        if name.startswith("optimizer/") and name.endswith(COUNTER) and not _shape(foreign, theirs)
    ]
    values = {one: torch.zeros((), dtype=_dtype(foreign, one)) for one in counters}
    foreign.read_into(values, lambda *_: None)
    most = max((float(value) for value in values.values()), default=0.0)
    if not 1 <= most <= MOST_COUNT:
        raise SpecError(
            "it does not say how many steps were done",
            hint="--step N, the number of its last step counted from 0; weights to begin from at "
            "step 0 are for the script to load",
        )
    return int(most)


def _shape(foreign: Foreign, name: str) -> tuple[int, ...]:
    return foreign.tensors[name][1]


def _dtype(foreign: Foreign, name: str) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, foreign.tensors[name][0])
    return dtype


def _write(
    foreign: Foreign,
    target: Path,
    state: _State,
    records: Mapping[str, TensorRecord],
    tell: Progress,
) -> Path:
    """By way of a slot on the same disk; nothing is left if it fails."""
    made = not target.exists()
    slots = target / SLOTS
    slots.mkdir(parents=True)
    try:
        path = _fill(foreign, slot_path(slots, 0, 0), state, records, tell)
        vault = Vault(target, state.job, INCARNATION)
        written = vault.write(state.step, state.samples, [path], run=Run(torch=state.torch))
    except BaseException:
        shutil.rmtree(target if made else slots, ignore_errors=True)
        raise
    shutil.rmtree(slots, ignore_errors=True)
    assert written is not None
    return written


def _fill(
    foreign: Foreign, path: Path, state: _State, records: Mapping[str, TensorRecord], tell: Progress
) -> Path:
    pieces = pack(records.values())
    writer = SlotWriter(path)
    try:
        memory = _reserved(writer, packed_bytes(pieces))
        writer.begin()
        targets = {
            state.names[piece.record.name]: tensor_at(memory, DATA_AT + piece.at, piece.record)
            for piece in pieces
        }
        foreign.read_into(targets, tell)
        del targets
        stamp = Stamp(state.job, INCARNATION, 0, 0, state.step, state.samples)
        text = describe(stamp, plain(layout.to_json(pieces)), state.facts)
        writer.seal(writer.describe(text))
        writer.release()
    finally:
        writer.close()
    return path


def _reserved(writer: SlotWriter, size: int) -> mmap.mmap:
    try:
        return writer.reserve(size)
    except SlotError as error:
        raise NotWritten(
            f"there is no room for {size / 2**20:,.0f} MiB in {writer.path.parents[1]}",
            hint="it needs twice as much while it is imported",
        ) from error
