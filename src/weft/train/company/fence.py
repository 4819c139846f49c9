"""Where a stage ends: on the host at once, on a device when the device has come there.

A GPU works behind its host. When the host leaves a stage, the device may have most of it before it;
a turn that was given back then would let the other job's work into the middle of this one's. So a
turn on a device ends with a mark in the device's own queue of work, and a thread that looks for it.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final, Protocol

from weft.train.device_clock import DeviceClock

LOOK_SECONDS: Final = 0.0002
MOST_SECONDS: Final = 60.0  # a device that hangs is for the hang watch


class Fence(Protocol):
    """The end of a stage."""

    def behind(self, then: Callable[[], None]) -> None:
        """Do this when the work that was queued so far is over."""
        ...

    def wait(self) -> None:
        """Until everything that was to be done behind a fence is done."""
        ...


class HostFence:
    """The host does the work itself: what it has left is over."""

    def behind(self, then: Callable[[], None]) -> None:
        then()

    def wait(self) -> None:
        """Nothing is left to wait for."""


class DeviceFence:
    """A mark in the device's queue; nobody but a thread of its own waits for it."""

    def __init__(self, device: DeviceClock[Any]) -> None:
        self._device = device
        self._looking = ThreadPoolExecutor(1, thread_name_prefix="weft-fence")
        self._last: Future[None] | None = None

    def behind(self, then: Callable[[], None]) -> None:
        self._last = self._looking.submit(self._look, self._device.mark(), then)

    def wait(self) -> None:
        if self._last is not None:
            wait((self._last,), MOST_SECONDS)

    def _look(self, mark: object, then: Callable[[], None]) -> None:
        deadline = time.monotonic() + MOST_SECONDS
        while not self._device.has_passed(mark) and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
        then()
        self._device.release((mark,))
