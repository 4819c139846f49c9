"""Checkpoints in a real S3 server: whole or not at all, and the newer incarnation wins."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.checkpoint.stores import BUCKET, a_store
from tests.agent.checkpoint.vaults import JOB, RUN, a_stamp, half, write_slot, write_slots
from weft.agent.checkpoint.catalogue import listed
from weft.agent.checkpoint.errors import Damaged, StepExists, VaultError, WriterFenced
from weft.agent.checkpoint.home import home_of, place_of
from weft.agent.checkpoint.layout import whole
from weft.agent.checkpoint.objects.claims import Claims
from weft.agent.checkpoint.objects.vault import POINTS, ObjectVault
from weft.agent.checkpoint.slot import slot_path
from weft.agent.checkpoint.source import open_source
from weft.agent.checkpoint.vault import Vault
from weft.model.errors import SpecError

pytestmark = [pytest.mark.enable_socket, pytest.mark.slow]
VISIBLE = {"put-manifest", "put-durable"}
SAVE = """
import sys
from pathlib import Path
from weft.agent.checkpoint.objects.vault import ObjectVault
url, job, fetched, *slots = sys.argv[1:]
vault = ObjectVault(url, job, 1, Path(fetched))
vault.claim()
vault.write(20, 160, [Path(slot) for slot in slots])
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One for all tests of this file; gives the folder that it serves."""
    folder = tmp_path_factory.mktemp("s3")
    before = dict(os.environ)
    with a_store(folder) as variables:
        os.environ.update(variables)
        yield folder / BUCKET
    os.environ.clear()
    os.environ.update(before)


class Place:
    """A prefix of its own for a test."""

    def __init__(self, served: Path, folder: Path) -> None:
        self.folder = folder
        self.url = f"s3://{BUCKET}/{folder.name}/deep"
        self.files = served / folder.name / "deep"

    def vault(self, incarnation: int = 1, *, seconds: float = 1000.0) -> ObjectVault:
        fetched = self.folder / f"fetched-{incarnation}"
        return ObjectVault(self.url, JOB, incarnation, fetched, clock=lambda: seconds)

    def slots(self, step: int, incarnation: int = 1) -> list[Path]:
        return write_slots(self.folder / "slots", step, incarnation=incarnation)

    def save(self, vault: ObjectVault, step: int) -> None:
        slots = self.slots(step, vault.incarnation)
        assert vault.write(step, step * 8, slots, run=RUN) is None

    def names(self) -> set[str]:
        return {path.name for path in self.files.iterdir() if path.name.startswith("step-")}


@pytest.fixture
def place(server: Path, tmp_path: Path) -> Place:
    return Place(server, tmp_path)


def newest_step(vault: ObjectVault) -> int | None:
    found = vault.newest()
    assert not found.refused
    return None if found.checkpoint is None else found.checkpoint.step


def test_what_was_written_is_found_by_the_next_start(place: Place) -> None:
    first = place.vault()
    first.claim()
    assert newest_step(first) is None
    place.save(first, 10)
    second = place.vault(2)
    second.claim()
    found = second.newest().checkpoint
    assert found is not None
    assert (found.step, found.cursor, found.manifest.head.world) == (10, 80, 2)
    with open_source(found.path) as source:
        bias = source.shards[0].pieces[0]
        data = bytes(memoryview(source.shards[0].memory)[bias.at : bias.end])
    assert data == half(0, seed=10)[0][1]


def test_a_prefix_that_was_copied_to_a_disk_is_a_vault(place: Place) -> None:
    vault = place.vault()
    vault.claim()
    place.save(vault, 10)
    assert [(one.step, one.soundness) for one in listed(place.files, verify=True)] == [
        (10, "verified")
    ]
    found = Vault(place.files, JOB, 2).newest().checkpoint
    assert found is not None
    assert found.step == 10


def test_a_shard_of_several_parts_and_chunks(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.agent.checkpoint.objects.bucket.PART_BYTES", 6 << 20)
    record = whole("model/large", "uint8", (15_000_001,))
    data = random.Random(0).randbytes(1000) * 15_001
    (place.folder / "slots").mkdir()
    slot = slot_path(place.folder / "slots", 0, 0)
    write_slot(slot, a_stamp(), [(record, data[: record.bytes])])
    vault = place.vault()
    vault.claim()
    vault.write(10, 80, [slot])
    found = vault.newest().checkpoint
    assert found is not None
    assert (found.path / "shard-0-of-1.bin").read_bytes()[: record.bytes] == data[: record.bytes]


def test_an_older_incarnation_may_not_write(place: Place) -> None:
    first, second = place.vault(), place.vault(2)
    first.claim()
    second.claim()
    with pytest.raises(WriterFenced, match="2 has been here"):
        place.save(first, 10)
    with pytest.raises(WriterFenced):
        first.claim()
    assert place.files.is_dir()
    assert place.names() == set()


def test_what_an_older_one_puts_after_the_claim_counts_for_nobody(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looked before the newer one came, and put its manifest after."""
    first, second = place.vault(), place.vault(2)
    first.claim()
    place.save(first, 10)
    put = ObjectVault._put_manifest

    def late(vault: ObjectVault, *given: object) -> None:
        second.claim()
        put(vault, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(ObjectVault, "_put_manifest", late)
    with pytest.raises(WriterFenced):
        place.save(first, 20)
    assert "step-20.inc-1" in place.names()
    assert newest_step(second) == 10
    third = place.vault(3)
    third.claim()
    assert newest_step(third) == 10
    third.retain(0.0)
    assert place.names() == {"step-10.inc-1"}


def test_what_was_put_before_the_list_is_found(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the mark of the newer one and its list: the writer is told that it is over."""
    first, second = place.vault(), place.vault(2)
    first.claim()
    make = Claims.counting
    done: list[bool] = []

    def slow(claims: Claims, *given: object) -> object:
        if claims._incarnation == 2 and not done:
            done.append(True)
            with pytest.raises(WriterFenced):
                place.save(first, 20)
        return make(claims, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Claims, "counting", slow)
    second.claim()
    assert done
    assert newest_step(second) is None


def test_an_agent_that_died_between_mark_and_fence_hinders_nobody_newer(place: Place) -> None:
    first = place.vault()
    first.claim()
    place.save(first, 10)
    second = place.vault(2)
    second._bucket.create("claims/inc-2", b"")
    third = place.vault(3)
    third.claim()
    assert newest_step(third) == 10
    with pytest.raises(WriterFenced):
        second.claim()


def test_the_same_incarnation_may_begin_again_and_no_step_is_written_twice(place: Place) -> None:
    first, again = place.vault(), place.vault()
    first.claim()
    place.save(first, 10)
    again.claim()
    assert newest_step(again) == 10
    with pytest.raises(StepExists):
        place.save(again, 10)
    slots = place.slots(10)
    again.write(10, 80, slots, run=RUN, replace=True)
    assert newest_step(place.vault()) == 10


def test_a_newer_one_writes_the_same_step_beside_and_is_preferred(place: Place) -> None:
    first, second = place.vault(), place.vault(2)
    first.claim()
    place.save(first, 10)
    second.claim()
    place.save(second, 10)
    found = place.vault(3).newest().checkpoint
    assert found is not None
    assert found.manifest.head.incarnation == 2


def test_another_jobs_place_is_refused(place: Place) -> None:
    first = place.vault()
    first.claim()
    place.save(first, 10)
    place.vault(2).claim()
    other = ObjectVault(place.url, "other", 3, place.folder / "other")
    with pytest.raises(VaultError, match="belong to the job"):
        other.claim()


@pytest.mark.parametrize("damage", ["bit", "cut", "gone", "manifest"])
def test_damage_is_named_and_the_next_older_one_is_taken(place: Place, damage: str) -> None:
    vault = place.vault()
    vault.claim()
    for step in (10, 20):
        place.save(vault, step)
    shard = place.files / "step-20.inc-1" / "shard-1-of-2.bin"
    if damage == "manifest":
        shard = shard.with_name("manifest.json")
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    if damage == "gone":
        shard.unlink()
    else:
        with shard.open("r+b") as file:  # in place, so that the server's own notes on it stay
            file.write(data)
            file.truncate(len(data) - (damage == "cut"))
    found = place.vault(2).newest()
    assert found.checkpoint is not None
    assert found.checkpoint.step == 10
    assert [one.step for one in found.refused] == [20]


def test_retaining_keeps_the_last_three_and_removes_rubbish(place: Place) -> None:
    vault = place.vault()
    vault.claim()
    for step in (10, 20, 30, 40, 50):
        place.save(vault, step)
    vault._bucket.delete("step-20.inc-1/manifest.json")
    assert set(vault.retain(0.0)) == {"step-10.inc-1", "step-20.inc-1"}
    assert place.names() == {"step-30.inc-1", "step-40.inc-1", "step-50.inc-1"}
    assert newest_step(vault) == 50


@pytest.mark.parametrize("label", POINTS)
def test_death_at_any_point_leaves_the_old_one_or_the_new_one(place: Place, label: str) -> None:
    vault = place.vault()
    vault.claim()
    place.save(vault, 10)
    slots = place.slots(20)
    ended = subprocess.run(
        [sys.executable, "-c", SAVE, place.url, JOB, str(place.folder / "f"), *map(str, slots)],
        env={**os.environ, "WEFT_CRASH": label, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        timeout=60,
    )
    assert ended.returncode == -signal.SIGKILL
    after = place.vault(2)
    after.claim()
    assert newest_step(after) == (20 if label in VISIBLE else 10)
    after.retain(0.0)
    assert place.names() == {"step-10.inc-1", *(["step-20.inc-1"] * (label in VISIBLE))}


def test_what_the_store_refuses_is_an_error_of_ours(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises((VaultError, Damaged)) as refused:
        ObjectVault("s3://no-such-bucket/x", JOB, 1, place.folder).claim()
    assert "no-such-bucket" in str(refused.value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(VaultError, match="cannot be used"):
        place.vault().claim()


def test_a_place_is_a_folder_or_an_address(tmp_path: Path) -> None:
    assert place_of("/some/folder") == Path("/some/folder")
    assert place_of("s3://bucket/prefix/") == "s3://bucket/prefix"
    for text in ("gs://bucket/x", "s3://", "s3:///"):
        with pytest.raises(SpecError, match="no place for checkpoints"):
            place_of(text)
    assert isinstance(home_of(tmp_path, JOB, 1, tmp_path), Vault)
    assert isinstance(home_of("s3://bucket/x", JOB, 1, tmp_path), ObjectVault)
