"""What is on record of one job: an entry of the store, and the notes that belong to it.

An entry holds everything that a daemon needs to go on after it was killed: what was asked and by
whom, the decision that holds, the process that was started for it, what that process has come to,
and what the brain could not know by itself. It is a frozen value; a change makes another.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from weft.api.backend import Origin
from weft.brain.event import Past
from weft.failure.diagnosis import Diagnosis
from weft.failure.written import read, written
from weft.model.capability import Capability
from weft.model.claim import WorkClaim
from weft.model.ids import JobId, NodeId
from weft.model.placement import Placement, Seat
from weft.model.state import State
from weft.spec.counted import work_in_steps

Json = dict[str, Any]
NO_PAST: Final = Past()


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose job it is: the account it runs under, as the kernel told who submitted it."""

    user: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Birth:
    """A process that cannot be mistaken for a later one with the same number."""

    pid: int
    ticks: int
    boot: str


@dataclass(frozen=True, slots=True)
class End:
    """How an incarnation ended, as it was found; `kept` is what a later one can go on from.

    Of one that failed, `lost_gpu_seconds` is what was computed for nothing, and `diagnosis` why.
    """

    outcome: str
    exit_code: int
    why: str
    kept: float = 0.0
    retryable: bool = True
    diagnosis: Diagnosis | None = None
    lost_gpu_seconds: float = 0.0

    def to_json(self) -> Json:
        told = {name: getattr(self, name) for name in self.__slots__}
        return told | {"diagnosis": self.diagnosis and written(self.diagnosis)}

    @classmethod
    def from_json(cls, told: Json) -> "End":
        return cls(**told | {"diagnosis": read(told.get("diagnosis"))})


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the job says that it is; None where it does not say."""

    step: int | None = None
    total: int | None = None
    saved_step: int | None = None
    live: bool | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    save_every_seconds: float | None = None

    @property
    def fraction(self) -> float | None:
        return _share(self.step, self.total)

    def done(self, work: WorkClaim | None) -> float | None:
        """In the unit of the job's work."""
        return _counted(work, self.step, self.total)

    def saved(self, work: WorkClaim | None) -> float | None:
        return _counted(work, self.saved_step, self.total)


NO_PROGRESS: Final = Progress()


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happened to a job, for its history; `gpus` is what it held from then on.

    `failure` is an end that was one, as it is on record.
    """

    at: float
    what: str
    message: str = ""
    epoch: int = 0
    gpus: int = 0
    warning: bool = False
    failure: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One job. `seats` carry their devices; `target` is a resize that is under way.

    `top_seat` is the largest number that a seat of this epoch ever had; `ranks` tells under which
    rank each worker of each epoch trained. `party` names those whom it joined on their slots, and
    `offers` is as what its program can be run while it trains, as it has told in this epoch.
    """

    uid: str
    owner: Owner
    name: str
    spec: Json
    origin: Origin
    submitted_at: float
    state: State = State.QUEUED
    version: int = 0
    cancelled: bool = False
    epoch: int = 0
    serial: int = 0
    seats: tuple[Seat, ...] = ()
    target: tuple[Seat, ...] = ()
    target_serial: int = 0
    top_seat: int = 0
    party: str = ""
    plan: str = ""  # as its agent was told, or knows it
    target_plan: str = ""
    offers: tuple[Capability, ...] = ()
    agent: Birth | None = None
    end: End | None = None
    progress: Progress = NO_PROGRESS
    ranks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    work_saved: float = 0.0
    past: Past = NO_PAST
    reasons: tuple[Json, ...] = ()
    message: str = ""
    exit_code: int | None = None
    waiting_since: float | None = None
    started_at: float | None = None
    stopping_since: float | None = None
    ended_at: float | None = None

    @property
    def id(self) -> JobId:
        """The name that the brain and people know: no two active jobs share it."""
        return JobId(f"{self.owner.user}/{self.name}")

    @property
    def held(self) -> tuple[Seat, ...]:
        """Every seat on which processes may run: those before a resize and those after it."""
        if self.end is not None or self.state.final:
            return ()
        return self._both_sides().seats

    @property
    def devices(self) -> frozenset[int]:
        return frozenset(device for seat in self.held for device in seat.devices)

    @property
    def party_name(self) -> str:
        """Of those who take turns with it: whom it joined, or who joined it."""
        return self.party or f"{self.id}/{self.epoch}"

    @property
    def placement(self) -> Placement | None:
        """What a brain is to believe: with a resize under way, both sides of it."""
        both = self._both_sides()
        return both if both.seats else None

    @property
    def width(self) -> int:
        return sum(seat.gpus for seat in self.held)

    def with_changes(self, **changes: Any) -> "Entry":
        return replace(self, **changes)

    def _both_sides(self) -> Placement:
        return Placement(self.seats).joined_with(Placement(self.target))


def slots_held(entries: Iterable[Entry]) -> int:
    """Of all of them together; slots of those who take turns count once."""
    return len({device for entry in entries for device in entry.devices})


def seats_to_json(seats: tuple[Seat, ...]) -> list[Json]:
    return [
        {
            "number": seat.number,
            "node": seat.node,
            "gpus": seat.gpus,
            "cpus": seat.cpus,
            "memory_gib": seat.memory_gib,
            "devices": list(seat.devices),
        }
        for seat in seats
    ]


def seats_from_json(written: list[Json]) -> tuple[Seat, ...]:
    return tuple(
        Seat(
            NodeId(seat["node"]),
            seat["gpus"],
            seat["cpus"],
            seat["memory_gib"],
            tuple(seat["devices"]),
            seat["number"],
        )
        for seat in written
    )


def _share(step: int | None, total: int | None) -> float | None:
    """Steps are counted from 0: after step 9 of 10 all is done."""
    if step is None or not total or total < 0:
        return None
    return min(max((step + 1) / total, 0.0), 1.0)


def _counted(work: WorkClaim | None, step: int | None, total: int | None) -> float | None:
    if step is None:
        return None
    done = step + 1 if not total or total < 0 else min(step + 1, total)
    return work_in_steps(work, float(done), total)
