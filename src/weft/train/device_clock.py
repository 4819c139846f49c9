"""A device's own clock: how long its work took, read without waiting for it.

A GPU works behind the loop's back, so the loop's clock says nothing of it. Marks are put into the
device's queue of work; when it has passed two of them it tells the time between. The CPU needs none
of this, and tests use a clock of their own.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol, Self, TypeVar

Mark = TypeVar("Mark")


class DeviceClock(Protocol[Mark]):
    """Marks in a device's queue of work, read once it has passed them; nothing here waits."""

    def mark(self) -> Mark:
        """Put a mark behind the work queued so far."""
        ...

    def has_passed(self, mark: Mark) -> bool: ...

    def seconds_between(self, first: Mark, second: Mark) -> float:
        """Of two marks that it has passed."""
        ...

    def release(self, marks: Iterable[Mark]) -> None:
        """These are not needed any more."""
        ...

    def peak_bytes(self) -> int:
        """The most memory of the device that this process has held."""
        ...


class CudaEvent(Protocol):
    """The part of `torch.cuda.Event` that is used here."""

    def record(self) -> None: ...

    def query(self) -> bool: ...

    def elapsed_time(self, end_event: Self, /) -> float: ...


class CudaClock:
    """Marks are events on the current CUDA stream, used again once they were read."""

    def __init__(self, make_event: Callable[[], CudaEvent] | None = None) -> None:
        self._make_event = make_event or (lambda: _cuda().Event(enable_timing=True))
        self._spare: list[CudaEvent] = []

    def mark(self) -> CudaEvent:
        event = self._spare.pop() if self._spare else self._make_event()
        event.record()
        return event

    def has_passed(self, mark: CudaEvent) -> bool:
        return mark.query()

    def seconds_between(self, first: CudaEvent, second: CudaEvent) -> float:
        return first.elapsed_time(second) / 1e3

    def release(self, marks: Iterable[CudaEvent]) -> None:
        self._spare.extend(marks)

    def peak_bytes(self) -> int:
        return int(_cuda().max_memory_allocated())


def _cuda() -> Any:  # noqa: ANN401
    """Loaded when a clock for it is used: without a GPU this module does not need torch."""
    import torch

    return torch.cuda
