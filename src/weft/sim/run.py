"""One incarnation of a job in the simulated world: real processes, if this were a real one."""

from dataclasses import replace

from weft.brain.event import Event, Fed, JobReported, Phase, Verb
from weft.model.host import PerGpu
from weft.model.job import Job
from weft.model.placement import Placement, Seat


class Run:
    """Work grows at the speed that the placement gives; a resize changes both at one instant."""

    __slots__ = (
        "begun",
        "broken",
        "done",
        "epoch",
        "fed",
        "finish_at",
        "job",
        "mark",
        "next_seat",
        "paced",
        "paced_done",
        "phase",
        "placement",
        "resize_answer",
        "saved",
        "seated",
        "serial",
        "speed",
        "stop_verb",
        "target",
        "version",
    )

    def __init__(self, job: Job, epoch: int, placement: Placement, saved: float, at: float) -> None:
        self.job = job
        self.epoch = epoch
        self.placement = placement
        self.phase = Phase.STARTING
        self.done = saved
        self.saved = saved
        self.speed = 0.0
        self.mark = 0.0
        self.begun = 0.0
        self.paced = 0.0
        self.paced_done = saved
        self.seated = dict.fromkeys(placement.numbers, at)
        self.next_seat = max(placement.numbers) + 1
        self.version = 0
        self.finish_at = float("inf")
        self.broken = False
        self.stop_verb = Verb.STOP
        self.serial = 0
        self.target: Placement | None = None
        self.resize_answer: Event | None = None
        self.fed = Fed()

    @property
    def live(self) -> bool:
        """Whether it can be resized while it trains: in this world, whoever has a range can."""
        return self.job.width.elastic

    @property
    def tunable(self) -> bool:
        """Whether its cores can be changed while it trains: in this world, whoever minds them."""
        return self.job.host is not None

    @property
    def more_per_gpu(self) -> PerGpu:
        return PerGpu(self.fed.cores, self.fed.memory_gib)

    @property
    def seats(self) -> tuple[Seat, ...]:
        """All that it may have processes on: also seats that a resize under way has taken."""
        if self.target is None:
            return self.placement.seats
        return self.placement.joined_with(self.target).seats

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset(seat.number for seat in self.seats)

    def progress(self, now: float) -> float:
        return min(self.done + self.speed * max(now - self.mark, 0.0), self.job.work.amount)

    def checkpointed(self, now: float) -> float:
        """Work at the last checkpoint: what a crash leaves."""
        interval = self.job.checkpoint_interval_seconds
        if self.phase is not Phase.RUNNING or interval <= 0:
            return self.saved
        whole = int((now - self.begun) / interval) * interval - (self.paced - self.begun)
        if whole < 0:
            return self.saved
        return min(self.paced_done + self.speed * whole, self.progress(now))

    def seen(self, now: float) -> JobReported:
        """What a look at it shows; a resize counts once it has been answered."""
        return JobReported(
            now,
            self.job.id,
            self.epoch,
            self.phase,
            self.progress(now),
            self.placement,
            serial=self.serial if self.target is None else self.serial - 1,
            next_seat=self.next_seat,
            live=self.live or None,
            tunable=self.tunable or None,
            fed=self.fed if self.tunable else None,
        )

    def adoptable(self, now: float) -> JobReported:
        """For a brain that knows nothing: all that it may have processes on, in a resize both."""
        return replace(self.seen(now), placement=Placement(self.seats), serial=self.serial)

    def begin(self, now: float) -> None:
        self.mark = self.begun = self.paced = now

    def take_placement(self, placement: Placement, now: float) -> None:
        """From now on it has these seats; how fast it is with them is still to be said."""
        self.saved = self.checkpointed(now)
        self.done = self.paced_done = self.progress(now)
        self.mark = self.paced = now
        self.placement = placement
        for number in placement.numbers:
            self.seated.setdefault(number, now)
