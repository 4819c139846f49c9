"""Processes of torch's DataLoader read the same samples, whatever was hinted, lost or resized."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from tests.train.driving import driven
from tests.train.lines import check_each_once
from tests.waiting import until
from weft.model.errors import SpecError
from weft.train.data.loader import Loader
from weft.train.data.split import Share, shares

QUICK_SECONDS = 1.5  # in which torch looks whether a process has died; else it is five

Maker: TypeAlias = Callable[..., Loader]


class Squares(Dataset[tuple[int, int, int]]):
    """Sample i is (i, i², the process that has read it)."""

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self.bonus = 0

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[int, int, int]:
        return index, index * index + self.bonus, os.getpid()


def of_a_batch(step: int, width: int = 1, rank: int = 0, micro: int | None = None) -> list[Share]:
    return list(shares(step, 4, width, rank, micro))


@pytest.fixture
def a_loader() -> Iterator[Maker]:
    """Makes loaders of two processes, of which none is left at the end."""
    made: list[Loader] = []
    before = children()

    def make(*given: Any, **named: Any) -> Loader:
        made.append(Loader(*given, **{"num_workers": 2, "shuffle": False, **named}))
        return made[-1]

    yield make
    while made:
        made.pop().close()
    assert children() == before


def children(of: int | None = None) -> list[int]:
    of = of or os.getpid()
    text = Path(f"/proc/{of}/task/{of}/children").read_text()
    return [int(pid) for pid in text.split()]


def pids(loader: Loader) -> set[int]:
    """Of the processes that read four shares."""
    return {int(loader.fetch(*of_a_batch(step)).data[2][0]) for step in range(4)}


def test_processes_read_what_is_expected(a_loader: Maker) -> None:
    loader = a_loader(Squares(40), 4)
    for step in range(8):
        loader.expect([share for later in range(step, 8) for share in of_a_batch(later)])
        batch = loader.fetch(*of_a_batch(step))
        assert batch.ids == tuple(range(4 * step, 4 * step + 4))
        assert batch.y.tolist() == [index**2 for index in batch.ids]
        assert os.getpid() not in batch[2].tolist()
    assert loader.reach == 5, "two processes, two batches each, and the one that is asked for"


def test_what_was_read_ahead_for_another_width_is_read_again(a_loader: Maker) -> None:
    loader = a_loader(Squares(40), 4)
    used: list[int] = []
    for step, (width, rank) in enumerate([(1, 0), (1, 0), (2, 1), (2, 0), (3, 2), (1, 0), (1, 0)]):
        loader.expect([s for later in range(step, 9) for s in of_a_batch(later, width, rank)])
        for share in of_a_batch(step, width, rank):
            used += (batch := loader.fetch(share)).ids
            assert batch.x.tolist() == list(batch.ids) == list(range(share.start, share.stop))
    assert len(used) == len(set(used)) == 4 + 4 + 2 + 2 + 1 + 4 + 4


def test_a_share_that_nobody_expected_comes_at_once(a_loader: Maker) -> None:
    loader = a_loader(Squares(40), 4)
    loader.expect([share for step in range(4) for share in of_a_batch(step)])
    for step in (7, 0, 0, 3, 1):
        assert loader.fetch(*of_a_batch(step)).ids == tuple(range(4 * step, 4 * step + 4))


class Slow(Squares):
    """Its reading leaves a trace, and takes its time."""

    def __init__(self, samples: int, trace: Path) -> None:
        super().__init__(samples)
        self.trace = trace

    def __getitem__(self, index: int) -> tuple[int, int, int]:
        with self.trace.open("a") as trace:
            trace.write(f"{index}\n")
        time.sleep(0.05)
        return super().__getitem__(index)


def test_what_is_no_longer_wanted_is_not_read_to_its_end(a_loader: Maker, tmp_path: Path) -> None:
    loader = a_loader(Slow(400, tmp_path / "read"), 40)
    loader.expect([Share(start, start + 40, last=True) for start in range(0, 200, 40)])
    assert loader.fetch(Share(300, 302, last=True)).ids == (300, 301)
    read = [int(line) for line in (tmp_path / "read").read_text().split()]
    assert len([index for index in read if index < 200]) < 40, "a share was read to its end"


class Broken(Squares):
    def __getitem__(self, index: int) -> tuple[int, int, int]:
        if index == 2:
            raise KeyError("no file for sample 2")
        return super().__getitem__(index)


@pytest.mark.parametrize("hinted", [False, True])
def test_what_the_dataset_raises_comes_out_of_fetch(a_loader: Maker, hinted: bool) -> None:
    loader = a_loader(Broken(40), 4)
    for _ in range(2):
        if hinted:
            loader.expect([share for step in range(3) for share in of_a_batch(step)])
        with pytest.raises(KeyError, match="sample 2"):
            loader.fetch(*of_a_batch(0))
        assert loader.fetch(*of_a_batch(1)).ids == (4, 5, 6, 7), "the loader goes on"


def test_a_process_that_was_killed_is_replaced(a_loader: Maker) -> None:
    loader = a_loader(Squares(80), 4, timeout=QUICK_SECONDS)
    first = pids(loader)
    for pid in first:
        os.kill(pid, signal.SIGKILL)
    with pytest.warns(RuntimeWarning, match="is read again"):
        assert loader.fetch(*of_a_batch(5)).ids == (20, 21, 22, 23)
    assert not first & pids(loader)


class Deadly(Squares):
    def __getitem__(self, index: int) -> tuple[int, int, int]:
        os._exit(3)


def test_a_sample_that_kills_its_process_is_not_read_for_ever(a_loader: Maker) -> None:
    loader = a_loader(Deadly(8), 4, num_workers=1, timeout=QUICK_SECONDS)
    with (
        pytest.warns(RuntimeWarning, match="is read again"),
        pytest.raises(RuntimeError, match="exited unexpectedly"),
    ):
        loader.fetch(*of_a_batch(0))


def test_processes_stay_between_loops_if_they_are_to(a_loader: Maker) -> None:
    staying, going = a_loader(Squares(40), 4, persistent_workers=True), a_loader(Squares(40), 4)
    for loader, stays in ((staying, True), (going, False)):
        first = pids(loader)
        loader.expect([share for step in range(4) for share in of_a_batch(step)])
        loader.close()
        assert bool(first & set(children())) is stays
        assert bool(first & pids(loader)) is stays


def double(samples: list[Any]) -> Tensor:
    return torch.tensor([2 * sample[0] for sample in samples])


def mark(number: int) -> None:
    info = get_worker_info()
    assert info is not None
    info.dataset.bonus = 100 * (number + 1)  # type: ignore[attr-defined]


def test_collate_and_the_first_deed_of_a_process_are_the_users(a_loader: Maker) -> None:
    assert a_loader(Squares(8), 4, collate_fn=double).fetch(*of_a_batch(1)).x.tolist() == [
        8,
        10,
        12,
        14,
    ]
    marked = a_loader(Squares(8), 4, num_workers=1, worker_init_fn=mark)
    assert marked.fetch(*of_a_batch(0)).y.tolist() == [100, 101, 104, 109]


class Chance(Squares):
    """Draws from all generators that a dataset may draw from."""

    def __getitem__(self, index: int) -> float:  # type: ignore[override]
        return float(torch.rand(())) + np.random.rand() + random.random()  # noqa: NPY002


def test_chance_in_a_dataset_is_the_same_at_every_width(a_loader: Maker) -> None:
    drawn = []
    for width, processes, micro in ((1, 1, None), (1, 2, 1), (2, 1, None)):
        found: list[float] = []
        for rank in range(width):
            loader = a_loader(Chance(40), 4, seed=9, num_workers=processes, micro=micro)
            for share in of_a_batch(3, width, rank, micro):
                found += loader.fetch(share).data.tolist()
        drawn.append(found)
    assert drawn[0] == drawn[1] == drawn[2]
    assert len(set(drawn[0])) == 4


def test_the_training_process_draws_as_without_processes(a_loader: Maker) -> None:
    torch.manual_seed(4)
    expected = torch.rand(3).tolist()
    torch.manual_seed(4)
    a_loader(Squares(8), 4).fetch(*of_a_batch(0))
    assert torch.rand(3).tolist() == expected


def test_pinned_memory_without_an_accelerator_is_told_and_left_out() -> None:
    with pytest.warns(UserWarning, match="pin_memory is ignored: there is no accelerator"):
        loader = Loader(Squares(8), 4, pin_memory=True)
    assert loader.fetch(*of_a_batch(0)).ids is not None
    loader.close()


def test_memory_is_pinned_where_there_is_an_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that reads does it; with processes torch does."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor, *_: tensor + 1000)
    loader = Loader(Squares(8), 4, shuffle=False, pin_memory=True)
    assert loader.fetch(*of_a_batch(0)).x.tolist() == [1000, 1001, 1002, 1003]
    loader.close()


class Numbers(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(9))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"prefetch_factor": 2}, "prefetch_factor option could only be specified"),
        ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"num_workers": 2, "workers": 2}, "threads and num_workers are processes"),
        ({"collate": list, "collate_fn": list}, "the same"),
        ({"dataset": Numbers(), "num_workers": 2}, "cannot share a stream"),
    ],
)
def test_options_that_make_no_sense_are_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(SpecError, match=why):
        Loader(settings.pop("dataset", Squares(4)), 4, **settings)


def test_an_option_that_nobody_knows_is_refused() -> None:
    with pytest.raises(TypeError, match="no option sampler"):
        Loader(Squares(4), 4, sampler=range(4))  # type: ignore[call-arg]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_no_sample_is_lost_when_a_job_with_processes_grows_and_loses_a_worker(
    tmp_path: Path,
) -> None:
    options = ("--total", "120", "--pause", "0.1", "--processes", "2", "--micro", "4")
    with driven(tmp_path, "mlp.py", *options, agent=("-n", "1")) as job:
        job.reached(3)
        job.order("resize 3")
        grown = job.steady(3)
        job.reached(job.newest_step + 3)
        readers = children(job.pid(0))
        assert len(readers) == 2
        job.signal(signal.SIGKILL, worker=0)
        until(
            lambda: not any(Path(f"/proc/{pid}").exists() for pid in readers),
            "the processes of the killed worker to end",
        )
        epoch = job.steady(3, after=grown["epoch"])["epoch"]
        job.order("resize 2")
        job.steady(2, after=epoch)
        (tmp_path / "hurry").touch()
        assert job.wait() == 0, job.logs()
    check_each_once(job.lines(), total=120)
