"""Slots: sealed or torn, busy or free, and never trusted."""

import os
from pathlib import Path

import pytest

from tests.agent.checkpoint.vaults import FACTS, a_stamp, half, write_slot
from weft.agent.checkpoint.errors import Damaged, SlotBusy, SlotError, SlotTorn
from weft.agent.checkpoint.slot import DATA_AT, Slot, SlotWriter


def read(slot: Slot) -> list[bytes]:
    found = []
    for piece in slot.sealed.pieces:
        data = bytearray(piece.record.bytes)
        slot.read_into(piece.at, memoryview(data))
        found.append(bytes(data))
    return found


def test_a_sealed_slot_tells_all_that_was_put_in(tmp_path: Path) -> None:
    path = write_slot(tmp_path / "worker-0.0", a_stamp(), half(0))
    with Slot(path) as slot:
        assert slot.sealed.stamp == a_stamp()
        assert slot.sealed.facts == FACTS
        assert [piece.record for piece in slot.sealed.pieces] == [record for record, _ in half(0)]
        assert read(slot) == [data for _, data in half(0)]
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_slot_that_was_begun_and_not_sealed_is_torn(tmp_path: Path) -> None:
    path = write_slot(tmp_path / "worker-0.0", a_stamp(), half(0), sealed=False)
    with pytest.raises(SlotTorn):
        Slot(path)


def test_beginning_to_write_unseals(tmp_path: Path) -> None:
    path = write_slot(tmp_path / "worker-0.0", a_stamp(), half(0))
    writer = SlotWriter(path)
    assert writer.begin()
    writer.release()
    with pytest.raises(SlotTorn):
        Slot(path)
    writer.close()


def test_a_slot_that_was_never_written_is_torn(tmp_path: Path) -> None:
    writer = SlotWriter(tmp_path / "worker-0.0")
    with pytest.raises(SlotTorn):
        Slot(writer.path)
    writer.reserve(5000)
    with pytest.raises(SlotTorn):
        Slot(writer.path)
    writer.close()


def test_reader_and_writer_exclude_each_other(tmp_path: Path) -> None:
    path = write_slot(tmp_path / "worker-0.0", a_stamp(), half(0))
    writer = SlotWriter(path)
    with Slot(path), Slot(path):
        assert not writer.begin()
    assert writer.begin()
    with pytest.raises(SlotBusy):
        Slot(path)
    writer.release()
    writer.close()


def test_a_slot_grows_and_stays_readable_until_it_is_begun(tmp_path: Path) -> None:
    path = write_slot(tmp_path / "worker-0.0", a_stamp(), half(0))
    writer = SlotWriter(path)
    writer.reserve(100_000)
    with Slot(path) as slot:
        assert read(slot) == [data for _, data in half(0)]
    writer.close()


def test_pages_can_be_touched_before(tmp_path: Path) -> None:
    writer = SlotWriter(tmp_path / "worker-0.0")
    writer.reserve(20 << 20)
    assert writer.populate() in (True, False)
    writer.close()


def test_memory_that_is_not_there_is_an_error_and_no_signal(tmp_path: Path) -> None:
    writer = SlotWriter(tmp_path / "worker-0.0")
    with pytest.raises(SlotError, match="shared memory") as caught:
        writer.reserve(1 << 60)
    assert "larger" in caught.value.hint
    writer.close()


def test_every_flipped_bit_of_head_and_text_is_noticed(tmp_path: Path) -> None:
    path = write_slot(tmp_path / "worker-0.0", a_stamp(), half(0))
    data = path.read_bytes()
    text_at = data.index(b'{"version"')
    for position in (*range(48), *range(text_at, len(data), 7)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << position % 8
        path.write_bytes(flipped)
        with pytest.raises((SlotError, Damaged)):
            Slot(path)


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    path = write_slot(tmp_path / "worker-0.0", a_stamp(), half(0))
    size = path.stat().st_size
    for length in (size - 1, DATA_AT + 5, DATA_AT, 47, 10, 0):
        os.truncate(path, length)
        with pytest.raises((SlotError, Damaged)):
            Slot(path)


def test_a_slot_cut_short_while_it_is_read_costs_an_error_only(tmp_path: Path) -> None:
    path = write_slot(tmp_path / "worker-0.0", a_stamp(), half(0))
    with Slot(path) as slot:
        os.truncate(path, DATA_AT)
        with pytest.raises(Damaged, match="ends too early"):
            slot.read_into(0, memoryview(bytearray(16)))


def test_links_fifos_and_folders_are_no_slots(tmp_path: Path) -> None:
    real = write_slot(tmp_path / "real", a_stamp(), half(0))
    (tmp_path / "link").symlink_to(real)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    for name in ("link", "fifo", "folder", "absent"):
        with pytest.raises(Damaged):
            Slot(tmp_path / name)
