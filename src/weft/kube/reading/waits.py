"""Why jobs wait, as the operator's reports of a namespace tell it, and how old that is.

A job that waits shows what the report says: the same words as in its status, but of a moment ago.
Where there is no report (an older operator, definitions that were not applied, a reader without the
right), the status is all there is, and it is shown as it stands. So it is where a report is old:
whoever leads writes it anew every half minute, and one that does not may be of an earlier version.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from weft.kube.client.errors import Forbidden, NotFound
from weft.kube.names import wait_part, wait_reports_path
from weft.kube.reading.fields import Plain, moment, part
from weft.kube.reading.paging import list_all
from weft.model.reason import ReasonCode
from weft.view.jobs import JobDetail, JobLine, ReasonLine

if TYPE_CHECKING:
    from weft.kube.client.api import Api

OLD = timedelta(minutes=5)
LISTS = {"queued": "Queued", "admitted": "Admitted"}
CODES = {code.slug: code for code in ReasonCode}


@dataclass(frozen=True, slots=True)
class Wait:
    """What a report says of one job."""

    state: str
    reasons: tuple[ReasonLine, ...]
    at: datetime


Waits = Mapping[tuple[str, str], Wait]


async def list_waits(api: "Api", namespace: str | None) -> Waits:
    """Of all jobs of a namespace, or of all, by namespace and name."""
    try:
        found = await list_all(api, wait_reports_path(namespace))
    except (Forbidden, NotFound):
        return {}
    return waits_of(found.items)


def waits_of(reports: Sequence[Plain]) -> Waits:
    """What these say; of two that speak of one job, the younger."""
    waits: dict[tuple[str, str], Wait] = {}
    for report in sorted(reports, key=lambda report: part(report, "status").get("at") or ""):
        namespace = report["metadata"]["namespace"]
        waits |= {(namespace, job): wait for job, wait in _told(part(report, "status")).items()}
    return waits


async def get_wait(api: "Api", namespace: str, job: str) -> Wait | None:
    """Of one job: the first part tells how many there are, and so which one speaks of it."""
    try:
        first = part(await api.get(wait_reports_path(namespace, 0)), "status")
        number = wait_part(job, max(int(first.get("parts") or 1), 1))
        found = first
        if number:
            found = part(await api.get(wait_reports_path(namespace, number)), "status")
    except (Forbidden, NotFound):
        return None
    return _told(found).get(job)


def line_with(line: JobLine, wait: Wait | None) -> JobLine:
    """The line of a job that waits, with what a report says of it."""
    if wait is None or not line.waiting or not _speaks_of(line, wait):
        return line
    first = wait.reasons[0] if wait.reasons else None
    return replace(
        line,
        state=wait.state,
        reason=first.code if first else line.reason,
        message=first.text if first else line.message,
        told_at=wait.at,
    )


def detail_with(detail: JobDetail, wait: Wait | None) -> JobDetail:
    line = line_with(detail.line, wait)
    if wait is None or line is detail.line:
        return detail
    return replace(detail, line=line, reasons=wait.reasons or detail.reasons)


def now() -> datetime:
    return datetime.now(UTC)


def _speaks_of(line: JobLine, wait: Wait) -> bool:
    """A report from before the job was submitted speaks of another one of that name.

    An old one is better than nothing, but not than a status that says why.
    """
    if line.submitted_at is not None and wait.at < line.submitted_at:
        return False
    return not (line.state and line.reason) or now() - wait.at < OLD


def _told(status: Plain) -> dict[str, Wait]:
    at = moment(status.get("at"))
    if at is None:
        return {}
    reasons = [_reason(one) for one in status.get("reasons") or ()]
    return {
        job: Wait(state, tuple(reasons[place] for place in places if place < len(reasons)), at)
        for name, state in LISTS.items()
        for job, places in part(status, name).items()
    }


def _reason(told: Plain) -> ReasonLine:
    """Cause and anchor follow from the code; of one that this version does not know, neither."""
    slug = told.get("code") or ""
    code = CODES.get(slug)
    cause, anchor = (code.cause.label, code.anchor) if code else ("", "")
    return ReasonLine(slug, cause, told.get("text") or "", told.get("remedy") or "", anchor)
