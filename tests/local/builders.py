"""Words to write scenes of the local world with: entries, agents as they are seen, looks."""

from typing import Any

from weft.agent.outcome import Outcome
from weft.api.backend import Origin
from weft.local.machine.machine import Machine
from weft.local.reconcile.observation import (
    LastWords,
    ObservedAgent,
    ObservedWorker,
    Presence,
    Status,
)
from weft.local.reconcile.step import NOTHING, Look, Note, Rules
from weft.local.record.entry import Entry, Owner
from weft.model.claim import WorkClaim
from weft.model.decision import Assignment
from weft.model.ids import JobId, NodeId
from weft.model.placement import Placement, Seat
from weft.model.request import JobRequest, Width
from weft.model.state import State
from weft.reconcile.belief import Belief

ALICE = Owner("alice", 1001, 1001)
NODE = NodeId("bench")
NOW = 1000.0


def a_machine(slots: int = 4, *, gpus: bool = True, cpus: int = 8) -> Machine:
    return Machine(
        name=NODE,
        slots=tuple(range(slots)),
        has_gpus=gpus,
        gpu_type="H100" if gpus else "gpu",
        cpus=tuple(range(cpus)),
        memory_gib=64.0,
    )


def a_seat(number: int, *devices: int) -> Seat:
    return Seat(NODE, max(len(devices), 1), devices=devices, number=number)


def seats(*devices: int) -> tuple[Seat, ...]:
    """One for each device, numbered from 0."""
    return tuple(a_seat(number, device) for number, device in enumerate(devices))


def an_assignment(*numbers: int) -> Assignment:
    """As the brain says it: seats with numbers, without devices."""
    chosen = tuple(Seat(NODE, 1, number=number) for number in numbers)
    return Assignment(len(chosen), Placement(chosen))


def an_entry(**more: Any) -> Entry:
    fields: dict[str, Any] = {
        "uid": "0123456789abcdef",
        "owner": ALICE,
        "name": "job",
        "spec": {"run": "train", "resources": {"gpus": "1..4"}, "duration": "100s"},
        "origin": Origin("/home/alice", {"PATH": "/bin"}),
        "submitted_at": 900.0,
        "waiting_since": 900.0,
    }
    return Entry(**fields | more)


def a_started(state: State = State.RUNNING, *devices: int, **more: Any) -> Entry:
    """An entry whose first incarnation is on record."""
    chosen = seats(*(devices or (0,)))
    fields: dict[str, Any] = {"epoch": 1, "seats": chosen, "top_seat": len(chosen) - 1}
    return an_entry(state=state, **fields | more)


def a_job(entry: Entry, seconds: float = 100.0) -> JobRequest:
    return JobRequest(id=JobId(entry.id), width=Width(1, 4, 4), work=WorkClaim(seconds))


def a_status(width: int = 1, target: int | None = None, **more: Any) -> Status:
    """One whose workers are all there, on devices from 0 on."""
    fields: dict[str, Any] = {
        "live": True,
        "workers": tuple(
            ObservedWorker(number, "active", number, number, 100 + number)
            for number in range(width)
        ),
    }
    return Status(width, width if target is None else target, **fields | more)


def alive(status: Status | None = None, **more: Any) -> ObservedAgent:
    return ObservedAgent(Presence.ALIVE, status, **more)


def ended(outcome: Outcome = Outcome.FINISHED, code: int = 0, **more: Any) -> ObservedAgent:
    words = LastWords(outcome, code, "as told", **more)
    return ObservedAgent(Presence.ENDED, words=words, swept=True)


def a_look(
    entry: Entry,
    agent: ObservedAgent | None = None,
    belief: Belief | None = None,
    *,
    note: Note = NOTHING,
    now: float = NOW,
    grace: float = 30.0,
) -> Look:
    return Look(
        entry=entry,
        job=a_job(entry),
        fault="",
        agent=agent or ObservedAgent(),
        belief=belief or Belief(),
        note=note,
        now=now,
        rules=Rules(),
        grace_seconds=grace,
    )


def believed(state: State, *numbers: int, epoch: int = 1, **more: Any) -> Belief:
    assignment = an_assignment(*numbers) if numbers else None
    return Belief(state=state, epoch=epoch, assignment=assignment, **more)
