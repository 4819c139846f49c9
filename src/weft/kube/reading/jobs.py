"""Training jobs, read from a cluster: a list of them, and one job in full."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from weft.kube.client.errors import Forbidden, NotFound
from weft.kube.names import CANCEL_ANNOTATION, jobs_path
from weft.kube.reading.failures import last_failure
from weft.kube.reading.fields import Plain, condition, moment, part
from weft.kube.reading.following import kept_up
from weft.kube.reading.paging import PAGE, list_all
from weft.kube.reading.waits import Waits, detail_with, get_wait, line_with, list_waits
from weft.kube.seat_runs import seats_of
from weft.model.errors import UnknownName
from weft.view.company import Company, Member, NoCompany
from weft.view.jobs import JobDetail, JobLine, JobPage, ReasonLine, SeatLine, nearest
from weft.view.plans import Alternative, Considered
from weft.view.states import HOLDING, STATES, WAITING

if TYPE_CHECKING:
    from weft.kube.client.api import Api


async def list_jobs(
    api: "Api",
    namespace: str | None,
    *,
    states: Collection[str] = (),
    queue: str | None = None,
    most: int | None = None,
) -> JobPage:
    """Jobs of a namespace, or of all; the server selects, so that only those are sent.

    What waits is told of by a report, which may know of a job whose status says nothing yet. So a
    job without a state is read along with those that wait, and left out if it does not fit.
    """
    waits, found = await asyncio.gather(
        list_waits(api, namespace),
        list_all(api, jobs_path(namespace), asked_for(states, queue), most=most),
    )
    lines = fitting(map(job_line, found.items), waits, states)
    return JobPage(lines, found.version, found.left)


def asked_for(states: Collection[str] = (), queue: str | None = None) -> dict[str, str]:
    """Parameters that select at least these."""
    return selecting({*states, ""} if WAITING & {*states} else states, queue)


def fitting(lines: Iterable[JobLine], waits: Waits, states: Collection[str]) -> tuple[JobLine, ...]:
    """The lines with what reports say of them, and of these the ones in such a state."""
    told = (line_with(line, waits.get((line.namespace, line.name))) for line in lines)
    return tuple(line for line in told if not states or line.state in states)


def selecting(states: Collection[str] = (), queue: str | None = None) -> dict[str, str]:
    """Parameters of a list or a watch that let the server leave out what is not wanted.

    A field selector knows no "or", but several states are all states without the others. A job
    that nobody has looked at yet has an empty state.
    """
    known = ("", *STATES)
    terms = [f"status.state!={state}" for state in known if states and state not in states]
    terms += [f"spec.queue={queue}"] if queue else []
    return {"fieldSelector": ",".join(terms)} if terms else {}


async def get_job(api: "Api", namespace: str, name: str) -> JobDetail:
    """One job; where it is missing, the error names those that sound like it."""
    try:
        detail = job_detail(await api.get(jobs_path(namespace, name)))
    except NotFound:
        raise await missing(api, namespace, name) from None
    if not detail.line.waiting:
        return detail
    return detail_with(detail, await get_wait(api, namespace, name))


async def follow_job(
    api: "Api", namespace: str, name: str
) -> AsyncGenerator[JobDetail | None, None]:
    """The job now and after each change, until it is deleted: then None, and no more."""
    from weft.kube.client.cache import Cache

    changes: asyncio.Queue[JobDetail | None] = asyncio.Queue()
    only = {"fieldSelector": f"metadata.name={name}"}
    jobs = Cache(
        api,
        jobs_path(namespace),
        trim=job_detail,
        params=only,
        on_change=lambda _key, _old, new: changes.put_nowait(new),
    )
    await jobs.sync()
    if not jobs.items:
        raise await missing(api, namespace, name)
    async with kept_up(jobs):
        while (detail := await changes.get()) is not None:
            yield detail
    yield None


async def missing(api: "Api", namespace: str, name: str) -> UnknownName:
    """The error for a job that is not there."""
    try:
        found = await list_all(api, jobs_path(namespace), most=PAGE)
    except Forbidden:
        hint = "is it in another namespace? -n NAMESPACE names it"
    else:
        hint = nearest(name, [thing["metadata"]["name"] for thing in found.items])
    return UnknownName(f"no job '{name}' in namespace '{namespace}'", hint=hint)


def job_line(thing: Plain) -> JobLine:
    """A job as the list shows it."""
    meta, spec, status = part(thing, "metadata"), part(thing, "spec"), part(thing, "status")
    return JobLine(
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        uid=meta.get("uid", ""),
        version=int(meta.get("resourceVersion") or 0),
        state=status.get("state") or "",
        gpus=status.get("gpus") or 0,
        asked_gpus=str(part(spec, "resources").get("gpus", 1)),
        queue=spec.get("queue") or "default",
        priority=spec.get("priority") or 0,
        progress=status.get("progress"),
        remaining_seconds=part(status, "work").get("remainingSeconds"),
        reason=status.get("reason"),
        message=status.get("message"),
        nodes=_nodes(status),
        ending=bool(meta.get("deletionTimestamp")) or _cancelled(meta),
        submitted_at=moment(meta.get("creationTimestamp")),
        waiting_since=_waiting_since(meta, status),
        started_at=moment(status.get("startedAt")),
        ended_at=moment(status.get("endedAt")),
    )


def job_detail(thing: Plain) -> JobDetail:
    """A job as `show` and `why` speak of it."""
    status = part(thing, "status")
    decision = part(status, "decision")
    return JobDetail(
        line=job_line(thing),
        spec=dict(part(thing, "spec")),
        reasons=tuple(map(_reason, status.get("reasons") or ())),
        epoch=decision.get("epoch") or 0,
        seats=tuple(map(_seat, seats_of(decision))),
        work=dict(part(status, "work")),
        metrics=dict(part(status, "metrics")),
        past=dict(part(status, "past")),
        conditions=tuple(status.get("conditions") or ()),
        failure=last_failure(thing),
        company=_company(part(status, "company")),
        no_company=_no_company(part(status, "noCompany")),
        plan=_considered(part(status, "planChoice")),
    )


def _considered(told: Plain) -> Considered | None:
    if not told:
        return None
    chosen, others = told.get("chosen"), told.get("rejected") or ()
    return Considered(
        None if not chosen else _way(chosen),
        tuple(map(_way, others)),
        told.get("note") or "",
        told.get("unit") or "",
    )


def _way(told: Plain) -> Alternative:
    return Alternative(
        told["gpus"],
        told.get("coresPerGpu") or 0.0,
        told["plan"],
        told.get("unitsPerSecond") or 0.0,
        told.get("leftSeconds") or 0.0,
        told.get("why") or "",
    )


def _no_company(told: Plain) -> NoCompany | None:
    if not told:
        return None
    return NoCompany(tuple(told.get("closest") or ()), told["guard"], told.get("meaning") or "")


def _company(told: Plain) -> Company | None:
    if not told:
        return None
    members = told.get("members") or ()
    return Company(
        others=tuple(told.get("others") or ()),
        cycle_seconds=told.get("cycleSeconds") or 0.0,
        aggregate=told.get("aggregate") or 0.0,
        slowdown=told.get("slowdown") or 0.0,
        memory_gib=told.get("memoryGib"),
        members=tuple(Member(one["job"], one["slowdown"]) for one in members),
        matcher=told.get("matcher") or "",
    )


def _cancelled(meta: Plain) -> bool:
    return part(meta, "annotations").get(CANCEL_ANNOTATION) == "true"


def _waiting_since(meta: Plain, status: Plain) -> datetime | None:
    """When the present wait began, or the first one; a job that was stopped waits since then."""
    first = moment(status.get("queuedAt") or meta.get("creationTimestamp"))
    if not status.get("startedAt") or status.get("state") not in WAITING:
        return first
    running = condition(status.get("conditions"), "Running") or {}
    return moment(running.get("lastTransitionTime")) or first


def _nodes(status: Plain) -> tuple[str, ...]:
    """Where it is, not where it was: a decision outlives the job that it placed."""
    if status.get("state") not in HOLDING:
        return ()
    return tuple(dict.fromkeys(seat["node"] for seat in seats_of(part(status, "decision"))))


def _reason(told: Plain) -> ReasonLine:
    return ReasonLine(*(told.get(key) or "" for key in ReasonLine.__dataclass_fields__))


def _seat(seat: Plain) -> SeatLine:
    return SeatLine(
        seat["node"], seat.get("gpus") or 0, seat.get("cpus") or 0, seat.get("memoryGib") or 0
    )
