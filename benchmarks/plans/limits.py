"""Limits: how near any sensible form can come to a table, whatever its quantities.

Sensible is: the same plan on the same GPUs is no slower when nodes of its are put together, and no
slower without recomputation. Where two rows say otherwise, a form that foretells the same for both
errs least, and still by their difference over their sum.
"""

from collections.abc import Sequence

from benchmarks.plans.tables import Measured


def least_worst(rows: Sequence[Measured]) -> float:
    """In per cent: the least that the worst error of a sensible form can be."""
    return 100.0 * max(
        (
            (one.seconds - other.seconds) / (one.seconds + other.seconds)
            for one in rows
            for other in rows
            if one.seconds > other.seconds and _no_worse(one, other)
        ),
        default=0.0,
    )


def _no_worse(one: Measured, other: Measured) -> bool:
    """Whether a sensible form finds `one` no slower."""
    if one.gpus != other.gpus or (one.name, other.name) not in _orders(one.name):
        return False
    return put_together(sorted(other.counts), list(one.counts))


def _orders(name: str) -> set[tuple[str, str]]:
    return {(name, name), ("ga", "gc")}


def put_together(parts: list[int], room: list[int]) -> bool:
    """Whether these parts, largest first, fill these rooms exactly."""
    if not parts:
        return not any(room)
    largest, rest = parts[-1], parts[:-1]
    return any(
        put_together(rest, [*room[:place], free - largest, *room[place + 1 :]])
        for place, free in enumerate(room)
        if free >= largest
    )
