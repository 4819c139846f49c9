"""Gradients summed over the members while the backward pass still runs.

torch's DistributedDataParallel is tied to one process group, broadcasts the weights whenever it is
made, and keeps a state after an error that only making it anew repairs. Here a group comes and goes
with its epoch, so the few lines that matter are our own: gradients are gathered in flat buckets,
a bucket is summed as soon as its last gradient is in, buckets go in a fixed order on all members,
and errors are kept, not raised, until the vote.

What nobody has a gradient for keeps none, so that the optimizer leaves it alone at every width.
Sparse gradients are made dense, at every width alike. A gradient can come several times in one
backward pass (a block under reentrant checkpointing): the steps that are not overlapped show which
do, and their buckets wait for the end of the pass. One that surprises us later spoils the sum that
was begun; then the step is made again, and waits.
"""

import time
from collections.abc import Callable, Iterable
from typing import Protocol

import torch
from torch import Tensor

from weft.crash import passing
from weft.model.errors import WorldError
from weft.train.gradients.book import GradientBook, Named
from weft.train.gradients.buckets import BUCKET_BYTES, Bucket, buckets_of, word_of
from weft.train.gradients.buffers import Buffers
from weft.train.gradients.flag import Flag
from weft.train.gradients.weighing import Weighing
from weft.train.groups.group import Group


class Reduction(Protocol):
    """How the gradients of a step become one sum; by buckets, or in a fixed order."""

    failure: BaseException | None
    overlap: bool
    gradients: GradientBook
    weighing: Weighing
    busy_seconds: float  # from the first sum that was begun to the last that ended

    def open(self, gradients: Group, everyone: Group) -> None:
        """A step begins: there are no gradients."""
        ...

    def before_backward(self, *, last: bool, raised: frozenset[Flag]) -> None: ...

    def backward(self, loss: Tensor) -> None:
        """The backward pass itself, of a micro-batch that counts for something."""
        ...

    def after_backward(self, *, last: bool, weight: float, part: int) -> None:
        """The last micro-batch's backward pass waits here for the sum."""
        ...

    def contribute_nothing(self, raised: frozenset[Flag]) -> None:
        """Take part with zeros."""
        ...

    def seen(self, flag: Flag) -> bool:
        """Whether anyone raised it in the step that was just summed."""
        ...

    def remember(self) -> None:
        """Buffers are now as they are to be before the step."""
        ...

    def forget(self) -> None:
        """The step did not count: buffers are as they were before it."""
        ...


class BucketReduction:
    """By buckets, overlapped with the backward pass: the same mathematics for any width."""

    def __init__(
        self,
        named: Callable[[], Named],
        buffers: Iterable[Tensor] = (),
        bucket_bytes: int = BUCKET_BYTES,
    ) -> None:
        self.failure: BaseException | None = None
        self.overlap = True
        self.busy_seconds = 0.0
        self._began_seconds = 0.0
        self.buffers = Buffers(list(buffers))
        self.gradients = GradientBook(named, self._arrived)
        self.weighing = Weighing()
        self._bucket_bytes = bucket_bytes
        self._kept: dict[int, Tensor] = {}
        self._repeated: set[int] = set()  # parameters whose gradient comes more than once
        self._group: Group | None = None
        self._live = False
        self._next = 0
        self._weight = 0.0
        self._look(anew=True)

    def open(self, gradients: Group, everyone: Group) -> None:
        self.failure = None
        self._group = gradients
        self._next = 0
        self._weight = 0.0
        self._kept = {}
        self.weighing.clear()
        self.gradients.clear()
        self._look()
        self._word.clear()
        if not self._alone:
            self.remember()
        for bucket in self._buckets:
            bucket.clear()

    def before_backward(self, *, last: bool, raised: frozenset[Flag]) -> None:
        self._look()
        self.gradients.give_back(self._kept)
        self.gradients.expecting = True
        self._live = last and not self._alone
        if last:
            self._word.say(raised, self.weighing.total)

    def backward(self, loss: Tensor) -> None:
        loss.backward()  # type: ignore[no-untyped-call]

    def after_backward(self, *, last: bool, weight: float, part: int) -> None:
        self._weight += weight
        self._live = self.gradients.expecting = False
        if last:
            self._finish()
        else:
            self._kept = self.gradients.take_away()

    def contribute_nothing(self, raised: frozenset[Flag]) -> None:
        self._look()
        self.gradients.take_away()
        self._word.say(raised, self.weighing.total)
        self._finish()

    def _look(self, *, anew: bool = False) -> None:
        """Buckets for those who take part now; nothing of this step is in the old ones yet."""
        if not self.gradients.look() and not anew:
            return
        self._buckets = buckets_of(self.gradients.taking_part, self._bucket_bytes)
        self._word = word_of(self._buckets)
        self._place = {id(p): (b, i) for b in self._buckets for i, p in enumerate(b.parameters)}
        for bucket in self._buckets:
            bucket.clear()

    def seen(self, flag: Flag) -> bool:
        return self._word.seen(flag)

    def remember(self) -> None:
        self.buffers.remember()

    def forget(self) -> None:
        self.buffers.restore()

    @property
    def _alone(self) -> bool:
        """Then there is nothing to sum, and gradients stay where autograd has put them."""
        return self._group is None or self._group.size == 1

    def _finish(self) -> None:
        if self._alone:
            self.busy_seconds = 0.0
            self.gradients.finish(*self.weighing.take())
            return
        self._launch_all()
        self._sum_buffers()
        self._wait()
        if self.failure is None:
            self._show()

    def _show(self) -> None:
        assert self._group is not None
        weight = self._word.weight(self._group.size)
        for bucket in self._buckets:
            bucket.show()
            if weight:
                bucket.divide(weight)

    def _arrived(self, parameter: Tensor) -> None:
        if not self._live or parameter.grad is None:
            return
        bucket, place = self._place[id(parameter)]
        if place in bucket.arrived:
            return self._came_again(parameter, bucket)
        bucket.arrived.add(place)
        bucket.take(place, parameter.grad)
        if id(parameter) not in self._repeated:
            bucket.missing -= 1
        if self.overlap and bucket.missing == 0:
            self._launch_ready()
        return None

    def _came_again(self, parameter: Tensor, bucket: Bucket) -> None:
        """From now on its bucket waits for the end; a sum that has begun already is spoilt."""
        self._repeated.add(id(parameter))
        if bucket.work is not None:
            name = self.gradients.name(parameter)
            self.failure = WorldError(f"the gradient of {name} came twice: the step is made again")

    def _launch_ready(self) -> None:
        while self._next < len(self._buckets) and self._buckets[self._next].missing <= 0:
            self._launch(self._buckets[self._next])

    def _launch_all(self) -> None:
        while self._next < len(self._buckets):
            self._launch(self._buckets[self._next])

    def _launch(self, bucket: Bucket) -> None:
        if self._next == 0:
            self._began_seconds = time.perf_counter()
        self._next += 1
        if self.failure is not None:
            return
        assert self._group is not None
        with torch.no_grad():
            bucket.complete(self.weighing.unit or 1.0)
        try:
            bucket.work = self._group.sum(bucket.flat)
            passing("bucket-sent")
        except Exception as error:
            self.failure = error

    def _sum_buffers(self) -> None:
        if not self.buffers.live or self.failure is not None:
            return
        assert self._group is not None
        try:
            with torch.no_grad():
                flat = self.buffers.packed(self._weight)
                self._group.sum(flat).wait()
                self.buffers.unpack(flat)
        except Exception as error:
            self.failure = error

    def _wait(self) -> None:
        for bucket in self._buckets:
            try:
                if bucket.work is not None:
                    bucket.work.wait()
            except Exception as error:
                self.failure = self.failure or error
            bucket.work = None
        self.busy_seconds = time.perf_counter() - self._began_seconds
