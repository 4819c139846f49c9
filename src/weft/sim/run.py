"""One incarnation of a job in the simulated world: real processes, if this were a real one."""

from dataclasses import replace

from weft.brain.event import Event, Fed, JobReported, Phase, Verb, WorkerLost
from weft.model.host import PerGpu
from weft.model.ids import PartyId
from weft.model.job import Job
from weft.model.placement import Placement, Seat
from weft.model.plan import AS_WRITTEN
from weft.sim.moment import InFlight, Order


class Run:
    """Work grows at the speed that the placement gives; a resize changes both at one instant."""

    __slots__ = (
        "begun",
        "broken",
        "change_order",
        "done",
        "end_order",
        "epoch",
        "fed",
        "finish_at",
        "foreseen",
        "in_company",
        "job",
        "mark",
        "news",
        "news_order",
        "next_seat",
        "paced",
        "paced_done",
        "party",
        "phase",
        "placement",
        "plan",
        "ready_at",
        "resize_answer",
        "saved",
        "seated",
        "serial",
        "speed",
        "stop_verb",
        "target",
        "told",
        "version",
    )

    def __init__(self, job: Job, epoch: int, placement: Placement, saved: float, at: float) -> None:
        self.job = job
        self.epoch = epoch
        self.placement = placement
        self.plan = AS_WRITTEN
        self.party = PartyId(f"{job.id}/{epoch}")
        self.phase = Phase.STARTING
        self.done = saved
        self.saved = saved
        self.speed = 0.0
        self.mark = 0.0
        self.begun = 0.0
        self.paced = 0.0
        self.paced_done = saved
        self.told = 0.0
        self.seated = dict.fromkeys(placement.numbers, at)
        self.next_seat = max(placement.numbers) + 1
        self.version = 0
        self.foreseen = 0.0
        self.in_company = False
        self.news = 0
        self.change_order = self.end_order = self.news_order = 0
        self.ready_at = at
        self.finish_at = float("inf")
        self.broken = False
        self.stop_verb = Verb.STOP
        self.serial = 0
        self.target: Placement | None = None
        self.resize_answer: Event | None = None
        self.fed = Fed()

    @classmethod
    def resumed(cls, job: Job, found: InFlight, at: float) -> "Run":
        """One that was found in flight; how fast it is is still to be said."""
        run = cls(job, found.epoch, found.placement, found.work_done, at)
        run.saved, run.begun, run.mark = found.saved, found.begun, found.since
        run.paced = found.since
        run.plan, run.phase, run.ready_at = found.plan, found.phase, found.ready_at
        run.party = found.party or run.party
        run.target, run.serial, run.fed = found.target, found.serial, found.fed
        run.next_seat = max(found.next_seat, max(run.numbers) + 1)
        run.stop_verb = found.stop_verb
        run.foreseen, run.version = found.foreseen, found.version
        run.told, run.news = found.told, found.news
        run.change_order, run.end_order, run.news_order = found.order
        return run

    def in_flight(self) -> InFlight:
        """What its world knows of it, its truth aside."""
        return InFlight(
            job=self.job.id,
            epoch=self.epoch,
            phase=self.phase,
            placement=self.placement,
            plan=self.plan,
            party=self.party,
            work_done=self.done,
            since=self.mark,
            units_per_second=self.speed,
            saved=self.saved,
            begun=self.begun,
            ready_at=self.ready_at,
            target=self.target,
            serial=self.serial,
            next_seat=self.next_seat,
            fed=self.fed,
            stop_verb=self.stop_verb,
            foreseen=self.foreseen,
            version=self.version,
            told=self.told,
            news=self.news,
            order=Order(self.change_order, self.end_order, self.news_order),
        )

    @property
    def live(self) -> bool:
        """Whether it can be resized while it trains: in this world, whoever has a range can.

        But for those whose plan follows their width: for another one they start anew.
        """
        return self.job.width.elastic and self.job.truth.steps is None

    @property
    def tunable(self) -> bool:
        """Whether its cores can be changed while it trains: in this world, whoever minds them."""
        return self.job.truth.host is not None

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
        interval = self.job.truth.checkpoint_interval_seconds
        if self.phase is not Phase.RUNNING or interval <= 0:
            return self.saved
        whole = int((now - self.begun) / interval) * interval - (self.paced - self.begun)
        if whole < 0:
            return self.saved
        return min(self.paced_done + self.speed * whole, self.progress(now))

    def saves_between(self, begin: float, end: float) -> bool:
        """Whether a checkpoint comes due in that time."""
        interval = self.job.truth.checkpoint_interval_seconds
        if interval <= 0:
            return False
        return int((end - self.begun) / interval) > int((begin - self.begun) / interval)

    def kept(self, now: float) -> float:
        """Work that a later incarnation goes on from, if this one is told to stop now."""
        return self.progress(now) if self.job.truth.saves_on_demand else self.checkpointed(now)

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
            party=self.party,
        )

    @property
    def stuck(self) -> bool:
        """Whether processes that are left are too few to go on."""
        return self.broken and self.phase is Phase.RUNNING

    def too_few(self, now: float) -> WorkerLost:
        """What they say of it."""
        return WorkerLost(now, self.job.id, self.epoch, self.placement.nodes[0])

    def adoptable(self, now: float) -> JobReported:
        """For a brain that knows nothing: all that it may have processes on, in a resize both."""
        return replace(
            self.seen(now), placement=Placement(self.seats), serial=self.serial, plan=self.plan
        )

    def begin(self, now: float) -> None:
        self.mark = self.begun = self.paced = now

    def halt(self, verb: Verb, now: float) -> None:
        """It has been told to stop and makes no more progress."""
        self.phase, self.stop_verb = Phase.STOPPING, verb
        self.speed, self.mark = 0.0, now
        self.version += 1

    def take_placement(self, placement: Placement, now: float) -> None:
        """From now on it has these seats; how fast it is with them is still to be said."""
        self.saved = self.checkpointed(now)
        self.done = self.paced_done = self.progress(now)
        self.mark = self.paced = now
        self.placement = placement
        for number in placement.numbers:
            self.seated.setdefault(number, now)
