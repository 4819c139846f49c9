"""Leave out of a failing input what the failure does not need."""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def reduced(
    items: Sequence[T], still_fails: Callable[[Sequence[T]], bool], until: float
) -> list[T]:
    """A shorter sequence that still fails; none of its single items can be left out.

    Large pieces are tried first, then smaller ones. `until` is a reading of the monotonic clock.
    """
    kept = list(items)
    size = max(len(kept) // 2, 1)
    while kept and time.monotonic() < until:
        before = len(kept)
        kept = _without_pieces(kept, size, still_fails, until)
        if size == 1 and len(kept) == before:
            break
        size = max(size // 2, 1)
    return kept


def _without_pieces(
    kept: list[T], size: int, still_fails: Callable[[Sequence[T]], bool], until: float
) -> list[T]:
    start = 0
    while start < len(kept) and time.monotonic() < until:
        shorter = kept[:start] + kept[start + size :]
        if still_fails(shorter):
            kept = shorter
        else:
            start += size
    return kept
