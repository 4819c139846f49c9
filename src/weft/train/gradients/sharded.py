"""Gradients of a model that several workers hold together, summed between the replicas.

FSDP2 sums inside a replica and leaves each member the gradient of its own shard. What is left is
the sum over replicas, shard by shard, once per step. The control word goes to all members, because
members of different shards share no group but that of the votes.
"""

import time
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from weft.train.gradients.book import GradientBook, Named
from weft.train.gradients.buffers import Buffers
from weft.train.gradients.flag import Flag
from weft.train.gradients.weighing import Weighing
from weft.train.gradients.word import Word
from weft.train.groups.group import Group
from weft.train.state.local_tensors import local_part


class ShardReduction:
    """One sum per step over the shards that this worker holds.

    The members of a replica compute together, each with its own samples or with none; whoever has
    none still holds the sum of its own rows, and counts like the others.
    """

    def __init__(
        self, named: Callable[[], Named], buffers: Iterable[Tensor], copies: int = 1
    ) -> None:
        """Of all members, `copies` compute the same samples: together they count once."""
        self._copies = copies
        self.failure: BaseException | None = None
        self.overlap = False
        self.busy_seconds = 0.0
        self.buffers = Buffers(list(buffers))
        self.gradients = GradientBook(named)
        self.weighing = Weighing(unit=1.0)  # gradients meet inside of a replica first
        self._kept: dict[int, Tensor] = {}
        self._word = Word()
        self._replicas: Group | None = None
        self._everyone: Group | None = None
        self._weight = 0.0

    def open(self, gradients: Group, everyone: Group) -> None:
        self.failure = None
        self._replicas, self._everyone = gradients, everyone
        self._weight = 0.0
        self._word.clear()
        self.weighing.clear()
        self._kept = {}
        self.gradients.look()
        self.gradients.clear()
        self.remember()

    def before_backward(self, *, last: bool, raised: frozenset[Flag]) -> None:
        self.gradients.look()
        self.gradients.expecting = True
        self._say(raised)

    def backward(self, loss: Tensor) -> None:
        loss.backward()  # type: ignore[no-untyped-call]

    def after_backward(self, *, last: bool, weight: float, part: int) -> None:
        self.gradients.expecting = False
        self._weight += weight
        with torch.no_grad():
            self._gather()
            if last:
                self._meet()

    def contribute_nothing(self, raised: frozenset[Flag]) -> None:
        """For a whole replica without samples; what its members have computed is of no use."""
        self.gradients.look()
        self.gradients.take_away()
        self._say(raised)
        with torch.no_grad():
            self._meet()

    def seen(self, flag: Flag) -> bool:
        return self._word.seen(flag)

    def remember(self) -> None:
        self.buffers.remember()

    def forget(self) -> None:
        self.buffers.restore()

    def _say(self, raised: frozenset[Flag]) -> None:
        total = self.weighing.total
        self._word.say(raised, None if total is None else total / self._copies)

    def _gather(self) -> None:
        """Add to what is not summed yet, out of sight until the last micro-batch."""
        for key, grad in self.gradients.take_away().items():
            self._kept[key] = self._kept[key].add_(grad) if key in self._kept else grad

    def _meet(self) -> None:
        assert self._replicas is not None
        assert self._everyone is not None
        began = time.perf_counter()
        try:
            self._everyone.sum(self._word.numbers).wait()
            if self._replicas.size > 1:
                self._sum(self._replicas)
            self._sum_buffers(self._everyone)
            self.gradients.give_back(self._kept)
        except Exception as error:
            self.failure = error
        self.busy_seconds = time.perf_counter() - began
        if self.failure is None and (weight := self._word.weight(self._everyone.size)):
            for grad in self._kept.values():
                local_part(grad).div_(weight)

    def _sum(self, replicas: Group) -> None:
        """Also of whose gradient came: what nobody has one for keeps none."""
        mine = self.gradients.taking_part
        present = [id(parameter) in self._kept for parameter in mine]
        whole = [self._kept.get(id(p), None) for p in mine]
        grads = [torch.zeros_like(p) if g is None else g for p, g in zip(mine, whole, strict=True)]
        parts = [local_part(grad).reshape(-1) for grad in grads]
        flat = torch.cat([*parts, torch.tensor(present, dtype=parts[0].dtype)])
        replicas.sum(flat).wait()
        *summed, counts = torch.split(flat, [*(part.numel() for part in parts), len(parts)])
        self._kept = {}
        for parameter, grad, part, total, count in zip(
            mine, grads, parts, summed, counts.tolist(), strict=True
        ):
            part.copy_(total)
            if count > 0:
                self._kept[id(parameter)] = grad

    def _sum_buffers(self, everyone: Group) -> None:
        """Over all members: each has seen its own samples, whichever rows it holds."""
        if self.buffers.live and everyone.size > 1:
            packed = self.buffers.packed(self._weight / self._copies)
            everyone.sum(packed).wait()
            self.buffers.unpack(packed)
