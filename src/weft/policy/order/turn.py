"""When an order by service next changes: the moment at which a running job falls behind."""

from weft.model.snapshot import Floats

ROUNDING_SECONDS = 1.0


def next_turn(now: float, key: Floats, rate: Floats) -> float | None:
    """When the first of those who run has had more than somebody who waits; None: never.

    `key` is what jobs are ordered by, and grows at `rate` where they run.
    """
    waits = rate <= 0
    if not waits.any() or waits.all():
        return None
    seconds = (key[waits].min() - key[~waits]) / rate[~waits]
    later = seconds[seconds > 0]
    return float(now + later.min()) + ROUNDING_SECONDS if len(later) else None
