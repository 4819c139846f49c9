"""Gradients come to the same at every width, in all the ways in which they come."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.optim import SGD, AdamW
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.checkpoint import checkpoint

from tests.train.hall import Hall, Together
from weft.model.errors import SpecError
from weft.train import api
from weft.train.data.split import shares
from weft.train.gradients.ddp import DdpReduction
from weft.train.gradients.level import Level, reduction_for
from weft.train.gradients.reducer import BucketReduction, Reduction
from weft.train.state.book import StateBook

BATCH, STEPS = 12, 6
ALL = slice(0, BATCH)
State = dict[str, Tensor]


class Odd(nn.Module):
    """A block that is used thrice, a layer that is frozen at times, one that few samples use."""

    def __init__(self, *, reentrant: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.early, self.block = nn.Linear(4, 4), nn.Linear(4, 4)
        self.seldom, self.never = nn.Linear(4, 4), nn.Linear(4, 4)
        self.reentrant = reentrant

    def forward(self, x: Tensor) -> Tensor:
        few = x[:, :1] > 1.5
        x = self.early(x).requires_grad_()
        for _ in range(3):
            again = checkpoint(self.block, x, use_reentrant=True) if self.reentrant else None
            x = (self.block(x) if again is None else again).tanh()
        return torch.where(few, self.seldom(x), x) if few.any() else x


class Program:
    """A model, a parameter of no model, and an optimizer that moves both."""

    def __init__(self, model: Odd, reduction: str = "") -> None:
        self.model = model
        self.temperature = nn.Parameter(torch.ones(()))
        self.optimizer = AdamW([*model.parameters(), self.temperature], 1e-2)
        self.book = StateBook(model, self.optimizer)
        self.reduction: Reduction | None = None
        if reduction == "buckets":
            self.reduction = BucketReduction(self.book.parameters, bucket_bytes=64)
        elif reduction == "ddp":
            self.reduction = DdpReduction(self.book.parameters)
        elif reduction:
            self.reduction = reduction_for(Level.BITWISE, self.book, 4)

    def step(self, number: int, parts: list[slice], group: Together | None = None) -> None:
        """One step; at times a layer takes no part."""
        if self.reduction is not None and group is not None:
            self.reduction.overlap = number > 0
            self.reduction.open(group, group)
        self.model.early.requires_grad_(number in (2, 3))
        for part in parts:
            self._one(rows_of(number)[part], part.start, last=part is parts[-1])
        if not parts and self.reduction is not None:
            self.reduction.contribute_nothing(frozenset())
        assert self.reduction is None or self.reduction.failure is None
        self.optimizer.step()
        if self.reduction is None:
            self.optimizer.zero_grad()

    def _one(self, rows: Tensor, start: int, *, last: bool) -> None:
        weight = len(rows) / BATCH
        if self.reduction is not None:
            self.reduction.before_backward(last=last, raised=frozenset())
        loss = (self.model(rows) * self.temperature).square().mean() * weight
        if self.reduction is None:
            loss.backward()
        else:
            self.reduction.backward(loss)
            self.reduction.after_backward(last=last, weight=weight, part=start // len(rows))

    def state(self) -> State:
        return {name: tensor.clone() for name, tensor in self.book.tensors().items()}


def rows_of(number: int) -> Tensor:
    return torch.randn(BATCH, 4, generator=torch.Generator().manual_seed(number))


def trained(width: int, micro: int | None, reduction: str, *, reentrant: bool) -> list[State]:
    models = [Odd(reentrant=reentrant) for _ in range(width)]
    logical = 4 if reduction == "tree" else None

    def member(group: Together) -> State:
        one = Program(models[group.rank], reduction)
        mine = [slice(s.start, s.stop) for s in shares(0, BATCH, width, group.rank, micro, logical)]
        for number in range(STEPS):
            one.step(number, mine, group)
        return one.state()

    return Hall(width).run(member)


def plain(*, reentrant: bool) -> State:
    one = Program(Odd(reentrant=reentrant))
    for number in range(STEPS):
        one.step(number, [ALL])
    return one.state()


def check_alike(found: list[State], expected: State) -> None:
    for state in found:
        assert state.keys() == expected.keys(), "state of who had no gradient, or none of who had"
        for name, tensor in expected.items():
            torch.testing.assert_close(state[name], tensor, rtol=1e-3, atol=1e-4, msg=name)
            assert torch.equal(state[name], found[0][name]), f"{name} differs between members"


@settings(max_examples=30, deadline=None)
@given(
    width=st.sampled_from([1, 2, 3, 5, 13]),
    micro=st.sampled_from([None, 1, 2, 5]),
    reentrant=st.booleans(),
    reduction=st.sampled_from(["buckets", "ddp"]),
)
def test_every_width_comes_to_what_plain_torch_comes_to(
    width: int, micro: int | None, reentrant: bool, reduction: str
) -> None:
    found = trained(width, micro, reduction, reentrant=reentrant)
    check_alike(found, plain(reentrant=reentrant))


@pytest.mark.parametrize("reentrant", [False, True])
def test_at_the_bitwise_level_every_width_comes_to_the_same_bits(reentrant: bool) -> None:
    try:
        found = [one for w in (1, 2, 3) for one in trained(w, None, "tree", reentrant=reentrant)]
        check_alike(found, plain(reentrant=reentrant))
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_gradient_that_comes_again_after_its_sum_was_begun_spoils_one_step() -> None:
    """Nothing has shown before that it would; the second attempt waits for the end."""
    blocks = [nn.Linear(4, 4) for _ in range(2)]

    def member(group: Together) -> list[str]:
        block, said = blocks[group.rank], []
        reduction = BucketReduction(lambda: list(block.named_parameters()), bucket_bytes=1)
        for _ in range(2):
            reduction.open(group, group)
            reduction.before_backward(last=True, raised=frozenset())
            x = rows_of(0).requires_grad_()
            for _ in range(2):
                x = checkpoint(block, x, use_reentrant=True)
            x.mean().backward()  # type: ignore[no-untyped-call]
            reduction.after_backward(last=True, weight=0.5, part=0)
            said.append(str(reduction.failure))
        return said

    for first, second in Hall(2).run(member):
        assert first == "the gradient of weight came twice: the step is made again"
        assert second == "None"


# ---------------------------------------------------------------------------- what is refused


def prepared() -> tuple[nn.Module, torch.optim.Optimizer]:
    return api.prepare(nn.Linear(2, 2), lambda p: SGD(p, 0.1))


def test_a_second_backward_is_refused_with_what_to_write() -> None:
    model, opt = prepared()
    with pytest.raises(SpecError, match="twice in one micro-batch") as told:
        for mb in api.steps(api.loader(torch.randn(8, 2), 4), total=2):
            api.backward(model(mb.x).mean())
            api.backward(model(mb.x).abs().mean())
            opt.step()
    assert "weft.backward(first + second)" in str(told.value.hint)


@pytest.mark.parametrize("before", [True, False])
def test_a_backward_of_torch_itself_is_refused(before: bool) -> None:
    model, opt = prepared()
    with pytest.raises(SpecError, match="a gradient of bias came by another way"):
        for mb in api.steps(api.loader(torch.randn(8, 2), 4), total=2):
            if before:
                model(mb.x).mean().backward()
            api.backward(model(mb.x).mean())
            if not before:
                model(mb.x).mean().backward()
            opt.step()


def test_what_is_not_applied_may_be_asked_for() -> None:
    """A penalty on gradients, and an evaluation between two loops."""
    model, opt = prepared()
    loader = api.loader(torch.randn(8, 2), 4)
    for total in (2, 4):
        for mb in api.steps(loader, total=total):
            loss = model(mb.x).square().mean()
            slopes = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
            api.backward(loss + sum(slope.square().sum() for slope in slopes))
            opt.step()
        model(torch.randn(2, 2)).mean().backward()


def test_what_an_optimizer_is_given_later_begins_each_step_without_a_gradient() -> None:
    model, opt = prepared()
    late = nn.Parameter(torch.ones(()))
    seen = []
    for mb in api.steps(api.loader(torch.ones(8, 2), 4, shuffle=False), total=4):
        if mb.step == 1:
            opt.add_param_group({"params": [late], "lr": 0.0})
        api.backward(late * 3 + model(mb.x).mean() * 0)
        seen.append(late.grad)
        opt.step()
    assert [None if grad is None else grad.item() for grad in seen[1:]] == [3.0, 3.0, 3.0]


def test_a_scheduler_beside_prepare_is_refused_unless_it_is_known() -> None:
    """It would begin anew on a worker that joins, and rates would drift apart."""
    model, opt = prepared()
    sched = LambdaLR(opt, lambda step: 0.5**step)
    with pytest.raises(SpecError, match="does not know the scheduler") as told:
        for mb in api.steps(api.loader(torch.randn(8, 2), 4), total=2):
            api.backward(model(mb.x).mean())
            opt.step()
    assert "weft.state(sched=sched)" in str(told.value.hint)

    model, opt = prepared()
    sched = LambdaLR(opt, lambda step: 0.5**step)
    api.state(sched=sched)
    for mb in api.steps(api.loader(torch.randn(8, 2), 4, micro=1), total=3):
        api.backward(model(mb.x).mean())
        opt.step()
        sched.step()
    assert opt.param_groups[0]["lr"] == pytest.approx(0.1 / 8), "once for each step"
