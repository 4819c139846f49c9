"""The vault: what is written is found, fenced, kept and let go."""

import errno
import fcntl
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.agent.checkpoint.vaults import (
    FACTS,
    JOB,
    RUN,
    WORLD,
    a_stamp,
    a_vault,
    contents,
    half,
    save,
    write_slot,
    write_slots,
)
from weft.agent.checkpoint import beneath, fence
from weft.agent.checkpoint.errors import (
    CheckpointError,
    NotWritten,
    SlotBusy,
    SlotTorn,
    StepExists,
    VaultError,
    WriterFenced,
)
from weft.agent.checkpoint.folders import Folder, Kind
from weft.agent.checkpoint.retention import HOUR_SECONDS, kept
from weft.agent.checkpoint.saving import Saving
from weft.agent.checkpoint.slot import Slot, SlotWriter
from weft.agent.checkpoint.source import open_source
from weft.agent.checkpoint.vault import Run, Vault


def names(vault: Vault) -> list[str]:
    return sorted(path.name for path in vault.root.iterdir() if path.name.startswith("step-"))


def test_what_was_written_is_found(tmp_path: Path) -> None:
    vault = a_vault(tmp_path, 3)
    path = save(vault, 10, epoch=2)
    found = vault.newest()
    assert found.refused == ()
    assert found.checkpoint is not None
    assert found.checkpoint.path == path == vault.root / "step-10.inc-3"
    assert (found.checkpoint.step, found.checkpoint.cursor) == (10, 80)
    manifest = found.checkpoint.manifest
    assert (manifest.head.job, manifest.head.incarnation, manifest.head.epoch) == (JOB, 3, 2)
    assert (manifest.head.world, dict(manifest.head.plan)) == (WORLD, {"shard": WORLD})
    assert (manifest.head.code, manifest.head.torch) == (RUN.code, RUN.torch)
    assert manifest.facts == FACTS
    assert sorted(contents(path)) == ["manifest.json", "shard-0-of-2.bin", "shard-1-of-2.bin"]


def test_the_bytes_are_those_of_the_slots(tmp_path: Path) -> None:
    path = save(a_vault(tmp_path), 10)
    with open_source(path) as source:
        assert (source.step, source.cursor, source.facts) == (10, 80, FACTS)
        for worker, shard in enumerate(source.shards):
            for piece, (record, data) in zip(shard.pieces, half(worker, seed=10), strict=True):
                assert piece.record == record
                assert shard.memory[piece.at : piece.end] == data


def test_a_checkpoint_and_a_slot_of_version_1_are_read_for_ever() -> None:
    """Never to be made anew: later versions of Weft must read these very files."""
    golden = Path(__file__).parent / "golden"
    found = Vault(golden, JOB, 1).newest()
    assert found.refused == ()
    assert found.checkpoint is not None
    with open_source(found.checkpoint.path) as source, Slot(golden / "worker-0.0") as slot:
        assert (source.step, source.cursor, source.facts) == (10, 80, FACTS)
        assert slot.sealed.facts == FACTS
        for piece, (record, data) in zip(slot.sealed.pieces, half(0, seed=10), strict=True):
            assert piece.record == record
            assert source.shards[0].memory[piece.at : piece.end] == data


def test_the_newest_step_wins_and_an_empty_vault_has_none(tmp_path: Path) -> None:
    vault = a_vault(tmp_path)
    assert vault.newest().checkpoint is None
    assert not vault.root.exists()
    for step in (9, 100, 20):
        save(vault, step)
    found = vault.newest().checkpoint
    assert found is not None
    assert found.step == 100


def test_a_shard_larger_than_a_chunk_is_written_by_several_threads(tmp_path: Path) -> None:
    record = half(0)[0][0]
    big = [(type(record)("model/big", "uint8", (9_000_001,), (0,), (9_000_001,)), b"")]
    data = random.Random(0).randbytes(9_000_001)
    slot = write_slot(tmp_path / "slot", a_stamp(), [(big[0][0], data)])
    vault = Vault(tmp_path / "vault", JOB, 1, threads=3)
    path = vault.write(10, 80, [slot])
    assert path is not None
    assert (path / "shard-0-of-1.bin").read_bytes()[: len(data)] == data
    found = vault.newest().checkpoint
    assert found is not None
    assert len(found.manifest.shards[0].chunks) == 3


def test_the_bytes_are_flushed_before_the_name_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = a_vault(tmp_path)
    vault.claim()
    slots = write_slots(tmp_path / "slots")
    log: list[str] = []
    fsync, rename = os.fsync, os.rename

    def logged_fsync(file: int) -> None:
        log.append(f"flush {Path(os.readlink(f'/proc/self/fd/{file}')).name}")
        fsync(file)

    def logged_rename(old: str, new: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        log.append(f"name {new}")
        with pytest.raises(BlockingIOError), (vault.root / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        rename(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "fsync", logged_fsync)
    monkeypatch.setattr(os, "rename", logged_rename)
    vault.write(10, 80, slots)
    assert log == [
        "flush shard-0-of-2.bin",
        "flush shard-1-of-2.bin",
        "flush manifest.json",
        "flush step-10.tmp-1",
        "name step-10.inc-1",
        "flush vault",
    ]


# ------------------------------------------------------------------------------------- the fence


def test_an_older_incarnation_may_not_write(tmp_path: Path) -> None:
    old, new = a_vault(tmp_path, 1), a_vault(tmp_path, 2)
    save(old, 10)
    new.claim()
    with pytest.raises(WriterFenced, match="incarnation 1") as caught:
        save(old, 20)
    assert caught.value.hint
    assert names(old) == ["step-10.inc-1"]
    with pytest.raises(WriterFenced):
        old.retain(0.0)
    with pytest.raises(WriterFenced):
        old.claim()


def test_a_writer_that_is_overtaken_while_it_writes_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if it had been stopped for a minute before the last instant."""
    old = a_vault(tmp_path, 1)
    slots = write_slots(tmp_path / "slots")
    fsync = os.fsync
    done: list[bool] = []

    def overtaken(file: int) -> None:
        fsync(file)
        if "shard-1" in os.readlink(f"/proc/self/fd/{file}") and not done:
            done.append(True)
            a_vault(tmp_path, 2).claim()

    monkeypatch.setattr(os, "fsync", overtaken)
    with pytest.raises(WriterFenced):
        old.write(10, 80, slots)
    assert names(old) == []


def test_a_step_is_not_overwritten_by_the_same_incarnation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = a_vault(tmp_path)
    before = contents(save(vault, 10))
    monkeypatch.setattr(Saving, "begin", lambda *_: pytest.fail("it was begun"))
    with pytest.raises(StepExists, match=r"step-10\.inc-1") as caught:
        save(vault, 10, epoch=9)
    assert "durable" in caught.value.hint
    assert contents(vault.root / "step-10.inc-1") == before
    assert names(vault) == ["step-10.inc-1"]


def test_a_newer_incarnation_writes_the_same_step_beside_and_is_preferred(tmp_path: Path) -> None:
    before = contents(save(a_vault(tmp_path, 1), 10))
    new = a_vault(tmp_path, 2)
    save(new, 10)
    found = new.newest().checkpoint
    assert found is not None
    assert found.manifest.head.incarnation == 2
    assert contents(new.root / "step-10.inc-1") == before


def test_an_incarnation_that_was_never_here_is_refused(tmp_path: Path) -> None:
    save(a_vault(tmp_path, 1), 10)
    save(a_vault(tmp_path, 5), 20)
    root = tmp_path / "vault"
    (root / "fence.json").unlink()
    found = a_vault(tmp_path, 1).newest()
    assert found.checkpoint is not None
    assert found.checkpoint.step == 10
    assert "never been here" in found.refused[0].reason
    with pytest.raises(WriterFenced):
        a_vault(tmp_path, 1).claim()


def test_another_jobs_folder_is_refused(tmp_path: Path) -> None:
    save(a_vault(tmp_path), 10)
    other = Vault(tmp_path / "vault", "other", 9)
    assert other.newest().checkpoint is None
    assert any("team/train" in refused.reason for refused in other.newest().refused)
    with pytest.raises(VaultError, match="belong to the job"):
        other.claim()


def test_a_fence_that_cannot_be_read_is_rebuilt(tmp_path: Path) -> None:
    save(a_vault(tmp_path, 4), 10)
    fence = tmp_path / "vault" / "fence.json"
    fence.write_bytes(fence.read_bytes().replace(b"4", b"5"))
    found = a_vault(tmp_path, 4).newest()
    assert found.checkpoint is not None
    assert [refused.name for refused in found.refused] == ["fence.json"]
    with pytest.raises(WriterFenced):
        a_vault(tmp_path, 3).claim()
    a_vault(tmp_path, 4).claim()
    assert a_vault(tmp_path, 4).newest().refused == ()


def test_a_lock_that_is_never_given_back_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = a_vault(tmp_path)
    vault.claim()
    monkeypatch.setattr(fence, "PATIENCE_SECONDS", 0.02)
    with (vault.root / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(VaultError, match="lock") as caught:
            vault.claim()
    assert caught.value.hint
    vault.claim()


@pytest.mark.parametrize("call", ["claim", "newest", "retain", "write"])
def test_what_the_system_refuses_is_an_error_of_ours(tmp_path: Path, call: str) -> None:
    (tmp_path / "vault").write_text("a file in place of the folder")
    vault = a_vault(tmp_path)
    calls: dict[str, Callable[[], object]] = {
        "claim": vault.claim,
        "newest": vault.newest,
        "retain": lambda: vault.retain(0.0),
        "write": lambda: save(vault, 10),
    }
    with pytest.raises(CheckpointError):
        calls[call]()
    with pytest.raises(VaultError, match="cannot be used"):
        Vault(tmp_path / "vault" / "below", JOB, 1).claim()


# --------------------------------------------------------------------------- what is not written


def test_a_torn_slot_is_not_written(tmp_path: Path) -> None:
    vault = a_vault(tmp_path)
    slot = write_slot(tmp_path / "slot", a_stamp(), half(0), sealed=False)
    with pytest.raises(SlotTorn):
        vault.write(10, 80, [slot])
    assert names(vault) == []


def test_a_slot_that_is_being_written_is_not_waited_for(tmp_path: Path) -> None:
    slot = write_slot(tmp_path / "slot", a_stamp(), half(0))
    writer = SlotWriter(slot)
    assert writer.begin()
    with pytest.raises(SlotBusy):
        a_vault(tmp_path).write(10, 80, [slot])
    writer.release()
    writer.close()


def test_slots_are_held_while_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = write_slots(tmp_path / "slots")
    writers = [SlotWriter(path) for path in slots]
    fsync = os.fsync
    taken: list[bool] = []

    def tried(file: int) -> None:
        taken.extend(writer.begin() for writer in writers)
        fsync(file)

    monkeypatch.setattr(os, "fsync", tried)
    a_vault(tmp_path).write(10, 80, slots)
    assert not any(taken)
    assert all(writer.begin() for writer in writers)
    for writer in writers:
        writer.close()


@pytest.mark.parametrize(
    ("step", "stamps"),
    [
        (11, [a_stamp(10, 0), a_stamp(10, 1)]),
        (10, [a_stamp(10, 0), a_stamp(11, 1)]),
        (10, [a_stamp(10, 0, epoch=1), a_stamp(10, 1, epoch=2)]),
        (10, [a_stamp(10, 0, incarnation=2), a_stamp(10, 1, incarnation=2)]),
        (10, []),
    ],
    ids=["another step", "two steps", "two epochs", "a newer incarnation", "none"],
)
def test_slots_that_do_not_belong_together_are_not_written(
    tmp_path: Path, step: int, stamps: Sequence[object]
) -> None:
    slots = [
        write_slot(tmp_path / f"slot-{at}", stamp, half(at))  # type: ignore[arg-type]
        for at, stamp in enumerate(stamps)
    ]
    vault = a_vault(tmp_path)
    with pytest.raises(NotWritten) as caught:
        vault.write(step, 80, slots)
    assert caught.value.hint
    assert names(vault) == []


def test_half_of_the_workers_make_no_checkpoint(tmp_path: Path) -> None:
    vault = a_vault(tmp_path)
    with pytest.raises(NotWritten, match="do not make up"):
        vault.write(10, 80, write_slots(tmp_path / "slots")[:1])
    assert names(vault) == []


def test_what_would_be_refused_is_not_written(tmp_path: Path) -> None:
    vault = a_vault(tmp_path)
    with pytest.raises(NotWritten, match="would not be read again"):
        vault.write(10, 80, write_slots(tmp_path / "slots"), run=Run(torch="\x1b[31m"))
    assert names(vault) == []


def test_an_older_incarnations_slots_may_be_saved_by_the_next(tmp_path: Path) -> None:
    slots = write_slots(tmp_path / "slots", incarnation=1)
    path = a_vault(tmp_path, 2).write(10, 80, slots)
    assert path is not None
    assert path.name == "step-10.inc-2"


@pytest.mark.parametrize("call", range(6))
def test_a_full_disk_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    vault = a_vault(tmp_path)
    save(vault, 5)
    slots = write_slots(tmp_path / "slots", 10)
    write, calls = beneath.write_from, iter(range(100))

    def full(file: int, view: memoryview | bytes, at: int) -> None:
        if next(calls) == call:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(file, view, at)

    monkeypatch.setattr(beneath, "write_from", full)
    with pytest.raises(NotWritten, match="No space left") as caught:
        vault.write(10, 80, slots)
    assert "full" in caught.value.hint
    assert names(vault) == ["step-5.inc-1"]
    monkeypatch.undo()
    assert vault.write(10, 80, slots) is not None


def test_two_writers_of_one_step_do_not_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = a_vault(tmp_path)
    slots = write_slots(tmp_path / "slots")
    fsync, seen = os.fsync, []

    def second(file: int) -> None:
        fsync(file)
        if "shard-0" in os.readlink(f"/proc/self/fd/{file}"):
            with pytest.raises(NotWritten, match="by another"):
                a_vault(tmp_path).write(10, 80, slots)
            assert a_vault(tmp_path).retain(0.0) == ()
            seen.append(True)

    monkeypatch.setattr(os, "fsync", second)
    assert vault.write(10, 80, slots) is not None
    assert seen


# -------------------------------------------------------------------------------- several agents


def test_the_last_of_several_agents_completes_the_set(tmp_path: Path) -> None:
    slots = write_slots(tmp_path / "slots")
    one, other = a_vault(tmp_path), a_vault(tmp_path)
    assert one.write(10, 80, slots[:1], run=RUN, first=0, shards=2) is None
    assert one.newest().checkpoint is None
    assert one.retain(0.0) == ()
    path = other.write(10, 80, slots[1:], run=RUN, first=1, shards=2)
    assert path is not None
    assert other.newest().checkpoint is not None
    assert sorted(contents(path)) == ["manifest.json", "shard-0-of-2.bin", "shard-1-of-2.bin"]
    alone = a_vault(tmp_path / "alone")
    (tmp_path / "alone").mkdir()
    same = alone.write(10, 80, slots, run=RUN)
    assert same is not None
    assert contents(same) == contents(path)


def test_shards_of_two_epochs_never_mix(tmp_path: Path) -> None:
    early = write_slots(tmp_path / "early", epoch=1)
    late = write_slots(tmp_path / "late", epoch=2)
    vault = a_vault(tmp_path)
    assert vault.write(10, 80, early[:1], run=RUN, first=0, shards=2) is None
    assert vault.write(10, 80, late[1:], run=RUN, first=1, shards=2) is None
    assert vault.write(10, 80, late[:1], run=RUN, first=0, shards=2) is not None


def test_a_torn_entry_counts_as_none(tmp_path: Path) -> None:
    slots = write_slots(tmp_path / "slots")
    vault = a_vault(tmp_path)
    vault.write(10, 80, slots[:1], run=RUN, first=0, shards=2)
    entry = vault.root / "step-10.tmp-1" / "entry-0-of-2.json"
    entry.write_bytes(entry.read_bytes()[:-9])
    assert vault.write(10, 80, slots[1:], run=RUN, first=1, shards=2) is None
    assert vault.write(10, 80, slots[:1], run=RUN, first=0, shards=2) is not None


def test_a_part_that_nobody_completes_is_let_go(tmp_path: Path) -> None:
    slots = write_slots(tmp_path / "slots")
    vault = a_vault(tmp_path)
    vault.write(10, 80, slots[:1], run=RUN, first=0, shards=2)
    now = (vault.root / "step-10.tmp-1").stat().st_mtime
    assert vault.retain(now + 60) == ()
    assert vault.retain(now + 2 * HOUR_SECONDS) == ("step-10.tmp-1",)
    vault.write(10, 80, slots[:1], run=RUN, first=0, shards=2)
    save(vault, 11)
    assert vault.retain(now) == ("step-10.tmp-1",)
    vault.write(12, 96, write_slots(tmp_path / "slots", 12)[:1], run=RUN, first=0, shards=2)
    assert a_vault(tmp_path, 2).retain(now) == ("step-12.tmp-1",)
    assert names(vault) == ["step-11.inc-1"]


# ------------------------------------------------------------------------------------- retention


def test_the_last_three_and_one_of_each_hour_stay() -> None:
    written = {Folder(step, 1): step * 600.0 for step in range(1, 20)}
    stay = sorted(folder.step for folder in kept(written))
    assert stay == [5, 11, 17, 18, 19]


def test_retaining_deletes_the_others_and_all_rubbish(tmp_path: Path) -> None:
    for step in range(1, 9):
        save(a_vault(tmp_path, seconds=step * 1000.0), step)
    root = tmp_path / "vault"
    (root / "step-3.old-1").mkdir()
    (root / "step-3.old-1" / "shard-0-of-1.bin").write_bytes(b"x")
    (root / "step-9.tmp-1").mkdir()
    (root / "notes.txt").write_text("not ours")
    vault = a_vault(tmp_path)
    gone = vault.retain(9000.0)
    assert sorted(gone) == [
        "step-1.inc-1",
        "step-2.inc-1",
        "step-3.old-1",
        "step-4.inc-1",
        "step-5.inc-1",
        "step-9.tmp-1",
    ]
    assert names(vault) == [f"step-{step}.inc-1" for step in (3, 6, 7, 8)]
    assert (root / "notes.txt").exists()
    assert vault.retain(9000.0) == ()


def test_damaged_ones_do_not_push_out_sound_ones(tmp_path: Path) -> None:
    vault = a_vault(tmp_path)
    for step in range(1, 6):
        save(vault, step)
    for step, file in ((4, "shard-0-of-2.bin"), (5, "manifest.json")):
        path = vault.root / f"step-{step}.inc-1" / file
        path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))
    found = vault.newest()
    assert found.checkpoint is not None
    assert found.checkpoint.step == 3
    assert vault.retain(0.0) == ()
    save(vault, 6)
    assert vault.retain(0.0) == ("step-1.inc-1",)
    save(vault, 7)
    save(vault, 8)
    assert sorted(vault.retain(0.0)) == [f"step-{step}.inc-1" for step in (2, 3, 4, 5)]


def test_what_is_half_deleted_is_no_damaged_checkpoint(tmp_path: Path) -> None:
    vault = a_vault(tmp_path)
    save(vault, 10)
    path = save(vault, 20)
    path.rename(vault.root / Folder(20, 1, Kind.GOING).name)
    found = vault.newest()
    assert found.checkpoint is not None
    assert (found.checkpoint.step, found.refused) == (10, ())


def test_death_while_deleting_leaves_no_damaged_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = a_vault(tmp_path)
    for step in range(1, 6):
        save(vault, step)
    with monkeypatch.context() as dying:
        dying.setattr(Folder, "remove", lambda *_: None)
        vault.retain(0.0)
    assert names(vault) == [
        "step-1.old-1",
        "step-2.old-1",
        *(f"step-{step}.inc-1" for step in (3, 4, 5)),
    ]
    assert vault.newest().refused == ()
    assert vault.retain(0.0) == ("step-2.old-1", "step-1.old-1")


def test_links_are_deleted_and_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("dear")
    vault = a_vault(tmp_path)
    for step in range(2, 5):
        save(vault, step)
    (vault.root / "step-1.inc-1").symlink_to(precious)
    (vault.root / "step-9.tmp-1").mkdir()
    (vault.root / "step-9.tmp-1" / "inner").symlink_to(precious)
    vault.retain(0.0)
    assert names(vault) == [f"step-{step}.inc-1" for step in (2, 3, 4)]
    assert (precious / "data").read_text() == "dear"


def test_a_held_slot_can_be_read_after_its_trainer_died(tmp_path: Path) -> None:
    slots = write_slots(tmp_path / "slots")
    with Slot(slots[0]) as slot:
        os.unlink(slots[0])
        assert slot.sealed.stamp.step == 10
