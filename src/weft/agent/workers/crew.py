"""The workers of a job, wherever they run: here, or on a seat that a follower looks after.

The coordinator asks for a worker; the crew finds it a place. If there is none yet, because somebody
who was let go has not ended or its seat has not come, the worker waits for it. Whoever speaks of a
worker's end, the kernel or a follower, it comes out here, once.
"""

from collections.abc import Callable
from dataclasses import asdict
from signal import SIGKILL

from weft.agent.messages import Kill, Message, Start
from weft.agent.plan import REPLICATED, Plan
from weft.agent.workers.places import HEAD_SEAT, Place, Places, Seat
from weft.agent.workers.processes import Processes
from weft.agent.workers.stacks import STACKS

Order = Callable[[int, Message], None]


class Crew:
    """All workers that were asked for and have not ended."""

    def __init__(
        self,
        places: Places,
        processes: Processes,
        order: Order,
        ended: Callable[[int, int], None],
        started: Callable[[int, int], None],
        *,
        home: int = HEAD_SEAT,
    ) -> None:
        self.places, self.processes, self.home = places, processes, home
        self.pids: dict[int, int] = {}
        self.devices: tuple[int, ...] = ()  # that a command sees which starts its own processes
        self._order, self._ended, self._started = order, ended, started
        self._waiting: dict[int, tuple[int, int, Plan]] = {}

    @property
    def running(self) -> tuple[int, ...]:
        return self.places.workers

    def open(self, seat: Seat) -> None:
        """There is a seat, or it has other room than before: who waits for a place may get one."""
        self.places.open(seat)
        self._fill()

    def start(self, worker: int, rank: int, width: int, plan: Plan = REPLICATED) -> None:
        """As soon as there is a place."""
        self._waiting[worker] = (rank, width, plan)
        self._fill()

    def take_stacks(self, worker: int) -> None:
        """Of one that runs."""
        if worker not in self._waiting:
            self.signal(worker, STACKS)

    def signal(self, worker: int, number: int) -> None:
        if self._waiting.pop(worker, None) is not None:
            self._ended(worker, -number)
            return
        place = self.places.of(worker)
        if place is None:
            return
        if place.seat == self.home:
            self.processes.signal(worker, number)
        else:
            self._order(place.seat, Kill(worker, number))

    def inherit(self, worker: int, seat: int, index: int, pid: int, plan: Plan) -> None:
        """It was started for an earlier head, and stands there."""
        self.places.hold(worker, Place(seat, index), str(plan))
        self.pids[worker] = pid

    def has_started(self, worker: int, pid: int) -> None:
        """Told by whoever started it."""
        if self.places.of(worker) is not None:
            self.pids[worker] = pid
            self._started(worker, pid)

    def has_ended(self, worker: int, code: int) -> None:
        """Told by the kernel, or by a follower."""
        if self.places.of(worker) is None:
            return
        self.places.release(worker)
        self._ended(worker, code)
        self._fill()

    def lose(self, seat: int) -> None:
        """A seat is out of reach: what ran there counts as killed."""
        for worker in self.places.workers_on(seat):
            self.has_ended(worker, -SIGKILL)

    def _fill(self) -> None:
        for worker in list(self._waiting):
            place = self.places.take(worker, str(self._waiting[worker][-1]))
            if place is None:
                return
            rank, width, plan = self._waiting.pop(worker)
            standing = self.places.standing(worker, rank, width)
            if place.seat != self.home:
                start = Start(worker, **asdict(standing), index=place.index, plan=str(plan))
                self._order(place.seat, start)
                continue
            devices = self.devices if place.device is None else (place.device,)
            self.processes.start(worker, standing, devices, plan)
