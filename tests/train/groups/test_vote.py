"""A session votes only for gradients that were summed by a group that is still whole."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.optim import SGD

from weft.model.errors import WorldError
from weft.train import api
from weft.train.groups.group import Alone


class CutBeforeTheVote(Alone):
    """A group that was cut after its last sum was seen."""

    is_cut = True


class Votes(Alone):
    """A group of which every member votes for the step."""

    cast = 0

    def all_true(self, value: bool) -> bool:
        self.cast += 1
        return value


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_step_on_a_group_that_was_cut_is_neither_voted_for_nor_applied(is_cut: bool) -> None:
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    _, opt = api.prepare(model, lambda p: SGD(p, 0.1))
    before, votes = model.weight.detach().clone(), Votes()
    micro_batches = api.steps(api.loader(torch.ones(4, 2), 2), total=1)
    mb = next(micro_batches)
    api.backward(model(mb.x).square().mean())
    session = api.current()
    gradients = CutBeforeTheVote() if is_cut else Alone()
    session._groups = replace(session._groups, gradients=gradients, votes=votes)
    if is_cut:
        with pytest.raises(WorldError, match="cut before the vote"):
            opt.step()
    else:
        opt.step()
    assert votes.cast == (0 if is_cut else 1)
    assert torch.equal(model.weight, before) is is_cut
