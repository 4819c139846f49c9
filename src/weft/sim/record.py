"""What a simulation leaves behind: a line per job, occupancy over time, and who sat where."""

from dataclasses import dataclass, field

from weft.model.ids import JobId, NodeId, TenantId


@dataclass(slots=True)
class JobRecord:
    """One job's life as the world saw it; `waits_seconds` in the order of `CAUSES`."""

    id: JobId
    tenant: TenantId
    gpus: int
    submitted: float
    service_seconds: float
    first_start: float | None = None
    ended: float | None = None
    outcome: str = "active"
    first_nodes: int = 0
    starts: int = 0
    resizes: int = 0
    preemptions: int = 0
    failures: int = 0
    attained_gpu_seconds: float = 0.0
    waits_seconds: tuple[float, ...] = ()

    @property
    def jct_seconds(self) -> float | None:
        return None if self.ended is None else self.ended - self.submitted

    @property
    def start_delay_seconds(self) -> float | None:
        return None if self.first_start is None else self.first_start - self.submitted


@dataclass(frozen=True, slots=True)
class Sitting:
    """A job on a node, for a Gantt chart."""

    job: JobId
    tenant: TenantId
    node: NodeId
    gpus: int
    begin: float
    end: float


@dataclass(slots=True)
class Record:
    """The whole run."""

    recipe: str
    seed: int
    total_gpus: int
    jobs: dict[JobId, JobRecord] = field(default_factory=dict)
    sittings: list[Sitting] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    used_gpus: list[int] = field(default_factory=list)
    waiting_jobs: list[int] = field(default_factory=list)
    waiting_gpus: list[int] = field(default_factory=list)
    events: int = 0
    rounds: int = 0
    end: float = 0.0
    journal_hash: str = ""
