"""What a command asks of a world, whichever it is.

The questions are those of an API's backend. What a world cannot do at all it leaves out of its
answers; what the reader may not see it says so about on standard error.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Protocol

from weft.api.backend import JobKey, Selection
from weft.model.errors import SpecError
from weft.view.failures import FailurePage
from weft.view.health import Finding
from weft.view.jobs import JobDetail, JobLine, JobPage, JobPicture, Standing
from weft.view.logs import LogLine, Which
from weft.view.node_page import NodePage
from weft.view.queues import QueueLine
from weft.view.use import Use

Emit = Callable[[LogLine], None]


class World(Protocol):
    """A world that is connected. `namespace` is whose jobs are meant where nothing is said."""

    @property
    def title(self) -> str:
        """Which one it is, in a few words."""
        ...

    @property
    def namespace(self) -> str: ...

    @property
    def whose(self) -> str:
        """What a namespace is here: a namespace, or a user."""
        ...

    def document(self, spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        """The job exactly as it would be sent."""
        ...

    async def submit(self, spec: Mapping[str, Any], name: str, *, dry_run: bool) -> JobDetail: ...

    async def jobs(self, wanted: Selection) -> JobPage: ...

    def watch_jobs(self, wanted: Selection) -> AsyncGenerator[JobPage, None]:
        """The list now and after each change."""
        ...

    async def job(self, key: JobKey) -> JobPicture: ...

    async def detail(self, key: JobKey) -> JobDetail:
        """The same without what surrounds it."""
        ...

    async def why(self, key: JobKey) -> Standing: ...

    async def cancel(self, key: JobKey, *, dry_run: bool) -> JobLine: ...

    async def retry(self, key: JobKey) -> JobLine:
        """Have a job that failed or was cancelled wait once more."""
        ...

    def logs(self, key: JobKey, which: Which) -> AsyncGenerator[LogLine, None]:
        """What is there now; an error where there can be nothing."""
        ...

    async def follow_logs(self, key: JobKey, which: Which, emit: Emit) -> JobDetail | None:
        """Hand on what is printed until the job has ended; the job then, None if deleted."""
        ...

    def changes(self, key: JobKey) -> AsyncGenerator[JobDetail | None, None]:
        """The job now and after each change, until it is deleted: then None, and no more."""
        ...

    async def nodes(self) -> NodePage: ...

    async def failures(self, namespace: str | None, days: float) -> FailurePage:
        """Failed tries of the last days: of one namespace, or of all that the reader may see."""
        ...

    async def queues(self) -> tuple[QueueLine, ...]: ...

    async def visible_queues(self) -> tuple[QueueLine, ...] | None:
        """The same; None where the reader may not see them."""
        ...

    def watch_queues(self) -> AsyncGenerator[tuple[QueueLine, ...], None]: ...

    async def top(self, namespace: str | None) -> Use:
        """How full it is: the jobs of one namespace, or of all that the reader may see."""
        ...

    def watch_top(self, namespace: str | None) -> AsyncGenerator[Use, None]: ...

    async def health(self, operator_namespace: str | None) -> tuple[Finding, ...]: ...


def located(job: str, world: World) -> JobKey:
    """The job that `name` or `namespace/name` means there."""
    namespace, slash, name = job.rpartition("/")
    if "/" in namespace or not name.strip() or (slash and not namespace):
        raise SpecError(f"'{job}' is no job", hint=f"write NAME or {world.whose.upper()}/NAME")
    return JobKey(namespace or world.namespace, name)
