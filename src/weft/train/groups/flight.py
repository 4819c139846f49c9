"""Operations of a group that are under way, and how a thread waits for one and can be freed."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from weft.model.errors import WorldError

LOOK_SECONDS: Final = 0.0002


class Pending(Protocol):
    """Something that was begun and can be waited for."""

    def wait(self) -> object: ...


class Done:
    """What needs no waiting."""

    def wait(self) -> None:
        return None


DONE: Final = Done()


class Flight:
    """An operation under way; it lets go of torch's work as soon as that has ended, well or not.

    A work keeps the connections of its group open, and an error keeps every frame that it passed
    through. Were a work or a backend a local of such a frame, a group could be closed and yet not
    be gone. So what torch raises goes no further: it is told in an error of our own.

    A collective of gloo is waited for by a lock that its end releases, or the cutting of its group:
    gloo forgets who waits for a message of which only a part has come when its connection ends.

    The end of a work is no proof of its success: an aborted communicator completes what was under
    way on it, and an aborted message makes `wait` return false. Neither counts.
    """

    def __init__(
        self,
        work: Any,  # noqa: ANN401
        ended: Callable[["Flight"], None],
        landing: "Landing | Event | None",
    ) -> None:
        self._work, self._ended, self._landing = work, ended, landing
        self.stuck = False

    def wait(self) -> None:
        work, failure = self._work, ""
        if work is None:
            raise WorldError("the group was closed")
        landing = self._landing
        try:
            if landing is not None and not landing.awaited():
                self.stuck, failure = True, "the group was cut"
            elif not work.wait():
                failure = "the operation was aborted"
        except RuntimeError as error:
            failure = str(error) or type(error).__name__
        finally:
            work = None
            self.drop()
        if failure:
            raise WorldError(failure)

    def promise(self, tensor: Tensor) -> torch.futures.Future[list[Tensor]]:
        """For code of torch's that waits: kept when the sum is there, has failed or was cut."""
        landing = self._landing or Landing.past()
        return landing.promise(tensor)

    def cut(self) -> None:
        """Whoever waits need not wait any longer."""
        landing = self._landing
        if isinstance(landing, Landing):
            landing.give_up()

    def drop(self) -> None:
        self._work = self._landing = None
        self._ended(self)


class Landing:
    """The end of an operation, or of all patience with it: whichever comes first."""

    def __init__(self) -> None:
        self._landed = self._is_over = False
        self._lock = threading.Lock()
        self._lock.acquire()
        self._promises: list[tuple[torch.futures.Future[list[Tensor]], Tensor]] = []

    @classmethod
    def of(cls, work: Any) -> "Landing | None":  # noqa: ANN401
        """A message between two has none."""
        landing = cls()
        try:
            work.get_future().add_done_callback(lambda _: landing.land())
        except RuntimeError:
            return None
        return landing

    @classmethod
    def past(cls) -> "Landing":
        landing = cls()
        landing.give_up()
        return landing

    def promise(self, tensor: Tensor) -> torch.futures.Future[list[Tensor]]:
        promised: torch.futures.Future[list[Tensor]] = torch.futures.Future()
        self._promises.append((promised, tensor))
        if self._is_over:
            self._keep_promises()
        return promised

    def awaited(self) -> bool:
        """Wait; whether it has landed."""
        self._lock.acquire()
        return self._landed

    def land(self) -> None:
        self._landed = True
        self.give_up()

    def give_up(self) -> None:
        self._is_over = True
        self._keep_promises()
        with suppress(RuntimeError):  # somebody was faster
            self._lock.release()

    def _keep_promises(self) -> None:
        """Each once, by whichever thread takes it from the list."""
        with suppress(IndexError):
            while True:
                promised, tensor = self._promises.pop()
                promised.set_result([tensor])


class Event:
    """The end of an operation on a device, looked for from here: a stream's wait is not ours.

    Only when it has come is the sum there, and only then may the worker vote for it. An abort of
    the communicator completes its work too. The group is cut before it is aborted, so a completion
    counts only if the group is not cut once the completion was seen.
    """

    def __init__(self, work: Any, is_cut: Callable[[], bool]) -> None:  # noqa: ANN401
        self._work, self._is_cut = work, is_cut

    def awaited(self) -> bool:
        while not self._is_cut() and not self._work.is_completed():
            time.sleep(LOOK_SECONDS)
        self._work = None
        return not self._is_cut()

    def promise(self, tensor: Tensor) -> torch.futures.Future[list[Tensor]]:
        """The device's own: it lets a stream wait, as code of torch's expects."""
        promised: torch.futures.Future[list[Tensor]] = self._work.get_future()
        return promised


class Staged:
    """A sum, between processors, of what lies on a device."""

    def __init__(self, tensor: Tensor, copy: Tensor, flight: Pending) -> None:
        self._tensor, self._copy, self._flight = tensor, copy, flight

    def wait(self) -> None:
        self._flight.wait()
        self._tensor.copy_(self._copy)
