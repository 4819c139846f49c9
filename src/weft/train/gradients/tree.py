"""Gradients summed in one fixed order, whatever the width: equal to the last bit.

Floating-point addition depends on its order. So the batch is cut into a fixed number of parts, a
power of two; each part's gradient is a leaf of a binary tree, and a node is always the sum of its
left and its right child. A worker adds up what it can of its own leaves, every node so found is
handed to all, and all climb to the root alike. (EasyScale, SC 2023, calls the parts logical
workers.) It moves more data than a sum by buckets does; it is for finding out what changed.

Buffers are treated alike: each part starts from the buffers as they were before the step. So are
the weights of parts, if a script gives some.
"""

import time
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from weft.model.errors import SpecError
from weft.train.gradients.book import GradientBook, Named
from weft.train.gradients.buckets import buckets_of
from weft.train.gradients.buffers import Buffers
from weft.train.gradients.flag import Flag
from weft.train.gradients.weighing import Weighing
from weft.train.gradients.word import Word
from weft.train.groups.group import Group

Node = list[Tensor]


class TreeReduction:
    """A sum over a binary tree of `parts` leaves."""

    def __init__(self, named: Callable[[], Named], buffers: Iterable[Tensor], parts: int) -> None:
        self.failure: BaseException | None = None
        self.overlap = False
        self.busy_seconds = 0.0
        self.buffers = Buffers(list(buffers))
        self._parts = parts
        self.gradients = GradientBook(named)
        self.weighing = Weighing()
        self.gradients.look()
        self._buckets = buckets_of(self.gradients.taking_part)
        self._word = Word.on(self._buckets[0].flat.device)
        self._nodes: dict[int, Node] = {}
        self._group: Group | None = None

    def open(self, gradients: Group, everyone: Group) -> None:
        self.failure = None
        self._group = gradients
        self._nodes = {}
        self._word.clear()
        self.weighing.clear()
        self.gradients.clear()
        self._look()
        self.remember()

    def before_backward(self, *, last: bool, raised: frozenset[Flag]) -> None:
        self._look()
        self.gradients.expecting = True
        self._word.say(raised, self.weighing.total)

    def backward(self, loss: Tensor) -> None:
        loss.backward()  # type: ignore[no-untyped-call]

    def after_backward(self, *, last: bool, weight: float, part: int) -> None:
        self.gradients.expecting = False
        with torch.no_grad():
            self._keep(self._parts + part, self._leaf(weight))
            self.buffers.restore()
        self.gradients.take_away()
        if last:
            self._meet()

    def contribute_nothing(self, raised: frozenset[Flag]) -> None:
        self._look()
        self._word.say(raised, self.weighing.total)
        self._meet()

    def seen(self, flag: Flag) -> bool:
        return self._word.seen(flag)

    def remember(self) -> None:
        self.buffers.remember()

    def forget(self) -> None:
        self.buffers.restore()

    def _look(self) -> None:
        """All parts of a step must be of the same parameters, because they are added up."""
        if not self.gradients.look():
            return
        if self._nodes:
            raise SpecError(
                "layers were frozen or unfrozen within a step",
                hint="do it in the first micro-batch of a step, before weft.backward",
            )
        self._buckets = buckets_of(self.gradients.taking_part)

    def _leaf(self, share: float) -> Node:
        unit, weight = self.weighing.take()
        for bucket in self._buckets:
            bucket.complete(unit or 1.0)
        leaf = [bucket.flat.clone() for bucket in self._buckets]
        return [*leaf, self._beside(share, weight)]

    def _beside(self, share: float = 0.0, weight: float = 0.0) -> Tensor:
        """What goes along with the gradients of a part: its buffers, and what it weighs."""
        weights = torch.tensor([weight], dtype=torch.float64)
        if not self.buffers.live:
            return weights
        packed = self.buffers.packed(share)
        return torch.cat([packed, weights.to(packed.device)])

    def _keep(self, place: int, node: Node) -> None:
        """Put a node in its place; with its sibling it becomes their parent (1 is the root)."""
        while place > 1 and place ^ 1 in self._nodes:
            sibling = self._nodes.pop(place ^ 1)
            left, right = (sibling, node) if place & 1 else (node, sibling)
            node = [one + other for one, other in zip(left, right, strict=True)]
            place //= 2
        self._nodes[place] = node

    def _meet(self) -> None:
        assert self._group is not None
        began = time.perf_counter()
        try:
            with torch.no_grad():
                self._group.sum(self._word.numbers).wait()
                self._exchange(self._group)
            root = self._nodes[1]  # not there if a part was lost on the way
        except Exception as error:
            self.failure, root = error, []
        self.busy_seconds = time.perf_counter() - began
        if self.failure is None:
            self._show(root, weighed=self._word.weight(self._group.size) is not None)

    def _exchange(self, group: Group) -> None:
        """Every node that somebody found goes to all; the tree is then climbed in one order."""
        owners = torch.zeros(2 * self._parts, dtype=torch.int64)
        for place in self._nodes:
            owners[place] = group.rank + 1
        group.sum(owners).wait()
        found: dict[int, Node] = {}
        for place, owner in enumerate(owners.tolist()):
            if owner:
                found[place] = self._handed_out(group, place, owner - 1)
        self._nodes = {}
        for place, node in found.items():
            self._keep(place, node)

    def _handed_out(self, group: Group, place: int, owner: int) -> Node:
        node = self._nodes[place] if owner == group.rank else self._blank()
        for tensor in node:
            group.broadcast(tensor, owner).wait()
        return node

    def _blank(self) -> Node:
        return [*(torch.empty_like(bucket.flat) for bucket in self._buckets), self._beside()]

    @torch.no_grad()
    def _show(self, root: Node, *, weighed: bool) -> None:
        *flats, beside = root
        weight = beside[-1].item()
        for bucket, flat in zip(self._buckets, flats, strict=True):
            bucket.flat.copy_(flat)
            bucket.show()
            if weighed and weight:
                bucket.divide(weight)
        if self.buffers.live:
            self.buffers.unpack(beside[:-1])
