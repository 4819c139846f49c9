"""How much work a job has in all: what its owner says, else what its loss says, else its past.

The sources are asked in that order, and the answer says which it was, so that its owner can be
told. Where none knows, nobody pretends: the answer is None, and policies that need no lengths
have that much more to do.
"""

from weft.perf.loss import NO_LOSSES, Goal, Losses, total_steps
from weft.perf.precedent import total_like
from weft.perf.total import Source, Total

VAGUE = 4.0
"""A loss whose high end is so many times its low end says less than earlier runs do."""


def total_work(
    *,
    stated: float | None = None,
    losses: Losses = NO_LOSSES,
    goal: Goal | None = None,
    earlier: tuple[float, ...] = (),
    done: float = 0.0,
) -> Total | None:
    """The total of one job, in its own unit.

    `stated` is what its owner or its script says, `losses` what has been seen of its loss by the
    work done, `goal` the loss at which it is to end, `earlier` what runs of the same tenant's
    program have needed, and `done` what this one has behind it.
    """
    if stated is not None:
        return Total(stated, stated, stated, Source.STATED)
    by_loss = None if goal is None else total_steps(losses, goal)
    if by_loss is not None and by_loss.high <= VAGUE * by_loss.low:
        return by_loss
    return total_like(earlier, done) or by_loss
