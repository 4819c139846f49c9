"""Snapshots: taken whole or not at all, and loaded bit for bit under any plan."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.agent.checkpoint.vaults import newest_slots
from tests.train.alone import run_alone
from tests.train.state.shards import a_model, digests, train
from weft.agent.checkpoint.errors import Damaged, SlotError, StateMismatch
from weft.agent.checkpoint.layout import pack, packed_bytes
from weft.agent.checkpoint.slot import (
    DATA_AT,
    Slot,
    SlotWriter,
    slot_path,
)
from weft.agent.checkpoint.vault import Run, Vault
from weft.train.state.book import HeldState, StateBook
from weft.train.state.snapshot import POINTS, Snapshots, load

torch.set_num_threads(1)


def a_book(seed: int = 0, steps: int = 2) -> StateBook:
    model = a_model(seed)
    optimizer = torch.optim.AdamW(model.parameters(), 0.05)
    train(model, optimizer, range(steps))
    return StateBook(model, optimizer)


def snapshots_of(book: StateBook, folder: Path, worker: int = 0) -> Snapshots:
    made = Snapshots(folder, worker, book, job="job", incarnation=1)
    made.prepare()
    return made


class Odd(nn.Module):
    """Tensors of many types and layouts."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(torch.randn(3, generator=draw))
        shapes: dict[str, Tensor] = {
            "images": torch.randn(2, 3, 4, 5, generator=draw).to(memory_format=torch.channels_last),
            "turned": torch.randn(4, 6, generator=draw).t(),
            "parted": torch.randn(8, 8, generator=draw)[::2, 1::3],
            "empty": torch.zeros(0, 4),
            "scalar": torch.randn((), generator=draw),
            "short": torch.randn(5, generator=draw).to(torch.bfloat16),
            "eighth": torch.randn(7, generator=draw).to(torch.float8_e4m3fn),
            "flags": torch.rand(9, generator=draw) > 0.5,
            "bytes": torch.randint(0, 255, (11,), generator=draw, dtype=torch.uint8),
            "whole": torch.randint(-(2**62), 2**62, (3,), generator=draw),
            "complex": torch.randn(4, dtype=torch.complex64, generator=draw).conj(),
            "nan": torch.tensor([float("nan"), float("inf"), -0.0]),
        }
        for name, tensor in shapes.items():
            self.register_buffer(name, tensor)


def odd_book(seed: int) -> StateBook:
    model = Odd(seed)
    return StateBook(model, torch.optim.SGD(model.parameters()))


# --------------------------------------------------------------------------------------- taking


def test_a_snapshot_is_loaded_bit_for_bit(tmp_path: Path) -> None:
    book, other = odd_book(0), odd_book(1)
    with_slots = snapshots_of(book, tmp_path)
    taken = with_slots.take(7, 56, epoch=3)
    assert taken is not None
    assert taken.bytes == packed_bytes(pack(book.records()))
    assert taken.seconds > 0
    assert other.digest() != book.digest()
    loaded = load(other, taken.path)
    assert (loaded.step, loaded.cursor) == (7, 56)
    assert other.digest() == book.digest()
    with Slot(taken.path) as slot:
        assert (slot.sealed.stamp.job, slot.sealed.stamp.epoch) == ("job", 3)
    with_slots.close()


def test_slots_are_written_in_turn(tmp_path: Path) -> None:
    with_slots = snapshots_of(a_book(), tmp_path)
    taken = [with_slots.take(step, 0) for step in range(4)]
    paths = [each.path for each in taken if each is not None]
    assert paths[0] == paths[2] != paths[1] == paths[3]
    assert newest_slots(tmp_path, [0]) == (paths[3],)
    with_slots.close()


def test_a_slot_that_is_being_read_is_left_alone(tmp_path: Path) -> None:
    with_slots = snapshots_of(a_book(), tmp_path)
    first, second = with_slots.take(1, 0), with_slots.take(2, 0)
    assert first is not None
    assert second is not None
    with Slot(first.path) as reading:
        third = with_slots.take(3, 0)
        assert third is not None
        assert third.path == second.path
        assert reading.sealed.stamp.step == 1
        with Slot(second.path):
            assert with_slots.take(4, 0) is None
            assert with_slots.skipped == 1
    fourth = with_slots.take(5, 0)
    assert fourth is not None
    assert fourth.path == first.path
    with_slots.close()


def test_state_that_grows_is_taken_too(tmp_path: Path) -> None:
    book = a_book(steps=0)
    with_slots = snapshots_of(book, tmp_path)
    small = with_slots.take(0, 0)
    train(book.model, book.optimizer, range(2))
    book.add("more", torch.randn(50_000))
    large = with_slots.take(2, 16)
    assert small is not None
    assert large is not None
    assert large.bytes > small.bytes + 200_000
    other = a_book(1, steps=0)
    other.add("more", torch.zeros(50_000))
    load(other, large.path)
    assert other.digest() == book.digest()
    with_slots.close()


def test_a_snapshot_without_preparation_works(tmp_path: Path) -> None:
    with_slots = Snapshots(tmp_path, 0, a_book())
    assert with_slots.take(1, 0) is not None
    with_slots.close()


def test_pages_are_touched_without_the_kernels_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SlotWriter, "populate", lambda _: False)
    with_slots = snapshots_of(a_book(), tmp_path)
    assert with_slots.take(1, 0) is not None
    with_slots.close()


def test_a_failure_while_copying_tears_one_slot_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = a_book()
    held = book.look()
    with_slots = snapshots_of(book, tmp_path)
    before = with_slots.take(1, 0)
    assert before is not None
    with monkeypatch.context() as patched:
        patched.setattr(book, "look", lambda: replace(held, facts={"no": object()}))
        with pytest.raises(TypeError):
            with_slots.take(2, 0)
    assert newest_slots(tmp_path, [0]) == (before.path,)
    assert with_slots.take(3, 0) is not None
    with_slots.close()


# -------------------------------------------------------------------------------------- loading


def a_checkpoint(book: StateBook, folder: Path) -> Path:
    with_slots = snapshots_of(book, folder)
    taken = with_slots.take(2, 16)
    assert taken is not None
    path = Vault(folder / "vault", "job", 1).write(2, 16, [taken.path], run=Run(torch="any"))
    with_slots.close()
    assert path is not None
    return path


def test_a_checkpoint_is_loaded_bit_for_bit_and_training_goes_on(tmp_path: Path) -> None:
    book, other = a_book(0), a_book(1, steps=0)
    path = a_checkpoint(book, tmp_path)
    parameters = list(other.model.parameters())
    loaded = load(other, path)
    assert (loaded.step, loaded.cursor) == (2, 16)
    assert other.digest() == book.digest()
    assert all(a is b for a, b in zip(parameters, other.model.parameters(), strict=True))
    for each in (book, other):
        train(each.model, each.optimizer, range(2, 5))
    assert other.digest() == book.digest()


def cut_slots(book: StateBook, folder: Path, parts: int) -> list[Path]:
    """What `parts` shards would have saved: each tensor cut along its first dimension."""
    paths = []
    for worker in range(parts):
        part = StateBook.__new__(StateBook)
        part.__dict__.update(book.__dict__)
        cut = {}
        for name, tensor in book.tensors().items():
            size = -(-tensor.shape[0] // parts) if tensor.ndim else 0
            cut[name] = tensor[worker * size : (worker + 1) * size] if tensor.ndim else tensor
        records = tuple(
            type(record)(
                record.name,
                record.dtype,
                record.shape,
                _start(record.shape, worker, parts),
                tuple(cut[record.name].shape),
            )
            for record in book.records()
        )
        held = HeldState(cut, records, book.facts())
        part.look = lambda held=held: held  # type: ignore[method-assign, misc]
        with_slots = snapshots_of(part, folder, worker)
        taken = with_slots.take(2, 16)
        with_slots.close()
        assert taken is not None
        paths.append(taken.path)
    return paths


def _start(shape: tuple[int, ...], worker: int, parts: int) -> tuple[int, ...]:
    if not shape:
        return ()
    return (min(shape[0], worker * -(-shape[0] // parts)), *(0 for _ in shape[1:]))


@pytest.mark.parametrize("parts", [2, 3, 5])
def test_shards_are_loaded_into_one_replica(tmp_path: Path, parts: int) -> None:
    book = a_book(0)
    slots = cut_slots(book, tmp_path, parts)
    from_slots, from_disk = a_book(1), a_book(2, steps=0)
    load(from_slots, slots)
    assert from_slots.digest() == book.digest()
    path = Vault(tmp_path / "vault", "job", 1).write(2, 16, slots)
    assert path is not None
    load(from_disk, path)
    assert from_disk.digest() == book.digest()
    with pytest.raises(Damaged):
        load(from_disk, slots[1:])


@pytest.mark.parametrize("damage", ["bit", "cut", "name", "shape", "type", "facts", "optimizer"])
def test_nothing_is_changed_by_what_is_refused(tmp_path: Path, damage: str) -> None:
    path = a_checkpoint(a_book(0), tmp_path)
    model = a_model(1)
    shard = path / "shard-0-of-1.bin"
    if damage == "bit":
        data = bytearray(shard.read_bytes())
        data[len(data) // 2] ^= 4
        shard.write_bytes(data)
    elif damage == "cut":
        os.truncate(shard, shard.stat().st_size - 1)
    elif damage == "name":
        model = nn.Sequential(*model, nn.Linear(1, 1))
    elif damage == "shape":
        model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.Linear(3, 2))
    elif damage == "type":
        model = model.double()
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), 0.05)
    if damage == "optimizer":
        optimizer = torch.optim.NAdam(model.parameters())
    book = StateBook(model, optimizer)
    if damage == "facts":
        book.add("more", nn.Identity())
    before = book.digest()
    with pytest.raises((Damaged, StateMismatch)):
        load(book, path)
    assert book.digest() == before
    assert not optimizer.state


def test_a_torn_or_strange_slot_is_refused(tmp_path: Path) -> None:
    with_slots = snapshots_of(a_book(), tmp_path)
    taken = with_slots.take(1, 0)
    assert taken is not None
    book = a_book(1)
    with pytest.raises(SlotError):
        load(book, slot_path(tmp_path, 0, 1))
    with pytest.raises(Damaged):
        load(book, tmp_path / "absent")
    with pytest.raises(Damaged):
        load(book, [])
    with_slots.close()


# ------------------------------------------------------------------------------- real processes

TAKE = """
import sys
from dataclasses import replace
from pathlib import Path
from tests.train.state.test_snapshot import a_book, snapshots_of, train
from weft import crash
crash._PLAN.__init__(sys.argv[2])
book = a_book(0, steps=1)
slots = snapshots_of(book, Path(sys.argv[1]))
slots.take(1, 8)
print(book.digest(), flush=True)
train(book.model, book.optimizer, range(1, 2))
print(book.digest(), flush=True)
slots.take(2, 16)
raise SystemExit("it should have died")
"""


@pytest.mark.slow
@pytest.mark.parametrize("label", POINTS)
def test_a_trainer_that_is_killed_leaves_one_whole_state(tmp_path: Path, label: str) -> None:
    program = tmp_path / "take.py"
    program.write_text(TAKE)
    ended = run_alone(program, str(tmp_path), f"{label}#2", folder=tmp_path)
    assert ended.code == -signal.SIGKILL, ended.complaints
    sealed = label == "snapshot-sealed"
    slots = newest_slots(tmp_path, [0])
    assert slots is not None
    path = Vault(tmp_path / "vault", "job", 1).write(*((2, 16) if sealed else (1, 8)), slots)
    book = a_book(1, steps=0)
    assert path is not None
    load(book, path)
    assert book.digest() == ended.out.split()[sealed]


@pytest.mark.slow
def test_plain_and_sharded_trainings_load_each_others_state(tmp_path: Path) -> None:
    """One replica → two FSDP2 shards → one replica, moments and all, each time bit for bit."""
    book = a_book(0, steps=2)
    source = a_checkpoint(book, tmp_path)
    slots = tmp_path / "slots"
    slots.mkdir()
    shards = Path(__file__).with_name("shards.py")
    with ThreadPoolExecutor() as starting:
        workers = [
            starting.submit(
                run_alone,
                shards,
                *(str(rank), "2", str(slots), str(source), "2", "5"),
                folder=tmp_path,
                GLOO_SOCKET_IFNAME="lo",
            )
            for rank in range(2)
        ]
        assert [worker.result().code for worker in workers] == [0, 0]
    for rank in range(2):
        assert json.loads((slots / f"loaded-{rank}.json").read_text()) == digests(book)
    trained = json.loads((slots / "trained-0.json").read_text())
    assert trained == json.loads((slots / "trained-1.json").read_text())
    assert trained != digests(book)

    found = newest_slots(slots, [0, 1])
    assert found is not None
    for path in found:
        with Slot(path) as slot:
            weight = next(p for p in slot.sealed.pieces if p.record.name == "model/0.weight")
            assert weight.record.sizes < weight.record.shape
    vault = Vault(tmp_path / "vault", "job", 1)
    checkpoint = vault.write(5, 40, found, run=Run(world=2, plan={"shard": 2}))
    plain, live = a_book(3, steps=0), a_book(4)
    assert checkpoint is not None
    load(plain, checkpoint)
    load(live, found)
    assert digests(plain) == digests(live) == trained
    train(book.model, book.optimizer, range(2, 5))
    assert plain.facts() == book.facts()


@pytest.mark.slow
def test_large_state_goes_the_whole_way(tmp_path: Path) -> None:
    """150 MB; how long it takes is for the benchmark to say."""
    model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(12)))
    optimizer = torch.optim.AdamW(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    book = StateBook(model, optimizer)
    with_slots = snapshots_of(book, tmp_path)
    taken = with_slots.take(1, 0)
    assert taken is not None
    assert taken.bytes > 150_000_000
    vault = Vault(tmp_path / "vault", "job", 1)
    vault.write(1, 0, [taken.path])
    found = vault.newest().checkpoint
    assert found is not None
    before = book.digest()
    with torch.no_grad():
        for tensor in book.tensors().values():
            tensor.zero_()
    load(book, found.path)
    assert book.digest() == before
    with_slots.close()


def test_data_in_a_slot_begin_behind_the_head(tmp_path: Path) -> None:
    """Frozen: an agent of another version must find the bytes."""
    model = nn.Linear(1, 1)
    with torch.no_grad():
        model.weight.fill_(1.0)
        model.bias.fill_(2.0)
    book = StateBook(model, torch.optim.SGD(model.parameters()))
    with_slots = snapshots_of(book, tmp_path)
    taken = with_slots.take(1, 0)
    assert taken is not None
    data = taken.path.read_bytes()
    assert data[DATA_AT : DATA_AT + 4] == b"\x00\x00\x00\x40"
    assert data[DATA_AT + 64 : DATA_AT + 68] == b"\x00\x00\x80\x3f"
    with_slots.close()
