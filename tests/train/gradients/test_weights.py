"""A mean over tokens is the mean over those of the whole batch, however it is cut."""

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.optim import SGD

from tests.train.alone import undisturbed
from tests.train.driving import driven
from tests.train.hall import Hall, Together
from tests.train.lines import finals
from weft.model.errors import SpecError
from weft.train import api
from weft.train.data.split import shares
from weft.train.gradients.level import Level, reduction_for
from weft.train.state.book import StateBook

BATCH, STEPS, LENGTH = 8, 4, 32


def samples() -> tuple[Tensor, Tensor, Tensor]:
    """Of unequal lengths, and some with none at all."""
    drawn = torch.Generator().manual_seed(1)
    x, y = (torch.randn(64, LENGTH, 4, generator=drawn) for _ in range(2))
    tokens = torch.tensor([(7 * i) % 29 if i % 8 else 0 for i in range(64)])
    return x, y, (torch.arange(LENGTH) < tokens[:, None]).float()


X, Y, MASK = samples()


def loss_of(model: nn.Module, part: slice) -> Tensor:
    """As people write it: no number where there is no token."""
    wrong: Tensor = (model(X[part]) - Y[part]).square().mean(-1)
    return (wrong * MASK[part]).sum() / MASK[part].sum()


def linear(dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4)).to(dtype)


def plain() -> list[Tensor]:
    model = linear()
    optimizer = SGD(model.parameters(), 0.3)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, slice(step * BATCH, (step + 1) * BATCH)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return [p.detach() for p in model.parameters()]


def trained(width: int, micro: int | None, level: Level) -> list[list[Tensor]]:
    models = [linear() for _ in range(width)]

    def member(group: Together) -> list[Tensor]:
        model = models[group.rank]
        optimizer = SGD(model.parameters(), 0.3)
        reduction = reduction_for(level, StateBook(model, optimizer), 4)
        logical = 4 if level is Level.BITWISE else None
        for step in range(STEPS):
            reduction.open(group, group)
            mine = shares(step, BATCH, width, group.rank, micro, logical)
            for share in mine:
                part = slice(share.start, share.stop)
                weight, share_weight = MASK[part].sum().item(), share.samples / BATCH
                factor = reduction.weighing.factor(share_weight, weight)
                reduction.before_backward(last=share.last, raised=frozenset())
                if factor:
                    (loss_of(model, part) * factor).backward()  # type: ignore[no-untyped-call]
                place = share.start % BATCH // share.samples
                reduction.after_backward(last=share.last, weight=share_weight, part=place)
            if not mine:
                assert reduction.weighing.factor(0.0, 5.0) == 0
                reduction.contribute_nothing(frozenset())
            assert reduction.failure is None, reduction.failure
            optimizer.step()
        return [p.detach() for p in model.parameters()]

    return Hall(width).run(member)


@settings(max_examples=12, deadline=None)
@given(st.sampled_from([1, 2, 3, 5, 9]), st.sampled_from([1, 2, 3, None]))
def test_at_any_width_and_micro_batch(width: int, micro: int | None) -> None:
    for found in trained(width, micro, Level.SAME_MATH):
        for one, expected in zip(found, plain(), strict=True):
            torch.testing.assert_close(one, expected, rtol=1e-5, atol=1e-6)


def test_bitwise_at_any_width() -> None:
    try:
        runs = [trained(width, None, Level.BITWISE) for width in (1, 2, 3, 4, 6)]
    finally:
        torch.use_deterministic_algorithms(False)
    for found in (found for run in runs for found in run):
        for one, expected, alone in zip(found, plain(), runs[0][0], strict=True):
            torch.testing.assert_close(one, expected, rtol=1e-5, atol=1e-6)
            assert torch.equal(one, alone)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.complex64])
def test_many_tokens_are_counted_whatever_the_parameters_are(dtype: torch.dtype) -> None:
    """The sum of weights is exact, and gradients of half precision do not overflow on the way."""
    tokens = [4097.0, 8191.0, 3.0]
    models = [nn.ParameterDict({"w": nn.Parameter(torch.ones(3, dtype=dtype))}) for _ in tokens]

    def member(group: Together) -> Tensor:
        w = models[group.rank]["w"]
        book = StateBook(models[group.rank], SGD([w], 0.1))
        reduction = reduction_for(Level.SAME_MATH, book, 1)
        reduction.open(group, group)
        factor = reduction.weighing.factor(1 / 3, tokens[group.rank])
        reduction.before_backward(last=True, raised=frozenset())
        ((w * (group.rank + 1)).sum().abs() * factor).backward()
        reduction.after_backward(last=True, weight=1 / 3, part=0)
        grad: Tensor = w.grad
        return grad

    mean = sum(n * (i + 1) for i, n in enumerate(tokens)) / sum(tokens)
    exact = 1e-6 if dtype is torch.complex64 else 1e-2
    for grad in Hall(3).run(member):
        torch.testing.assert_close(grad, torch.full_like(grad, mean), rtol=exact, atol=0.0)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("agent", [("-n", "3"), ("-n", "4", "--shard", "2")], ids=str)
def test_with_an_agent(tmp_path: Path, agent: tuple[str, ...]) -> None:
    """Also of workers that hold the model together, where one has no sample at times."""
    with driven(tmp_path, "tokens.py", agent=agent) as job:
        assert job.wait() == 0, job.logs()
    expected = undisturbed("tokens.py")["weights"]
    ends = finals(job.lines())
    assert len(ends) >= int(agent[1])
    for end in ends:
        assert end["weights"] == pytest.approx(expected, abs=1e-5)


# ---------------------------------------------------------------------------- through the loop


def through(weights: list[float | None], *, micro: int | None = None) -> None:
    model, opt = api.prepare(linear(), lambda p: SGD(p, 0.3))
    loader = api.loader(torch.randn(8, 4), 4, micro=micro)
    given = iter(weights)
    for mb in api.steps(loader, total=2):
        api.backward(model(mb.x).mean(), weight=next(given))
        opt.step()


def test_a_weight_in_some_micro_batches_only_is_refused() -> None:
    with pytest.raises(SpecError, match="with a weight and without one"):
        through([3.0, None], micro=2)


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf])
def test_what_is_no_weight_is_refused(weight: float) -> None:
    with pytest.raises(SpecError, match="cannot weigh"):
        through([weight])


def test_a_weight_on_some_workers_only_is_refused_by_all() -> None:
    models = [linear() for _ in range(2)]

    def member(group: Together) -> str:
        model = models[group.rank]
        reduction = reduction_for(Level.SAME_MATH, StateBook(model, SGD(model.parameters(), 1)), 1)
        reduction.open(group, group)
        reduction.weighing.factor(0.5, 3.0 if group.rank else None)
        reduction.before_backward(last=True, raised=frozenset())
        loss_of(model, slice(1, 2)).backward()  # type: ignore[no-untyped-call]
        with pytest.raises(SpecError) as told:
            reduction.after_backward(last=True, weight=0.5, part=0)
        return str(told.value)

    assert Hall(2).run(member) == ["1 of 2 workers called weft.backward with a weight"] * 2


def test_a_batch_without_any_weight_moves_nothing() -> None:
    model, opt = api.prepare(linear(), lambda p: SGD(p, 0.3))
    before = [p.detach().clone() for p in model.parameters()]
    for mb in api.steps(api.loader(torch.randn(8, 4), 4, micro=2), total=2):
        api.backward(model(mb.x).sum() / 0.0, weight=0)
        opt.step()
    for one, other in zip(model.parameters(), before, strict=True):
        assert torch.equal(one, other)
