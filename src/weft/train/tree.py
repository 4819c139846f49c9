"""Gradients summed in one fixed order, whatever the width: equal to the last bit.

Floating-point addition depends on its order. So the batch is cut into a fixed number of parts, a
power of two; each part's gradient is a leaf of a binary tree, and a node is always the sum of its
left and its right child. A worker adds up what it can of its own leaves, every node so found is
handed to all, and all climb to the root alike. (EasyScale, SC 2023, calls the parts logical
workers.) It moves more data than a sum by buckets does; it is for finding out what changed.

Buffers are treated alike: each part starts from the buffers as they were before the step.
"""

import time
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

from weft.train.group import Group
from weft.train.reducer import Buffers, Flag, buckets_of

Node = list[Tensor]


class TreeReduction:
    """A sum over a binary tree of `parts` leaves."""

    def __init__(
        self, parameters: Sequence[Parameter], buffers: Iterable[Tensor], parts: int
    ) -> None:
        self.failure: BaseException | None = None
        self.overlap = False
        self.busy_seconds = 0.0
        self.buffers = Buffers(list(buffers))
        self._parts = parts
        self._buckets = buckets_of(parameters)
        self._word = torch.zeros(len(Flag))
        self._nodes: dict[int, Node] = {}
        self._group: Group | None = None

    def open(self, gradients: Group, everyone: Group) -> None:
        self.failure = None
        self._group = gradients
        self._nodes = {}
        self._word.zero_()
        self.remember()

    def before_backward(self, *, last: bool, raised: frozenset[Flag]) -> None:
        for bucket in self._buckets:
            bucket.flat.zero_()
            bucket.show()
        for flag in raised:
            self._word[flag] = 1

    def after_backward(self, *, last: bool, weight: float, part: int) -> None:
        with torch.no_grad():
            self._keep(self._parts + part, self._leaf(weight))
            self.buffers.restore()
        if last:
            return self._meet()
        for bucket in self._buckets:
            bucket.hide()
        return None

    def contribute_nothing(self, raised: frozenset[Flag]) -> None:
        for flag in raised:
            self._word[flag] = 1
        self._meet()

    def seen(self, flag: Flag) -> bool:
        return bool(self._word[flag] > 0)

    def remember(self) -> None:
        with torch.no_grad():
            self.buffers.remember()

    def forget(self) -> None:
        with torch.no_grad():
            self.buffers.restore()

    def _leaf(self, weight: float) -> Node:
        leaf = [bucket.flat.clone() for bucket in self._buckets]
        return [*leaf, self.buffers.packed(weight)] if self.buffers.live else leaf

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
                self._group.sum(self._word).wait()
                self._exchange(self._group)
                self._show(self._nodes[1])
        except Exception as error:
            self.failure = error
        self.busy_seconds = time.perf_counter() - began

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
        blank = [torch.empty_like(bucket.flat) for bucket in self._buckets]
        return [*blank, self.buffers.packed(0.0)] if self.buffers.live else blank

    def _show(self, root: Node) -> None:
        for bucket, flat in zip(self._buckets, root, strict=False):
            bucket.flat.copy_(flat)
            bucket.show()
        if self.buffers.live:
            self.buffers.unpack(root[-1])
