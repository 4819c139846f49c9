"""Gradients in flat buckets, as they are summed.

A bucket also carries one number per parameter, above zero if any member has a gradient for it, and
the last one the control word. Complex gradients lie in it as pairs of real numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor
from torch.nn import Parameter

from weft.train.gradients.word import EXACT, NUMBERS, Word
from weft.train.groups.flight import Pending

BUCKET_BYTES: Final = 25 * 1024 * 1024


@dataclass(slots=True)
class Bucket:
    """Neighbouring gradients in one flat tensor, then who has one, then what is no gradient."""

    flat: Tensor
    values: Tensor
    parameters: list[Parameter]
    views: list[Tensor]
    present: Tensor
    missing: int = 0
    work: Pending | None = None
    arrived: set[int] = field(default_factory=set)

    def clear(self) -> None:
        """Nothing has come yet."""
        self.missing, self.work, self.arrived = len(self.parameters), None, set()

    def take(self, place: int, grad: Tensor) -> None:
        """A gradient has come; whatever is added to it later is added in its place here."""
        view = self.views[place]
        if grad is not view:
            with torch.no_grad():
                view.copy_(grad.to_dense() if grad.is_sparse else grad)
            self.parameters[place].grad = view

    def complete(self, unit: float = 1.0) -> None:
        """What no gradient came for counts as zero, since others may have one."""
        come = [parameter.grad is not None for parameter in self.parameters]
        for place, parameter in enumerate(self.parameters):
            if parameter.grad is None:
                self.views[place].zero_()
            else:
                self.take(place, parameter.grad)
        self.present.copy_(torch.tensor(come, dtype=self.present.dtype))
        if unit != 1.0:
            self.values.mul_(unit)

    def divide(self, by: float) -> None:
        """The sum is over so much: what is shown is the mean."""
        self.values.div_(by)

    def show(self) -> None:
        """Let the parameters have their gradients; what nobody has one for has none."""
        whose = (self.present > 0).tolist()
        for parameter, view, come in zip(self.parameters, self.views, whose, strict=True):
            parameter.grad = view if come else None


def buckets_of(parameters: Sequence[Parameter], most_bytes: int = BUCKET_BYTES) -> list[Bucket]:
    """In the order in which gradients come, which is about the reverse of the forward pass."""
    runs: list[list[Parameter]] = []
    filled = 0
    for parameter in reversed(parameters):
        size = parameter.numel() * parameter.element_size()
        fits = runs and filled + size <= most_bytes and _alike(runs[-1][0], parameter)
        if fits:
            runs[-1].append(parameter)
            filled += size
        else:
            runs.append([parameter])
            filled = size
    if not runs or not _counts(runs[-1][0].dtype):
        runs.append([])
    device = parameters[-1].device if parameters else None
    made = [_bucket(run, device) for run in runs[:-1]]
    return [*made, _bucket(runs[-1], device, words=NUMBERS)]


def word_of(buckets: Sequence[Bucket]) -> Word:
    """The one that the last of them carries."""
    return Word(buckets[-1].flat[-NUMBERS:])


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.device == other.device


def _counts(dtype: torch.dtype) -> bool:
    """Whether numbers of this type can carry the word; half precision cannot count tokens."""
    return dtype.to_real() in EXACT


def _bucket(parameters: list[Parameter], device: torch.device | None, words: int = 0) -> Bucket:
    """Of parameters alike, or of none at all for what travels alone."""
    dtype = parameters[0].dtype if parameters else torch.float64
    each = 2 if dtype.is_complex else 1
    numbers = each * sum(parameter.numel() for parameter in parameters)
    total = numbers + len(parameters) + words
    where = parameters[0].device if parameters else device
    flat = torch.empty(total, dtype=dtype.to_real(), device=where)
    flat.zero_()  # touched now, not at the first switch
    views, start = [], 0
    for parameter in parameters:
        part = flat[start : start + each * parameter.numel()]
        views.append(_shown(part, parameter))
        start += part.numel()
    present = flat[numbers : numbers + len(parameters)]
    return Bucket(flat, flat[:numbers], parameters, views, present)


def _shown(part: Tensor, parameter: Parameter) -> Tensor:
    """A piece of a bucket as the gradient that it is."""
    if not parameter.is_complex():
        return part.view_as(parameter)
    return torch.view_as_complex(part.view(*parameter.shape, 2))
