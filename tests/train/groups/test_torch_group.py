"""A script that looks for torch's default group is refused or told, and never left in the dark."""

import warnings
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DistributedSampler, TensorDataset

import weft
from weft.model.errors import SpecError
from weft.train.groups.torch_group import QUESTIONS, answer_with_a_word

TABLE = TensorDataset(torch.zeros(8, 2))


def prepared() -> tuple[nn.Module, torch.optim.Optimizer]:
    return weft.prepare(nn.Linear(2, 1), lambda p: torch.optim.SGD(p, 0.1))


@pytest.fixture
def own_group() -> Iterator[None]:
    yield
    dist.destroy_process_group()


def make_group() -> None:
    store = dist.HashStore()  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)


@pytest.mark.enable_socket
def test_a_group_of_the_scripts_own_is_refused_by_prepare(own_group: None) -> None:
    make_group()
    with pytest.raises(SpecError, match="cannot be resized") as refused:
        prepared()
    assert "weft.gather" in str(refused.value.hint)


@pytest.mark.enable_socket
def test_one_that_is_made_later_is_refused_by_the_loop(own_group: None) -> None:
    prepared()
    make_group()
    with pytest.raises(SpecError, match="cannot be resized"):
        weft.steps(weft.loader(TABLE, 4), total=1)


@pytest.fixture
def elastic(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in QUESTIONS:
        monkeypatch.setattr(dist, name, getattr(dist, name))
    answer_with_a_word(1)
    answer_with_a_word(1)


def test_whoever_asks_for_the_group_is_told_once(elastic: None) -> None:
    with pytest.warns(UserWarning, match="knows of none in an elastic job") as told:
        assert not dist.is_initialized()
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not dist.is_initialized()


def test_a_metric_that_counts_its_own_samples_only_says_so(elastic: None) -> None:
    metrics = pytest.importorskip("torchmetrics")
    metric = metrics.MeanMetric()
    metric.update(1.0)
    with pytest.warns(UserWarning, match="dist_sync_fn=weft.gather"):
        metric.compute()


def test_torch_itself_is_told_nothing(elastic: None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((RuntimeError, ValueError), match="process group"):
            DistributedSampler(TABLE)


def test_there_is_one_group_to_gather_from() -> None:
    prepared()
    with pytest.raises(SpecError, match="a part of the workers"):
        weft.gather(1.0, group="some")  # type: ignore[arg-type]
