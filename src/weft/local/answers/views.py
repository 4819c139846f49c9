"""Entries of the record as people are shown them, with what the brain and the agents add now."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from weft.brain.brain import Brain
from weft.brain.considered import considered
from weft.failure.diagnosis import Diagnosis
from weft.local.machine.machine import Machine
from weft.local.reconcile.observation import ObservedAgent
from weft.local.reconcile.parsed_request import ParsedRequest
from weft.local.record.entry import Entry, Happening, slots_held
from weft.local.record.usage import Usage
from weft.model.ids import DEFAULT_QUEUE, JobId
from weft.model.state import State
from weft.reconcile.company import company_seen, no_company_seen
from weft.view.diagnosed import failure_line, told_failure
from weft.view.failures import FailureLine
from weft.view.jobs import Growth, JobDetail, JobLine, ReasonLine, SeatLine
from weft.view.node_page import NodeHealth, NodeLine
from weft.view.queues import QueueLine
from weft.view.reasons import as_json
from weft.view.workers import EventLine, WorkerLine

WAITING = (State.QUEUED, State.ADMITTED)
MIB_PER_GIB = 1024
HOUR_SECONDS = 3_600.0


def line_of(entry: Entry, brain: Brain, machine: Machine) -> JobLine:
    """A job in a list; its reason is the one on record, so that a list costs no thought."""
    state = state_of(entry, brain)
    waits = state in WAITING
    first = entry.reasons[0] if waits and entry.reasons else None
    fraction = entry.progress.fraction
    return JobLine(
        namespace=entry.owner.user,
        name=entry.name,
        uid=entry.uid,
        version=entry.version,
        state=state.name.capitalize(),
        gpus=entry.width,
        asked_gpus=str(entry.spec.get("resources", {}).get("gpus", 1)),
        queue=DEFAULT_QUEUE,
        priority=int(entry.spec.get("priority", 0)),
        progress=None if fraction is None else f"{fraction:.0%}",
        remaining_seconds=None if state.final else _remaining_seconds(entry, brain),
        reason=first["code"] if first else None,
        message=(first["text"] if first else entry.message) or None,
        nodes=(machine.name,) if entry.held else (),
        ending=entry.cancelled and not state.final,
        submitted_at=_moment(entry.submitted_at),
        waiting_since=_moment(entry.waiting_since),
        started_at=_moment(entry.started_at),
        ended_at=_moment(entry.ended_at),
    )


def detail_of(
    entry: Entry, brain: Brain, machine: Machine, asked: ParsedRequest | None
) -> JobDetail:
    """One job in full, with the reasons that hold this instant."""
    reasons = [as_json(reason) for reason in brain.explain(entry.id)] or list(entry.reasons)
    waits = state_of(entry, brain) in WAITING
    return JobDetail(
        line=line_of(entry, brain, machine),
        spec=dict(entry.spec),
        reasons=tuple(ReasonLine(**reason) for reason in reasons) if waits else (),
        epoch=entry.epoch,
        seats=_seats(entry, machine),
        work=_work(entry),
        metrics=dict(entry.progress.metrics),
        past={
            "attainedGpuSeconds": round(entry.past.attained_gpu_seconds, 3),
            "failures": entry.past.failures,
            "refusals": entry.past.refusals,
            "preemptions": entry.past.preemptions,
        },
        conditions=tuple(map(_note, asked.notes)) if asked else (),
        failure=failure_of(entry, brain),
        company=company_seen(brain, entry.id),
        no_company=no_company_seen(brain, entry.id) if waits else None,
        plan=considered(brain, JobId(entry.id)),
    )


def failure_of(entry: Entry, brain: Brain) -> FailureLine | None:
    """The one that it ended with or waits after."""
    slot = brain.state.slot_of.get(JobId(entry.id))
    found = brain.state.failures.last.get(slot) if slot is not None else None
    end = entry.end
    if end is not None and end.diagnosis is not None:
        found = end.diagnosis
    if found is None or state_of(entry, brain) is State.SUCCEEDED:
        return None
    return failure_line(
        found,
        namespace=entry.owner.user,
        job=entry.name,
        queue=DEFAULT_QUEUE,
        epoch=_failed_epoch(entry),
        at=_moment(entry.ended_at),
        given_up=entry.state is State.FAILED,
        did=_did(entry, found),
        lost_gpu_seconds=end.lost_gpu_seconds if end else 0.0,
    )


def _failed_epoch(entry: Entry) -> int:
    """Of the start that failed: the last one until another is on record, then the one before."""
    begun_again = entry.end is None and entry.state not in WAITING
    return max(entry.epoch - begun_again, 1)


def _did(entry: Entry, found: Diagnosis) -> str:
    """What became of the job: its last words tell, behind what was found."""
    if entry.state is State.FAILED:
        return entry.message.removeprefix(f"{found}; ") or "given up"
    tries = entry.past.failures
    return f"tried again after {tries} {'failure' if tries == 1 else 'failures'}"


def past_failure(entry: Entry, happening: Happening) -> FailureLine | None:
    """A failed try in the history of a job."""
    told = happening.failure or {}
    return told_failure(
        told.get("diagnosis"),
        namespace=entry.owner.user,
        job=entry.name,
        queue=DEFAULT_QUEUE,
        epoch=happening.epoch,
        at=_moment(happening.at),
        given_up=entry.state is State.FAILED and happening.epoch == entry.epoch,
        did=happening.message,
        lost_gpu_seconds=float(told.get("lost_gpu_seconds") or 0.0),
    )


def state_of(entry: Entry, brain: Brain) -> State:
    """As the brain has it; the record follows a moment later."""
    slot = brain.state.slot_of.get(JobId(entry.id))
    return entry.state if slot is None or entry.state.final else brain.state.state_of(slot)


def growth_of(entry: Entry, brain: Brain) -> Growth | None:
    """Of a job that holds GPUs: how many it may have, and what the next ones would bring."""
    state, slot = brain.state, brain.state.slot_of.get(JobId(entry.id))
    if slot is None or not entry.width:
        return None
    spec, menu = state.spec(slot), int(state.jobs.menu[slot])
    growth = Growth(entry.width, spec.width.max_gpus)
    if growth.gpus >= growth.most or menu == state.menus.stated(spec):  # nothing is learnt yet
        return growth
    now, more = (state.likely_speed(slot, entry.width + one) for one in (0, 1))
    if now <= 0:
        return growth
    return replace(growth, next_gpus=entry.width + 1, gain=more / now - 1)


def workers_of(entry: Entry, observed: ObservedAgent, machine: Machine) -> tuple[WorkerLine, ...]:
    """The processes that live."""
    if observed.status is None or not observed.alive:
        return ()
    return tuple(
        WorkerLine(
            pod=f"{entry.name}-{entry.epoch}-{worker.number}",
            uid=str(worker.pid or ""),
            version=entry.version,
            epoch=entry.epoch,
            rank=worker.number if worker.rank is None else worker.rank,
            node=machine.name,
            phase=worker.state.capitalize(),
            started=worker.pid is not None,
            exit_code=None,
            message=None if worker.device is None else f"device {worker.device}",
            created_at=None,
        )
        for worker in observed.status.workers
        if not worker.gone
    )


def event_of(happening: Happening) -> EventLine:
    return EventLine(
        at=_moment(happening.at),
        reason=happening.what,
        message=happening.message,
        times=1,
        warning=happening.warning,
    )


def node_of(
    machine: Machine,
    entries: Iterable[Entry],
    foreign: int | None,
    health: NodeHealth | None = None,
) -> NodeLine:
    holding = [entry for entry in entries if entry.held]
    memory = machine.gpu_memory_gib
    return NodeLine(
        name=machine.name,
        state="Ready",
        gpu_type=machine.gpu_type if machine.has_gpus else "slot",
        gpu_memory_mib=None if memory is None else round(memory * MIB_PER_GIB),
        gpus=len(machine.slots),
        used_gpus=slots_held(holding),
        foreign_gpus=foreign,
        rack=None,
        pool=None,
        cpus=str(len(machine.cpus)),
        memory="" if machine.memory_gib is None else f"{machine.memory_gib:.0f}Gi",
        jobs=tuple(str(entry.id) for entry in holding),
        health=health,
    )


def queue_of(machine: Machine, entries: Iterable[Entry], recipe: str, version: int) -> QueueLine:
    """The one queue: everybody shares the machine."""
    entries = list(entries)
    holding = [entry for entry in entries if entry.held]
    return QueueLine(
        name=DEFAULT_QUEUE,
        uid="",
        version=version,
        parent=None,
        guaranteed=None,
        limit=len(machine.slots),
        borrowing=True,
        weight=1.0,
        namespaces=(),
        recipe=recipe,
        used=slots_held(holding),
        running=len(holding),
        waiting=len(entries) - len(holding),
        ready=True,
        message=None,
    )


def users_of(
    entries: Iterable[Entry], usage: Mapping[str, Usage], default: QueueLine, limit: int | None
) -> tuple[QueueLine, ...]:
    """Below the one queue, each user: what they hold, what they have had, and what was owed."""
    entries = [entry for entry in entries if not entry.state.final]
    names = sorted({entry.owner.user for entry in entries} | set(usage))
    return tuple(
        _user(name, [e for e in entries if e.owner.user == name], usage.get(name), default, limit)
        for name in names
    )


def _user(
    name: str, entries: list[Entry], usage: Usage | None, default: QueueLine, limit: int | None
) -> QueueLine:
    holding, had = [entry for entry in entries if entry.held], usage or Usage()
    return replace(
        default,
        name=f"user {name}",
        parent=DEFAULT_QUEUE,
        limit=limit,
        namespaces=(name,),
        used=slots_held(holding),
        running=len(holding),
        waiting=len(entries) - len(holding),
        gpu_hours=round(had.got / HOUR_SECONDS, 3),
        owed_gpu_hours=round(had.owed / HOUR_SECONDS, 3),
    )


def _remaining_seconds(entry: Entry, brain: Brain) -> float | None:
    """At the measured speed, or at the claimed one before there is any."""
    state = brain.state
    slot = state.slot_of.get(JobId(entry.id))
    if slot is None:
        return None
    jobs, claim = state.jobs, state.spec(slot).work
    speed = float(jobs.speed[slot])
    if claim is not None:
        total, speed = claim.amount, speed or float(jobs.pace[slot])
    elif entry.progress.total is not None:  # steps that the script states, at a speed that it shows
        total = float(jobs.work_total[slot])
    else:
        return None
    done = float(jobs.work_done[slot]) + float(jobs.speed[slot]) * (
        brain.now - float(jobs.mark[slot])
    )
    known = done <= total  # neither unknown (NaN) nor exceeded
    return (total - done) / speed if speed > 0 and known else None


def _seats(entry: Entry, machine: Machine) -> tuple[SeatLine, ...]:
    held = entry.held
    if not held:
        return ()
    return (
        SeatLine(
            machine.name,
            sum(seat.gpus for seat in held),
            sum(seat.cpus for seat in held),
            sum(seat.memory_gib for seat in held),
        ),
    )


def _work(entry: Entry) -> dict[str, Any]:
    progress = entry.progress
    steps: Mapping[str, int | None] = {
        "done": _counted(progress.step),
        "total": progress.total,
        "saved": _counted(progress.saved_step),
    }
    found: dict[str, Any] = {name: count for name, count in steps.items() if count is not None}
    if found and progress.save_every_seconds:
        found["saveEverySeconds"] = progress.save_every_seconds
    return {**found, "unit": "steps"} if found else {}


def _counted(step: int | None) -> int | None:
    return None if step is None else step + 1


def _note(text: str) -> dict[str, Any]:
    return {"type": "Noted", "status": "True", "message": text}


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
