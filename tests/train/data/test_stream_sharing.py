"""A stream is read by one worker for all, whoever comes, goes or is killed."""

import signal
import socket
import time
from collections import UserDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.utils.data import IterableDataset

import weft
from tests.train.alone import undisturbed
from tests.train.driving import driven
from tests.train.lines import check_each_once, finals
from tests.waiting import HANG_SECONDS
from weft.model.errors import SpecError
from weft.train.api import current
from weft.train.data.batch_code import packed, portable, unpacked
from weft.train.data.loader import Loader
from weft.train.data.loader_processes import Read
from weft.train.data.sample_post import NONCE_BYTES, Gone, ReaderFailed, SampleAsker, SampleGiver
from weft.train.data.split import Share, shares

pytestmark = pytest.mark.enable_socket

KEY = "the key of the job"
TOTAL, BATCH = 100, 16
STEPS = ("--total", str(TOTAL), "--pause", "0.1", "--stream")


def sent(data: object) -> Any:  # noqa: ANN401 - whatever was sent
    head, body = packed(portable(data), ids=[1])
    again, told = unpacked(head, bytearray(body))
    assert told == {"ids": [1]}
    return again


# --- batches as bytes ---------------------------------------------------------------------------


def test_a_batch_arrives_as_it_was_sent() -> None:
    tensors = [
        torch.arange(6).reshape(2, 3),
        torch.tensor(1.5),
        torch.zeros(0, 4, dtype=torch.bfloat16),
        torch.tensor([True, False]),
        torch.tensor([1 + 2j]),
        torch.arange(6.0).reshape(2, 3).t(),
        torch.tensor([1.0, float("nan"), float("inf")]),
    ]
    batch = {"x": tensors, 7: ("words", None, 1, 2.5, [True]), "deep": {"er": tensors[0]}}
    again = sent(batch)
    assert again[7] == batch[7]
    assert torch.equal(again["deep"]["er"], tensors[0])
    for one, other in zip(again["x"], tensors, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert torch.equal(
            one.nan_to_num() if one.is_floating_point() else one,
            other.nan_to_num() if other.is_floating_point() else other,
        )
    again["x"][0] += 1  # it can be written to


def test_mappings_are_dicts_at_every_width() -> None:
    assert type(portable(UserDict({"a": 1}))) is dict


class Pair(NamedTuple):
    left: int


@pytest.mark.parametrize("thing", [object(), Pair(1), {"a": {1, 2}}, [Path()]])
def test_what_only_the_script_knows_cannot_travel(thing: object) -> None:
    with pytest.raises(SpecError, match="cannot be sent to another worker"):
        portable(thing)


def test_it_is_refused_by_the_first_batch_and_not_by_the_first_resize() -> None:
    loader = Loader(iter_of(8), 4, collate=lambda samples: Pair(len(samples)))
    with pytest.raises(SpecError, match="Pair"):
        loader.fetch(*shares(0, 4, 1, 0))
    loader.close()


# --- asking and giving --------------------------------------------------------------------------


class Counted:
    """A stream of numbers that tells how it was read."""

    def __init__(self, samples: int) -> None:
        self.samples, self.opened, self.given = samples, 0, 0

    def __iter__(self) -> Iterator[int]:
        self.opened += 1
        for number in range(self.samples):
            self.given += 1
            yield number


def iter_of(samples: int) -> Counted:
    return Counted(samples)


@pytest.fixture
def reader() -> Iterator[tuple[Counted, Loader, SampleGiver]]:
    stream = Counted(1000)
    loader = Loader(stream, 6, micro=2)
    giver = SampleGiver("127.0.0.1", KEY, lambda _, share: loader.read_for_another(share))
    yield stream, loader, giver
    giver.close()
    loader.close()


def test_three_workers_read_a_stream_once(reader: tuple[Counted, Loader, SampleGiver]) -> None:
    """Also where one is a step ahead of the one that reads."""
    stream, loader, giver = reader
    askers = [SampleAsker(lambda: giver.address, KEY, 0) for _ in range(2)]
    others = [Loader(Counted(1000), 6, micro=2) for _ in askers]
    for other, asker in zip(others, askers, strict=True):
        other.follow(asker.read)
    seen: list[tuple[int, int]] = []
    loader.expect([*shares(0, 6, 3, 0), *shares(1, 6, 3, 0)])
    for step in range(9):
        for rank in (2, 1, 0):
            mine = [loader, *others][rank]
            mine.expect([*shares(step, 6, 3, rank), *shares(step + 1 + (rank > 0), 6, 3, rank)])
            for share in shares(step, 6, 3, rank):
                batch = mine.fetch(share)
                seen += zip(batch.ids, batch.data.tolist(), strict=True)
    assert sorted(seen) == [(position, position) for position in range(54)]
    assert stream.opened == 1
    assert stream.given <= 54 + 2 * 6
    assert [other.dataset.opened for other in others] == [0, 0]  # type: ignore[union-attr]
    for asker, other in zip(askers, others, strict=True):
        asker.close()
        other.close()


def test_what_the_stream_raises_is_told_to_whoever_asks() -> None:
    def read(loop: int, share: Share) -> Read:
        raise KeyError(f"sample {share.start} in loop {loop}")

    giver = SampleGiver("127.0.0.1", KEY, read)
    asker = SampleAsker(lambda: giver.address, KEY, 3)
    for _ in range(2):
        with pytest.raises(ReaderFailed, match="KeyError: 'sample 4 in loop 3'"):
            asker.read(Share(4, 5, last=True))
    giver.close()
    with pytest.raises(Gone):
        asker.read(Share(4, 5, last=True))
    asker.close()


def test_one_without_the_key_is_given_nothing(
    reader: tuple[Counted, Loader, SampleGiver],
) -> None:
    stream, _, giver = reader
    with pytest.raises(Gone, match="does not answer"):
        SampleAsker(lambda: giver.address, "another", 0).read(Share(0, 2, last=True))
    assert stream.given == 0


def test_whoever_waits_for_an_answer_is_freed_when_the_epoch_is_cut() -> None:
    """As when the machine of the reader has lost its power and resets nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor() as threads:
        asker = SampleAsker(lambda: f"127.0.0.1:{silent.getsockname()[1]}", KEY, 0)
        reading = threads.submit(asker.read, Share(0, 2, last=True))
        connection, _ = silent.accept()
        with connection:
            connection.sendall(bytes(NONCE_BYTES))
            assert connection.recv(1), "it has asked"
            asker.close()
            assert isinstance(reading.exception(HANG_SECONDS), Gone)


def test_a_stream_that_moves_is_alive_and_whoever_waits_for_it_too(
    reader: tuple[Counted, Loader, SampleGiver],
) -> None:
    _, loader, _ = reader
    began = time.monotonic()
    assert loader.moved_seconds() < began
    loader.fetch(*shares(100, 6, 3, 0))
    moved = loader.moved_seconds()
    assert began < moved < time.monotonic()
    loader.follow(lambda share: Read((), None, 0.0))
    assert loader.moved_seconds() > moved
    weft.prepare(nn.Linear(1, 1), lambda p: torch.optim.SGD(p, 0.1))
    session = current()
    session._section, session._section_since = "data_wait", began
    assert session._pulse().section_seconds > moved - began
    session._stream.streaming = loader
    before = time.monotonic()
    assert session._pulse().section_seconds <= time.monotonic() - before


def test_the_state_of_a_stream_is_not_the_scripts_to_save() -> None:
    class Numbers(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(range(8))

        def state_dict(self) -> dict[str, int]:
            return {}

        def load_state_dict(self, state: dict[str, int]) -> None: ...

    weft.prepare(nn.Linear(1, 1), lambda p: torch.optim.SGD(p, 0.1))
    with pytest.raises(SpecError, match="not where the training is"):
        weft.state(data=Numbers())


# --- real workers -------------------------------------------------------------------------------

slow = pytest.mark.slow


@slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["--stream", "--telling"])
def test_the_reader_is_killed_and_another_goes_on(tmp_path: Path, kind: str) -> None:
    """One that tells where it stands is not read again."""
    with driven(tmp_path, "mlp.py", *STEPS, kind, agent=("-n", "1")) as job:
        job.reached(3)
        job.order("resize 3")
        grown = job.steady(3)
        job.reached(job.newest_step + 3)
        job.signal(signal.SIGKILL, worker=0)
        epoch = job.steady(3, after=grown["epoch"])["epoch"]
        job.order("resize 2")
        job.steady(2, after=epoch)
        (tmp_path / "hurry").touch()
        assert job.wait() == 0, job.logs()
    check_each_once(job.lines(), total=TOTAL)
    ends = sorted(finals(job.lines()), key=lambda end: end["worker"])
    assert ends[0]["loss"] == pytest.approx(
        undisturbed("mlp.py", *STEPS[:2], "--stream")["loss"], abs=1e-3
    )
    mine = [line for line in job.lines() if line["worker"] == ends[0]["worker"]]
    began = min(line["step"] for line in mine if line.get("stepped"))
    behind = began if kind == "--telling" else 0
    assert ends[0]["given"] <= BATCH + (TOTAL - behind + 2) * BATCH, "once over what was left"
    assert ends[1]["given"] <= BATCH, "the other has only warmed up on it"


@slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["--stream", "--telling"])
def test_a_job_that_resumes_goes_on_in_the_stream_where_it_stopped(
    tmp_path: Path, kind: str
) -> None:
    kept = ("--checkpoints", str(tmp_path / "kept"))
    with driven(tmp_path / "one", "mlp.py", *STEPS, kind, agent=("-n", "2", *kept)) as job:
        job.reached(12)
        job.order("drain")
        assert job.wait() == 143, job.logs()
    first = job.lines()
    again = ("-n", "1", *kept, "--incarnation", "2")
    with driven(tmp_path / "two", "mlp.py", *STEPS, kind, agent=again) as job:
        (tmp_path / "two" / "hurry").touch()
        assert job.wait() == 0, job.logs()
    check_each_once([*first, *job.lines()], total=TOTAL)
    steps = sum(bool(line.get("stepped")) for line in job.lines())
    (end,) = finals(job.lines())
    assert end["given"] <= (BATCH + (steps + 1) * BATCH if kind == "--telling" else TOTAL * BATCH)
