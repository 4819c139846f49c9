"""Gradients of a model that several workers hold together, summed between the replicas.

FSDP2 sums inside a replica and leaves each member the gradient of its own shard. What is left is
the sum over replicas, shard by shard, once per step. The control word goes to all members, because
members of different shards share no group but that of the votes.
"""

import time
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

from weft.train.group import Group
from weft.train.reducer import Buffers, Flag
from weft.train.state import _local as local


class ShardReduction:
    """One sum per step over the shards that this worker holds."""

    def __init__(self, parameters: Sequence[Parameter], buffers: Iterable[Tensor]) -> None:
        self.failure: BaseException | None = None
        self.overlap = False
        self.busy_seconds = 0.0
        self.buffers = Buffers(list(buffers))
        self._parameters = [p for p in parameters if p.requires_grad]
        self._kept: list[Tensor | None] = []
        self._word = torch.zeros(len(Flag))
        self._replicas: Group | None = None
        self._everyone: Group | None = None
        self._weight = 0.0

    def open(self, gradients: Group, everyone: Group) -> None:
        self.failure = None
        self._replicas, self._everyone = gradients, everyone
        self._weight = 0.0
        self._word.zero_()
        self._kept = [None] * len(self._parameters)
        for parameter in self._parameters:
            parameter.grad = None
        self.remember()

    def before_backward(self, *, last: bool, raised: frozenset[Flag]) -> None:
        for flag in raised:
            self._word[flag] = 1

    def after_backward(self, *, last: bool, weight: float, part: int) -> None:
        self._weight += weight
        with torch.no_grad():
            self._gather(last=last)
            if last:
                self._meet()

    def contribute_nothing(self, raised: frozenset[Flag]) -> None:
        for flag in raised:
            self._word[flag] = 1
        with torch.no_grad():
            for parameter in self._parameters:
                parameter.grad = torch.zeros_like(parameter)
            self._meet()

    def seen(self, flag: Flag) -> bool:
        return bool(self._word[flag] > 0)

    def remember(self) -> None:
        with torch.no_grad():
            self.buffers.remember()

    def forget(self) -> None:
        with torch.no_grad():
            self.buffers.restore()

    def _gather(self, *, last: bool) -> None:
        """Keep what is not summed yet out of sight; bring it back for the last micro-batch."""
        for number, parameter in enumerate(self._parameters):
            kept, grad = self._kept[number], parameter.grad
            if grad is None:
                grad = torch.zeros_like(parameter)
            total = grad if kept is None else kept.add_(grad)
            self._kept[number] = total
            parameter.grad = total if last else None

    def _meet(self) -> None:
        assert self._replicas is not None
        assert self._everyone is not None
        began = time.perf_counter()
        try:
            self._everyone.sum(self._word).wait()
            if self._replicas.size > 1:
                self._sum(self._replicas)
        except Exception as error:
            self.failure = error
        self.busy_seconds = time.perf_counter() - began

    def _sum(self, replicas: Group) -> None:
        parts = [local(p.grad).reshape(-1) for p in self._parameters if p.grad is not None]
        flat = torch.cat(parts)
        replicas.sum(flat).wait()
        start = 0
        for part in parts:
            part.copy_(flat[start : start + part.numel()])
            start += part.numel()
        if self.buffers.live:
            packed = self.buffers.packed(self._weight)
            replicas.sum(packed).wait()
            self.buffers.unpack(packed)
