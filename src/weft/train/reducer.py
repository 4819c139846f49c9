"""Gradients summed over the members while the backward pass still runs.

torch's DistributedDataParallel is tied to one process group, broadcasts the weights whenever it is
made, and keeps a state after an error that only making it anew repairs. Here a group comes and goes
with its epoch, so the few lines that matter are our own: gradients are gathered in flat buckets,
a bucket is summed as soon as its last gradient is in, buckets go in a fixed order on all members,
and errors are kept, not raised, until the vote.

The last bucket carries the control word: one number per flag, above zero in the sum if any member
raised it. So everybody sees a flag at the same step without a message of its own. Buffers that a
forward pass changes (running means) are summed alike, weighted by samples, so that they are equal
everywhere and speak of the whole batch.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Protocol

import torch
from torch import Tensor
from torch.nn import Parameter

from weft.crash import passing
from weft.train.group import Group, Pending

BUCKET_BYTES: Final = 25 * 1024 * 1024


class Flag(IntEnum):
    """What a member may raise for all to see; the value is its place in the control word."""

    ARMED = 0
    DRAIN = 1
    SAVE = 2


class Reduction(Protocol):
    """How the gradients of a step become one sum; by buckets, or in a fixed order."""

    failure: BaseException | None
    overlap: bool
    busy_seconds: float  # from the first sum that was begun to the last that ended

    def open(self, gradients: Group, everyone: Group) -> None:
        """A step begins: all gradients are zero."""
        ...

    def before_backward(self, *, last: bool, raised: frozenset[Flag]) -> None: ...

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


@dataclass(slots=True)
class Bucket:
    """Neighbouring gradients in one flat tensor; the last `words` numbers are no gradients."""

    flat: Tensor
    parameters: list[Parameter]
    views: list[Tensor]
    missing: int = 0
    work: Pending | None = None
    arrived: set[int] = field(default_factory=set)
    kept: list[Tensor | None] = field(default_factory=list)

    def clear(self) -> None:
        """No parameter has a gradient, as after `zero_grad`."""
        self.hide()
        self.missing, self.work = len(self.parameters), None
        self.arrived, self.kept = set(), []

    def put_away(self) -> None:
        """Keep what is not summed yet out of sight, until the next micro-batch adds to it."""
        self.kept = [parameter.grad for parameter in self.parameters]
        self.hide()

    def bring_back(self) -> None:
        for parameter, grad in zip(self.parameters, self.kept, strict=False):
            parameter.grad = grad

    def complete(self) -> None:
        """What no gradient came for counts as zero, since others may have one."""
        for place, (parameter, view) in enumerate(zip(self.parameters, self.views, strict=True)):
            if place not in self.arrived:
                view.zero_() if parameter.grad is None else view.copy_(parameter.grad)
                parameter.grad = view

    def show(self) -> None:
        """Let the parameters have their gradients."""
        for parameter, view in zip(self.parameters, self.views, strict=True):
            parameter.grad = view

    def hide(self) -> None:
        """What is not summed yet is not to be seen, let alone clipped, between micro-batches."""
        for parameter in self.parameters:
            parameter.grad = None


@dataclass(slots=True)
class Buffers:
    """Buffers that a forward pass may change, and how they were before the step."""

    live: list[Tensor]
    before: list[Tensor] = field(default_factory=list)

    def remember(self) -> None:
        if not self.before:
            self.before = [buffer.detach().clone() for buffer in self.live]
            return
        for kept, buffer in zip(self.before, self.live, strict=True):
            kept.copy_(buffer)

    def restore(self) -> None:
        """As before the step, if there was one."""
        if not self.before:
            return
        for kept, buffer in zip(self.before, self.live, strict=True):
            buffer.copy_(kept)

    def packed(self, weight: float) -> Tensor:
        flat = torch.cat([buffer.detach().double().reshape(-1) for buffer in self.live])
        return flat * weight if weight else torch.zeros_like(flat)

    def unpack(self, flat: Tensor) -> None:
        start = 0
        for buffer in self.live:
            part = flat[start : start + buffer.numel()].reshape(buffer.shape)
            start += buffer.numel()
            buffer.copy_(part.round() if not buffer.is_floating_point() else part)


class BucketReduction:
    """By buckets, overlapped with the backward pass: the same mathematics for any width."""

    def __init__(
        self,
        parameters: Sequence[Parameter],
        buffers: Iterable[Tensor] = (),
        bucket_bytes: int = BUCKET_BYTES,
    ) -> None:
        self.failure: BaseException | None = None
        self.overlap = True
        self.busy_seconds = 0.0
        self._began_seconds = 0.0
        self.buffers = Buffers(list(buffers))
        self._buckets = buckets_of(parameters, bucket_bytes)
        self._word = self._buckets[-1].flat[-len(Flag) :]
        self._place = {id(p): (b, i) for b in self._buckets for i, p in enumerate(b.parameters)}
        self._group: Group | None = None
        self._live = False
        self._next = 0
        self._weight = 0.0
        for bucket in self._buckets:
            for parameter in bucket.parameters:
                parameter.register_post_accumulate_grad_hook(self._arrived)  # type: ignore[no-untyped-call]

    def open(self, gradients: Group, everyone: Group) -> None:
        self.failure = None
        self._group = gradients
        self._next = 0
        self._weight = 0.0
        self._word.zero_()
        if not self._alone:
            self.remember()
        for bucket in self._buckets:
            bucket.clear()

    def before_backward(self, *, last: bool, raised: frozenset[Flag]) -> None:
        for bucket in self._buckets:
            bucket.bring_back()
        self._live = last and not self._alone
        if last:
            self._raise(raised)

    def after_backward(self, *, last: bool, weight: float, part: int) -> None:
        self._weight += weight
        self._live = False
        if last:
            return self._finish()
        for bucket in self._buckets:
            bucket.put_away()
        return None

    def contribute_nothing(self, raised: frozenset[Flag]) -> None:
        for bucket in self._buckets:
            bucket.hide()
        self._raise(raised)
        self._finish()

    def seen(self, flag: Flag) -> bool:
        return bool(self._word[flag] > 0)

    def remember(self) -> None:
        with torch.no_grad():
            self.buffers.remember()

    def forget(self) -> None:
        with torch.no_grad():
            self.buffers.restore()

    def _raise(self, raised: frozenset[Flag]) -> None:
        for flag in raised:
            self._word[flag] = 1

    @property
    def _alone(self) -> bool:
        """Then there is nothing to sum, and gradients stay where autograd has put them."""
        return self._group is None or self._group.size == 1

    def _finish(self) -> None:
        if self._alone:
            self.busy_seconds = 0.0
            return
        self._launch_all()
        self._sum_buffers()
        self._wait()

    def _arrived(self, parameter: Tensor) -> None:
        if not self._live or parameter.grad is None:
            return
        bucket, place = self._place[id(parameter)]
        if place in bucket.arrived:
            return
        bucket.arrived.add(place)
        bucket.views[place].copy_(parameter.grad)
        parameter.grad = bucket.views[place]
        bucket.missing -= 1
        if self.overlap and bucket.missing == 0:
            self._launch_ready()

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
            bucket.complete()
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


def buckets_of(parameters: Sequence[Parameter], most_bytes: int = BUCKET_BYTES) -> list[Bucket]:
    """In the order in which gradients come, which is about the reverse of the forward pass."""
    runs: list[list[Parameter]] = []
    filled = 0
    for parameter in reversed([p for p in parameters if p.requires_grad]):
        size = parameter.numel() * parameter.element_size()
        fits = runs and filled + size <= most_bytes and _alike(runs[-1][0], parameter)
        if fits:
            runs[-1].append(parameter)
            filled += size
        else:
            runs.append([parameter])
            filled = size
    return [
        _bucket(run, words=len(Flag) if number == len(runs) - 1 else 0)
        for number, run in enumerate(runs)
    ]


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.device == other.device


def _bucket(parameters: list[Parameter], words: int) -> Bucket:
    total = sum(parameter.numel() for parameter in parameters) + words
    flat = torch.empty(total, dtype=parameters[0].dtype, device=parameters[0].device)
    flat.zero_()  # touched now, not at the first switch
    views, start = [], 0
    for parameter in parameters:
        views.append(flat[start : start + parameter.numel()].view_as(parameter))
        start += parameter.numel()
    return Bucket(flat, parameters, views)
