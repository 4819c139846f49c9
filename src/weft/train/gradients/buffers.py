"""Buffers that a forward pass changes (running means), summed over all members.

They are weighted by samples, so that they are equal everywhere and speak of the whole batch. A step
that does not count leaves them as they were before it.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(slots=True)
class Buffers:
    """The live ones, and how they were before the step."""

    live: list[Tensor]
    before: list[Tensor] = field(default_factory=list)

    @torch.no_grad()
    def remember(self) -> None:
        if not self.before:
            self.before = [buffer.detach().clone() for buffer in self.live]
            return
        for kept, buffer in zip(self.before, self.live, strict=True):
            kept.copy_(buffer)

    @torch.no_grad()
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
