"""The model as a loop calls it, if the program has told its loss: `loss = model(x, y)`.

So one line serves every plan. Of a model in stages the loss is on the last one only, and torch's
schedule computes forward and backward in turns: there the call only notes what is to be computed,
and the backward pass computes all of it. The value is in the loss when that is done.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor, nn

from weft.model.errors import SpecError
from weft.train.plans.hooks import Loss

DEFERRED: Final = "_weft_deferred"


def compute(loss: Tensor, scale: float, backward: Callable[[Tensor], None]) -> None:
    """The backward pass of a loss times `scale`: by `backward`, or by all stages in turns."""
    deferred = getattr(loss, DEFERRED, None)
    if deferred is not None:
        delattr(loss, DEFERRED)
        deferred(scale)
    else:
        backward(loss * scale)


def check_deferred(loss: Tensor) -> None:
    """Nothing can be computed with a loss that is not there yet."""
    if not hasattr(loss, DEFERRED):
        raise SpecError(
            "under a plan with stages weft.backward got another loss than the model gave",
            hint="write weft.backward(model(x, y)); what is added to it belongs into loss=",
        )


class WithLoss(nn.Module):
    """A model and its loss."""

    def __init__(self, net: nn.Module, loss: Loss) -> None:
        super().__init__()
        self._weft_net, self._loss = net, loss

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self._loss(self._weft_net(x), y)


class Pipelined(nn.Module):
    """One stage of a model, run by torch's 1F1B schedule with all other stages."""

    def __init__(
        self,
        stage: nn.Module,
        mesh: Any,  # noqa: ANN401 - of torch, not loaded where no plan is
        loss: Loss,
        micro_batches: int,
        device: torch.device,
    ) -> None:
        super().__init__()
        self._weft_net, self._loss = stage, loss
        self._mesh, self._micro_batches, self._device = mesh, micro_batches, device
        self._schedules: dict[tuple[int, ...], Any] = {}

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            raise RuntimeError("a model in stages is computed by weft.backward only")
        loss = torch.zeros((), device=self._device)
        setattr(loss, DEFERRED, partial(self._compute, loss, x, y))
        return loss

    def _compute(self, loss: Tensor, x: Tensor, y: Tensor, scale: float) -> None:
        """All of a micro-batch: gradients by `scale`, and its loss into `loss` on every stage."""
        place, count = self._mesh.get_local_rank(), self._mesh.size()
        schedule = self._schedule(x, scale)
        losses = schedule.run(x if place == 0 else None, y if place == count - 1 else None)
        if losses:
            loss.copy_(torch.stack(losses).mean())
        group = self._mesh.get_group()
        dist.broadcast(loss, dist.get_global_rank(group, count - 1), group=group)

    def _schedule(self, x: Tensor, scale: float) -> "_Scaled":
        """Torch fixes the sizes that flow between stages with the first batch of a schedule."""
        key = tuple(x.shape)
        if key not in self._schedules:
            self._schedules[key] = self._made(len(x))
        schedule: _Scaled = self._schedules[key]
        schedule.scale = scale
        return schedule

    def _made(self, samples: int) -> "_Scaled":
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B

        place, count = self._mesh.get_local_rank(), self._mesh.size()
        stage = PipelineStage(
            self._weft_net, place, count, self._device, group=self._mesh.get_group()
        )
        parts = _largest_divisor(samples, self._micro_batches)
        return _Scaled(stage, Schedule1F1B, parts, self._loss)


class _Scaled:
    """A schedule whose losses are multiplied before their backward pass, and told as they were."""

    def __init__(self, stage: Any, kind: Any, parts: int, loss: Loss) -> None:  # noqa: ANN401
        self.scale, self._loss, self._parts = 1.0, loss, parts
        self._losses: list[Tensor] = []
        self._schedule = kind(stage, parts, loss_fn=self._scaled)

    def run(self, x: Tensor | None, y: Tensor | None) -> list[Tensor]:
        """Forward and backward of all micro-batches; gives the losses where they are known."""
        self._losses = []
        given = () if x is None else (x,)
        self._schedule.step(*given, target=y, return_outputs=False)
        found, self._losses = self._losses[-self._parts :], []  # torch asks for sizes before
        return found

    def _scaled(self, output: Tensor, y: Tensor) -> Tensor:
        loss = self._loss(output, y)
        self._losses.append(loss.detach())
        return loss * self.scale


def _largest_divisor(samples: int, most: int) -> int:
    """Micro-batches of one size, as torch wants them."""
    return next(parts for parts in range(min(most, samples), 0, -1) if samples % parts == 0)
