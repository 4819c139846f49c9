"""Training jobs as their owners see them: a line of a list, and one job in full."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from weft.view.company import Company, NoCompany
from weft.view.failures import FailureLine
from weft.view.plans import Considered
from weft.view.queues import QueueLine
from weft.view.states import FINISHED, WAITING
from weft.view.workers import EventLine, WorkerLine


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine:
    """A job in a list. `state` is empty until somebody who decides has looked at the job.

    `namespace` is whose it is: a namespace of a cluster, a user of a machine. `told_at` is when
    what is said of a wait was true, where that is not now.
    """

    namespace: str
    name: str
    uid: str
    version: int
    state: str
    gpus: int
    asked_gpus: str
    queue: str
    priority: int
    progress: str | None
    remaining_seconds: float | None
    reason: str | None
    message: str | None
    nodes: tuple[str, ...]
    ending: bool
    submitted_at: datetime | None
    waiting_since: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    told_at: datetime | None = None

    @property
    def finished(self) -> bool:
        return self.state in FINISHED

    @property
    def waiting(self) -> bool:
        return not self.state or self.state in WAITING

    def waited_seconds(self, now: datetime) -> float:
        """How long the present wait has lasted, or the one before its first start."""
        begun = self.waiting_since
        if begun is None:
            return 0.0
        until = now if self.waiting else self.started_at or self.ended_at or now
        return max(0.0, (until - begun).total_seconds())

    def ran_seconds(self, now: datetime) -> float | None:
        """Since its first start; None where it never did or waits again."""
        if self.started_at is None or self.waiting:
            return None
        return max(0.0, ((self.ended_at or now) - self.started_at).total_seconds())


@dataclass(frozen=True, slots=True)
class JobPage:
    """Jobs of a list, its version, and how many more there are that were not read."""

    jobs: tuple[JobLine, ...]
    version: str
    left: int = 0


@dataclass(frozen=True, slots=True)
class ReasonLine:
    """Why a job waits, as whoever decides wrote it down."""

    code: str
    cause: str
    text: str
    remedy: str
    anchor: str


@dataclass(frozen=True, slots=True)
class SeatLine:
    """What a job holds on one node."""

    node: str
    gpus: int
    cpus: float
    memory_gib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail:
    """One job in full. `spec` is the job file as it was submitted, without its name.

    `failure` is the last one, where it had one and was not well since.
    `company` is with whom it takes turns on its GPUs; `no_company` why it has none and waits.
    `plan` is as what it runs, and as what it could, where plans are chosen.
    """

    line: JobLine
    spec: dict[str, Any]
    reasons: tuple[ReasonLine, ...]
    epoch: int
    seats: tuple[SeatLine, ...]
    work: dict[str, Any]
    metrics: dict[str, float]
    past: dict[str, float]
    conditions: tuple[dict[str, Any], ...]
    failure: FailureLine | None = None
    company: Company | None = None
    no_company: NoCompany | None = None
    plan: Considered | None = None

    @property
    def uid(self) -> str:
        return self.line.uid

    @property
    def version(self) -> int:
        return self.line.version

    @property
    def notes(self) -> tuple[str, ...]:
        """What its world has to say about the job file."""
        noted = (one for one in self.conditions if one.get("type") == "Noted")
        return tuple(str(one.get("message", "")) for one in noted)


@dataclass(frozen=True, slots=True)
class JobPicture:
    """A job with what surrounds it: workers by epoch and rank, events from the oldest on."""

    detail: JobDetail
    workers: tuple[WorkerLine, ...] = ()
    events: tuple[EventLine, ...] = ()


@dataclass(frozen=True, slots=True)
class Growth:
    """What more GPUs would do for a job that runs on some of those it may have.

    `gain` is the share of its present speed that `next_gpus` would add, as far as it has been
    measured; both are None where the job has all that it may have, or nobody knows.
    """

    gpus: int
    most: int
    next_gpus: int | None = None
    gain: float | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """A job, its queue where the reader may see it, and what it would have of more GPUs."""

    detail: JobDetail
    queue: QueueLine | None = None
    growth: Growth | None = None


def nearest(name: str, names: Sequence[str], *, elsewhere: str = "") -> str:
    """A hint that names what was perhaps meant."""
    from difflib import get_close_matches  # noqa: PLC0415 - only whoever mistypes waits for it

    near = get_close_matches(name, names, n=3)
    if near:
        return f"did you mean {' or '.join(near)}?"
    if not names:
        return f"there are no jobs; {elsewhere or 'weft ls --all-namespaces looks everywhere'}"
    there = "is 1 job" if len(names) == 1 else f"are {len(names)} jobs, such as"
    return f"there {there} {', '.join(names[:3])}; see weft ls"
