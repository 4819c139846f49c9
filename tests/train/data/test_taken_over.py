"""A DataLoader of the script's own is taken over as it is, or refused."""

import itertools
import os
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import weft
from weft.model.errors import SpecError
from weft.train.data.taken_over import taken_over

TABLE = TensorDataset(torch.arange(24.0).reshape(12, 2))


class Where(Dataset[Tensor]):
    """Tells the process that has read a sample, and its index."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Tensor:
        return torch.tensor([os.getpid(), index])


class Counting(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        return (torch.full((2,), float(number)) for number in itertools.count())


def trained(loader: DataLoader[object], total: int | None = None) -> list[tuple[int, ...]]:
    """The samples of each step."""
    model, opt = weft.prepare(nn.Linear(2, 1), lambda p: torch.optim.SGD(p, 0.1))
    found = []
    for mb in weft.steps(loader, total=total):
        weft.backward(model(mb.x.float()).mean())
        opt.step()
        found.append(mb.ids)
    return found


def test_its_batch_is_the_global_batch_and_a_pass_is_a_pass() -> None:
    assert trained(DataLoader(TABLE, 4)) == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)]
    shuffled = trained(DataLoader(TABLE, 4, shuffle=True))
    assert sorted(itertools.chain(*shuffled)) == list(range(12))
    assert shuffled != trained(DataLoader(TABLE, 4))


def test_its_seed_draws_the_order() -> None:
    seeded = [
        DataLoader(TABLE, 4, shuffle=True, generator=torch.Generator().manual_seed(seed))
        for seed in (5, 5, 6)
    ]
    one, again, other = map(trained, seeded)
    assert one == again != other


def test_its_processes_read() -> None:
    loader = DataLoader(Where(), 4, num_workers=1, prefetch_factor=3)
    mine = taken_over(loader)
    assert mine.reach == 4
    assert trained(loader) == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)]
    assert taken_over(loader) is mine, "a second loop goes on where the first has stopped"


def test_a_stream_is_taken_over_as_a_stream() -> None:
    assert trained(DataLoader(Counting(), 3), total=2) == [(0, 1, 2), (3, 4, 5)]


@pytest.mark.parametrize(
    ("loader", "why"),
    [
        (DataLoader(TABLE, 4, sampler=WeightedRandomSampler([1.0] * 12, 12)), "WeightedRandom"),
        (DataLoader(TABLE, 4, sampler=DistributedSampler(TABLE, 2, 0)), "DistributedSampler"),
        (DataLoader(TABLE, 4, sampler=RandomSampler(TABLE, replacement=True)), "RandomSampler"),
        (DataLoader(TABLE, 4, sampler=RandomSampler(TABLE, num_samples=5)), "RandomSampler"),
        (DataLoader(TABLE, batch_sampler=[[0, 1], [2, 3]]), "batch sampler of its own"),
        (DataLoader(TABLE, batch_size=None), "batch sampler of its own"),
    ],
)
def test_an_order_that_cannot_be_shared_out_is_refused(
    loader: DataLoader[object], why: str
) -> None:
    with pytest.raises(SpecError, match=why):
        trained(loader)
