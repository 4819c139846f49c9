"""The company of a job: its workers are told of it, and a lease server stands ready meanwhile.

The server is a process of its own: the agent may be busy with a checkpoint while a worker waits for
its turn. One that ends is replaced after a moment; meanwhile that of another member serves.
"""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Callable
from typing import Final

from weft.agent.leases.company import ALONE, Company, company_of
from weft.agent.leases.meeting import Meeting
from weft.agent.messages import Accompany, Message
from weft.agent.workers.places import Places
from weft.agent.workers.processes import watch_end
from weft.model.errors import SpecError

log = logging.getLogger(__name__)

REST_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 1.0
LONGEST_REST_SECONDS: Final = 60.0  # of a folder in which none can be


class LeaseKeeper:
    """Of one agent, which `send`s to its workers; only those of its own seat are told."""

    def __init__(self, places: Places, home: int, send: Callable[[int, Message], None]) -> None:
        self.company: Company | None = None
        self._places, self._home, self._send = places, home, send
        self._process: subprocess.Popen[bytes] | None = None
        self._meeting: Meeting | None = None
        self._rest_seconds = REST_SECONDS

    @property
    def pids(self) -> tuple[int, ...]:
        return (self._process.pid,) if self._process else ()

    @property
    def shared(self) -> bool:
        """Whether there is company now."""
        return self.company is not None

    def open(self, company: Company | None, place: Company | None) -> None:
        """Company from the start, or a place where others may come."""
        self.keep(company)
        if place is not None:
            self._attend(place)

    def introduce(self, worker: int) -> None:
        """A worker has come; where there is no company it is told nothing."""
        place = self._places.of(worker)
        if self.company is not None and place is not None and place.seat == self._home:
            self._send(worker, self.company.order)

    def accompany(self, order: Accompany) -> str:
        """Other company, or none any more; why not, if it cannot be."""
        try:
            self.keep(company_of(order))
        except SpecError as error:
            return str(error)
        for worker in self._places.workers_on(self._home):
            self._send(worker, self.company.order if self.company else ALONE)
        return ""

    def keep(self, company: Company | None) -> None:
        """This is the company from now on."""
        if self.company and company and self.company.folder == company.folder:
            self.company = company
            return
        self.company, self._rest_seconds = company, REST_SECONDS
        self._end()
        self._start()

    def _attend(self, place: Company) -> None:
        """Look now and then whether others have come to this place, and take turns with them."""
        meeting = Meeting(place)
        try:
            meeting.enter()
        except OSError as error:
            log.warning("nobody is met in %s: %s", place.folder, error)
            return
        self._meeting = meeting
        self._look()

    def _look(self) -> None:
        if self._meeting is None:
            return
        try:
            wanted = self._meeting.company if self._meeting.others() else None
        except OSError as error:  # the folder is gone, and with it all who might come
            log.warning("nobody is met any more: %s", error)
            wanted = None
        if wanted != self.company:
            self.accompany(wanted.order if wanted else ALONE)
        asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def close(self) -> None:
        self.company = None
        if self._meeting is not None:
            self._meeting.leave()
            self._meeting = None
        self._end()

    def _start(self) -> None:
        if self.company is None or self._process is not None:
            return
        try:
            process = subprocess.Popen(
                (sys.executable, "-m", "weft.agent.leases", str(self.company.folder)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        except OSError as error:  # the job goes on; only nobody is kept waiting for anybody
            log.warning("no lease server can be started: %s", error)
            return
        self._process = process
        watch_end(process.pid, lambda: self._ended(process))

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def _ended(self, process: "subprocess.Popen[bytes]") -> None:
        process.wait()
        if process is self._process:
            self._process = None
            asyncio.get_running_loop().call_later(self._rest_seconds, self._start)
            self._rest_seconds = min(2 * self._rest_seconds, LONGEST_REST_SECONDS)
