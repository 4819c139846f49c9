"""A snapshot that lies on several seats: written by all of them at once, or not at all."""

import logging
import os
import threading
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.agent.checkpoint.vaults import JOB, RUN, a_vault, contents, write_slots
from tests.waiting import HANG_SECONDS
from weft.agent.checkpoint.errors import NotWritten
from weft.agent.checkpoint.seat_writers import (
    HERE,
    Held,
    SeatWriter,
    Snapshot,
    Writers,
    sweep,
    written,
)
from weft.agent.checkpoint.writer import CheckpointWriter
from weft.agent.messages import Envelope, Keep, Kept, Saved, decode, encode

STEP, CURSOR = 10, 80


class Seats:
    """Followers in threads: what each is ordered, it does, unless it is dumb."""

    def __init__(self, folder: Path, *dumb: int, limit_seconds: float = HANG_SECONDS) -> None:
        self.folder, self.dumb = folder, dumb
        self.ordered: list[int] = []
        self.writers = Writers(a_vault(folder), self._order, limit_seconds)
        self._followers = {seat: self._follower(seat) for seat in (1, 2)}

    def _follower(self, seat: int) -> SeatWriter:
        return SeatWriter(
            a_vault(self.folder), self.folder, lambda kept: self.writers.told(seat, kept)
        )

    def _order(self, seat: int, keep: Keep) -> None:
        self.ordered.append(seat)
        envelope = decode(encode(Envelope(JOB, 1, 1, keep)), strict=True)
        assert isinstance(envelope.message, Keep)
        if seat not in self.dumb:
            self._followers[seat].order(envelope.message)


def snapshot(folder: Path, *seats: int) -> Snapshot:
    slots = write_slots(folder / "slots")
    parts = {part: [Held(seat, slots[part])] for part, seat in enumerate(seats)}
    return Snapshot(STEP, CURSOR, parts)


@pytest.mark.parametrize("where", [(HERE, 1), (1, HERE), (1, 2), (1, 1)])
def test_parts_of_any_seats_become_one_checkpoint(tmp_path: Path, where: tuple[int, int]) -> None:
    seats = Seats(tmp_path)
    path = seats.writers.write(snapshot(tmp_path, *where), RUN, ())
    (tmp_path / "alone").mkdir()
    same = a_vault(tmp_path / "alone").write(STEP, CURSOR, write_slots(tmp_path / "slots"), run=RUN)
    assert same is not None
    assert contents(path) == contents(same)
    found = a_vault(tmp_path).newest()
    assert found.checkpoint is not None
    assert found.checkpoint.path == path
    assert seats.writers.write(snapshot(tmp_path, *where), RUN, ()) == path, "it is there already"


def test_a_seat_that_is_lost_leaves_no_checkpoint_and_is_named(tmp_path: Path) -> None:
    seats = Seats(tmp_path, 1)
    lost = threading.Timer(0.1, lambda: seats.writers.lost(1))
    lost.start()
    with pytest.raises(NotWritten, match=r"1 of 2 parts of step 10 are missing \(seat 1: it is lo"):
        seats.writers.write(snapshot(tmp_path, HERE, 1), RUN, ())
    assert a_vault(tmp_path).newest().checkpoint is None


def test_a_seat_that_does_not_write_in_time_counts_as_lost(tmp_path: Path) -> None:
    seats = Seats(tmp_path, 2, limit_seconds=0.2)
    with pytest.raises(NotWritten, match="seat 2: not written in 0 s"):
        seats.writers.write(snapshot(tmp_path, HERE, 2), RUN, ())


@pytest.mark.parametrize("begun", [True, False])
def test_a_head_that_leads_no_more_waits_for_nobody(tmp_path: Path, begun: bool) -> None:
    seats = Seats(tmp_path, 1, 2)
    held = snapshot(tmp_path, HERE, 1)
    held.parts[1].append(Held(2, held.parts[1][0].path))
    when = threading.Timer(0.1 if begun else 0.0, seats.writers.give_up, ["another seat leads"])
    when.start()
    if not begun:
        when.join()
    with pytest.raises(NotWritten, match="another seat leads"):
        seats.writers.write(held, RUN, ())
    assert len(seats.ordered) <= 1, "no other seat is asked either"


def test_a_part_with_a_copy_elsewhere_is_taken_from_there(tmp_path: Path) -> None:
    seats = Seats(tmp_path, 1, limit_seconds=0.2)
    held = snapshot(tmp_path, HERE, 1)
    held.parts[1].append(Held(2, held.parts[1][0].path))
    path = seats.writers.write(held, RUN, ())
    assert seats.ordered == [1, 2]
    assert len(list(path.glob("shard-*"))) == 2


def test_what_an_older_attempt_has_left_is_not_in_the_checkpoint(tmp_path: Path) -> None:
    """Of three writers one was lost; two have begun that step again."""
    slots = write_slots(tmp_path / "slots")
    run = asdict(RUN)
    written(a_vault(tmp_path), Keep(STEP, CURSOR, {"0": str(slots[0])}, 3, run, False, ()))
    path = Seats(tmp_path).writers.write(snapshot(tmp_path, HERE, 1), RUN, ())
    assert sorted(contents(path)) == ["manifest.json", "shard-0-of-2.bin", "shard-1-of-2.bin"]


def test_a_follower_answers_every_order_and_names_what_it_could_not_do(tmp_path: Path) -> None:
    told: list[Kept] = []
    heard = threading.Event()

    def tell(kept: Kept) -> None:
        told.append(kept)
        heard.set()

    follower = SeatWriter(a_vault(tmp_path), tmp_path, tell)
    follower.order(Keep(STEP, CURSOR, {"0": str(tmp_path / "nowhere")}, 2, {}, False, ()))
    assert heard.wait(HANG_SECONDS)
    assert told[0].step == STEP
    assert "nowhere" in told[0].why


def test_of_workers_that_have_ended_what_is_older_is_swept(tmp_path: Path) -> None:
    for age, name in enumerate(["worker-7.1", "worker-1.0", "worker-5.0", "worker-5.1"]):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1000 + age, 1000 + age))
    keep = Keep(STEP, CURSOR, {"0": str(tmp_path / "worker-5.0")}, 2, {}, False, running=(1,))
    sweep(tmp_path, keep)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "worker-1.0",
        "worker-5.0",
        "worker-5.1",
    ]


# ---------------------------------------------------------------------------------- the writer


def saved(path: Path, part: int, *, step: int = STEP) -> Saved:
    return Saved(1, step, step * 8, part, 2, str(path), 0.0)


def test_a_snapshot_that_is_lost_is_told_and_asked_for_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seats = Seats(tmp_path, 1, limit_seconds=0.2)
    checkpoint_writer = CheckpointWriter(a_vault(tmp_path), lambda: RUN)
    checkpoint_writer.writers = seats.writers
    checkpoint_writer.resume()
    slots = write_slots(tmp_path / "slots")
    with caplog.at_level(logging.ERROR):
        checkpoint_writer.saved(saved(slots[0], 0))
        checkpoint_writer.saved(saved(slots[1], 1), seat=1)
        assert checkpoint_writer.needs(1)
        checkpoint_writer.close()
    assert "step 10 is not durable: 1 of 2 parts" in caplog.text
    assert (checkpoint_writer.take_missed(), checkpoint_writer.take_missed()) == (True, False)
    assert not checkpoint_writer.needs(1)
    assert checkpoint_writer.newest() == ("", -1), (
        "a part of it was never in the memory of this machine"
    )


def test_a_snapshot_whose_part_never_came_is_told_with_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint_writer = CheckpointWriter(None)
    slots = write_slots(tmp_path / "slots")
    checkpoint_writer.saved(saved(slots[0], 0))
    for step in (20, 30):
        checkpoint_writer.saved(saved(slots[0], 0, step=step))
        checkpoint_writer.saved(saved(slots[1], 1, step=step))
    assert caplog.text.count("no checkpoint of step") == 1
    assert "no checkpoint of step 10: only 1 parts came" in caplog.text
