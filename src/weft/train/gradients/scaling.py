"""torch's GradScaler under Weft: all workers scale alike, and skip the same steps.

Gradients that overflow on one worker are no numbers in the sum, and so on all. What the scaler
finds in the sum is therefore the same everywhere, and needs no message. What has to be looked
after is the order: nothing is unscaled before the last micro-batch was summed, a step that is
skipped counts as one (its samples were used), and the scale moves with steps that count only. The
scale is state: newcomers have it before they look at their first sum.
"""

import sys
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from weft.train.session import Session


def hold_back(session: Session, scaler: GradScaler) -> None:
    """Replace the methods that must not act before the sum, or before the vote."""
    unscale, step, update = scaler.unscale_, scaler.step, scaler.update

    def unscale_when_summed(optimizer: Optimizer) -> None:
        if session.has_sum:
            unscale(optimizer)

    def step_when_summed(optimizer: Optimizer, *given: Any, **named: Any) -> None:
        if session.has_sum:
            step(optimizer, *given, **named)
        if session.is_open:  # nothing to apply: it is no step yet, or it overflowed, or it failed
            session.optimizer_step(void=True)

    def update_when_stepped(new_scale: float | torch.Tensor | None = None) -> None:
        if session.stepped:
            update(new_scale)
        elif not session.is_open and scaler.is_enabled():
            update(scaler.get_scale())  # forgets what was found in a step that is made again

    scaler.unscale_ = unscale_when_summed  # type: ignore[method-assign]
    scaler.step = step_when_summed  # type: ignore[method-assign]
    scaler.update = update_when_stepped  # type: ignore[method-assign]
    session.scaled = True


def is_asked_by_scaler() -> bool:
    """Whether the caller of who asks is a scaler's step, which an optimizer cannot see."""
    return sys._getframe(2).f_globals.get("__name__") == GradScaler.__module__
