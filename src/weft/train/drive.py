"""Weft's steps for a trainer that has a loop of its own.

`weft.steps` is a generator that a script's loop runs through. A trainer with a loop of its own asks
for one step at a time instead, so here the generator is advanced by hand: `compute` goes through
all micro-batches of a step up to the sum, `apply` takes the vote, and computes anew until a step is
voted through. Between the two the trainer does what it always does there, such as clipping. So one
step of the trainer is one step of Weft, whatever is lost on the way.

Such trainers look at the variables of torchrun and would form a group of their own: a worker takes
them out of its environment before the trainer is imported, and the trainer finds itself alone.
"""

import os
from collections.abc import Callable, Generator, Mapping, MutableMapping
from typing import Final, cast

import torch
from torch import Tensor

from weft.train.data.loader import Loader, MicroBatch
from weft.train.session import Session

TORCHRUN: Final = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "GROUP_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
)
TORCHRUN_PREFIXES: Final = ("PET_", "TORCHELASTIC_")


def in_a_world(variables: Mapping[str, str] = os.environ) -> bool:
    """Whether an agent has started this process."""
    return bool(variables.get("WEFT_SOCKET"))


def be_alone(variables: MutableMapping[str, str] = os.environ) -> None:
    """Forget torchrun's variables where an agent looks after this process."""
    if not in_a_world(variables):
        return
    for name in [n for n in variables if n in TORCHRUN or n.startswith(TORCHRUN_PREFIXES)]:
        del variables[name]


def first_at_the_start(variables: Mapping[str, str] = os.environ) -> bool:
    """Whether this process writes logs as long as there is no session that would know."""
    return variables.get("WEFT_WORKER", "0") == "0"


class Drive:
    """A session's steps, one at a time."""

    def __init__(self, session: Session, loader: Loader, total: int) -> None:
        self.session, self.total = session, total
        self.finished = False
        steps = session.steps(loader, total)
        self._batches = cast(Generator[MicroBatch, None, None], steps)

    def compute(self, run: Callable[[MicroBatch], Tensor]) -> Tensor | None:
        """One step up to the sum of its gradients; None if no step is left to be done.

        `run` does forward and backward of one micro-batch and gives its loss, detached. The loss
        that comes back is the mean over what this worker has of the batch, 0 if it has nothing.
        """
        total, weight = torch.zeros(()), 0.0
        for micro in self._batches:
            loss = run(micro)
            if micro.warmup:
                self.session.optimizer_step()
                continue
            if share := self.session.loss_factor:
                total, weight = total.to(loss.device) + loss * share, weight + share
            if micro.last:
                return total / weight if weight else torch.zeros_like(loss)
        self.finished = True
        return None

    def apply(self, again: Callable[[], object]) -> None:
        """Vote and step; where the vote fails, `again` computes the step anew."""
        while not self.finished and not self.session.optimizer_step():
            again()

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes logs."""
        return self.session.rank == 0

    def finish(self) -> None:
        """The trainer's loop has ended, with the last step or, by its own decision, before it.

        All workers must decide alike, which they do if they look at the same weights and data.
        """
        self.finished = True
        if self.session.step < self.total:
            self._batches.close()
        for _ in self._batches:
            raise AssertionError("a step was handed out after the last one")
