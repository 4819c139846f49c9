"""Who works for a job, and what happened to it lately."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLine:
    """A worker: a pod or a process. `phase` is its own, or the reason that it does not run."""

    pod: str
    uid: str
    version: int
    epoch: int
    rank: int
    node: str | None
    phase: str
    started: bool
    exit_code: int | None
    message: str | None
    created_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLine:
    """Something that happened to a job, as its world recorded it."""

    at: datetime | None
    reason: str
    message: str
    times: int
    warning: bool
