"""What a world must be able to answer, to stand behind the HTTP API.

Who asks is known before any of this is called, and so is whether they may: the routes refuse what
is somebody else's. A backend gets `who` all the same, because a job runs as its owner, and because
a cluster will ask its own authorities.

Jobs are named per owner: a user of a machine, a namespace of a cluster. Methods raise the errors of
`weft.api.errors` and `weft.model.errors`; everything else that escapes is answered as a defect.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

from weft.view.failures import FailurePage
from weft.view.health import Finding
from weft.view.jobs import JobDetail, JobLine, JobPage, JobPicture, Standing
from weft.view.logs import LogLine, Which
from weft.view.node_page import NodePage
from weft.view.queues import QueueLine
from weft.view.use import Use


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks, as the kernel says. An administrator may do with any job what its owner may."""

    uid: int
    user: str
    admin: bool = False

    def may_open(self, owner: str) -> bool:
        """Whether the jobs of that owner are theirs to look into and to end."""
        return self.admin or self.user == owner


@dataclass(frozen=True, slots=True)
class JobKey:
    """One job: names are unique for each owner."""

    owner: str
    name: str

    def __str__(self) -> str:
        return f"{self.owner}/{self.name}"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs of the list: of this owner (None: of all), in these states (none: any).

    The empty state is that of a job that nobody has looked at yet. `most` is how many lines are
    wanted (None: all); `JobPage.left` tells how many were not sent.
    """

    owner: str | None = None
    states: frozenset[str] = frozenset()
    queue: str | None = None
    most: int | None = None


# Variables of the shell that a job comes from which say what its command means there.
CARRIED: Final = (
    *("PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "LD_LIBRARY_PATH"),
    *("LANG", "LC_ALL"),
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a job was submitted: its folder, and those of `CARRIED` that were set there.

    What the job file says goes before it. A world whose jobs do not run there has no use for it.
    """

    workdir: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


class Farewell(StrEnum):
    """What becomes of running jobs when the world is told to stop."""

    DRAIN = "drain"  # they save and stop, and go on when the world comes back
    KILL = "kill"  # they stop at once, and go on from what they saved last
    KEEP = "keep"  # they train on without anybody; the world adopts them when it comes back


class Backend(Protocol):
    """A world behind the API."""

    async def submit(
        self, who: Identity, spec: Mapping[str, Any], name: str, *, origin: Origin, dry_run: bool
    ) -> JobDetail:
        """Take the job in, owned by who asks; with `dry_run` only say what it would be.

        `spec` has been checked as a job file: it is what `JobFile.spec` gives. A name in use is
        `Taken`, unless that job has ended and the world lets names be used again.
        """
        ...

    async def jobs(self, who: Identity, wanted: Selection) -> JobPage:
        """Lines of the list, in any order."""
        ...

    async def job(self, who: Identity, job: JobKey) -> JobPicture:
        """One job in full; `NoSuchJob` where there is none."""
        ...

    async def why(self, who: Identity, job: JobKey) -> Standing:
        """The job with its reasons, and its queue."""
        ...

    async def cancel(self, who: Identity, job: JobKey, *, dry_run: bool) -> JobLine:
        """Ask for its end and tell how it stands; one that has ended is left as it is."""
        ...

    async def retry(self, who: Identity, job: JobKey) -> JobLine:
        """Have a job that failed or was cancelled wait once more; it goes on from what it saved."""
        ...

    def logs(
        self, who: Identity, job: JobKey, which: Which, *, follow: bool
    ) -> AsyncIterator[LogLine]:
        """What is there; with `follow` also what comes, until the job has ended.

        `NoSuchJob` is raised by the first step, before any line. The iterator is closed when the
        reader leaves.
        """
        ...

    def changes(self, who: Identity, job: JobKey) -> AsyncIterator[JobDetail | None]:
        """The job now and after each change, until it is deleted: then None, and no more.

        A reader that is slow may miss what lay between two changes, never the last.
        """
        ...

    def news(self, who: Identity) -> AsyncIterator[int]:
        """A number now, and another one whenever jobs, queues or nodes look otherwise."""
        ...

    async def nodes(self, who: Identity) -> NodePage: ...

    async def failures(self, who: Identity, owner: str | None, days: float) -> FailurePage:
        """Failed tries of the last days, of this owner or of all, the latest first."""
        ...

    async def queues(self, who: Identity) -> tuple[QueueLine, ...]: ...

    async def top(self, who: Identity, owner: str | None) -> Use:
        """How full the world is; the jobs of this owner, or of all."""
        ...

    async def health(self, who: Identity) -> tuple[Finding, ...]:
        """The diagnosis; a check that cannot be made is a finding too."""
        ...

    async def stop(self, who: Identity, farewell: Farewell) -> None:
        """Begin to stop and come back at once: the answer must still be sent."""
        ...
