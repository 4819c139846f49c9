"""Gradients summed over the members while the backward pass still runs.

torch's DistributedDataParallel is tied to one process group, broadcasts the weights whenever it is
made, and keeps a state after an error that only making it anew repairs. Here a group comes and goes
with its epoch, so the few lines that matter are our own: gradients live as views in flat buckets,
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
        self.remember()
        for bucket in self._buckets:
            bucket.flat.zero_()
            bucket.missing = len(bucket.parameters)
            bucket.work = None

    def before_backward(self, *, last: bool, raised: frozenset[Flag]) -> None:
        for bucket in self._buckets:
            bucket.show()
        self._live = last
        if last:
            self._raise(raised)

    def after_backward(self, *, last: bool, weight: float, part: int) -> None:
        self._weight += weight
        self._live = False
        if last:
            self._launch_all()
            self._sum_buffers()
            self._wait()
            return
        for bucket in self._buckets:
            bucket.hide()

    def contribute_nothing(self, raised: frozenset[Flag]) -> None:
        for bucket in self._buckets:
            bucket.show()
        self._raise(raised)
        self._launch_all()
        self._sum_buffers()
        self._wait()

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

    def _arrived(self, parameter: Tensor) -> None:
        bucket, place = self._place[id(parameter)]
        view = bucket.views[place]
        if parameter.grad is not None and parameter.grad is not view:
            view.add_(parameter.grad)
            parameter.grad = view
        if not self._live:
            return
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
    flat = torch.zeros(total, dtype=parameters[0].dtype, device=parameters[0].device)
    views, start = [], 0
    for parameter in parameters:
        views.append(flat[start : start + parameter.numel()].view_as(parameter))
        start += parameter.numel()
    return Bucket(flat, parameters, views)
