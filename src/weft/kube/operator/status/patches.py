"""Patches of a job's status: what everybody who looks at the cluster reads of a decision.

All are merge patches that carry the version they were made from, so a patch made from an old view
is refused by the API server and never undoes a newer one.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from weft.brain.event import Past
from weft.failure.diagnosis import Diagnosis
from weft.failure.written import written
from weft.kube.operator.observation.job import HELD_UP, SET_ASIDE, ObservedJob
from weft.kube.operator.observation.recorded_decision import PlanOrder
from weft.kube.reports.headship import Headship
from weft.kube.seat_runs import runs_of, seats_of
from weft.model.capability import Capability
from weft.model.decision import Assignment
from weft.model.placement import Placement, Seat
from weft.model.plan import AS_WRITTEN, ExecutionPlan
from weft.model.reason import Reason
from weft.model.state import State
from weft.view.company import Company, NoCompany
from weft.view.plans import Alternative, Considered
from weft.view.reasons import as_json, counted

Patch = dict[str, Any]
MESSAGE_LIMIT = 1000
MOST_FAILURES = 5
# What is said of a decision after it was made, and does not hold for the next one.
OF_AN_EPOCH = ("serial", "joining", "order", "nextSeat", "live", "offers", "head", "party")


@dataclass(frozen=True, slots=True)
class Standing:
    """What is to be told of a job beside its decision.

    `failure` is its last one, where it had one, and `did` why it is not tried again if it is not.
    One that `is_new` is told though no count has grown by it.
    """

    state: State
    gpus: int = 0
    reasons: Sequence[Reason] = ()
    message: str = ""
    past: Past | None = None
    progress: str | None = None
    work: Mapping[str, Any] | None = None
    metrics: Mapping[str, float] | None = None
    live: bool | None = None
    offers: tuple[Capability, ...] = ()
    held_up: str = ""
    failure: Diagnosis | None = None
    did: str = ""
    company: Company | None = None
    no_company: NoCompany | None = None
    plan: Considered | None = None
    is_new: bool = False


def decision_patch(
    job: ObservedJob,
    epoch: int,
    assignment: Assignment,
    *,
    state: State,
    now: float,
    leader: int,
    told: Standing | None = None,
) -> Patch:
    """The decision and the state that follows from it.

    A failure that led to it may have been told nobody yet: `told` is where the job stood.
    """
    before = told or Standing(state)
    standing = Standing(
        state,
        assignment.width,
        past=before.past,
        failure=before.failure,
        is_new=before.is_new,
    )
    status = _standing(job, standing, now)
    status["decision"] = {
        "epoch": epoch,
        "width": assignment.width,
        "at": stamp(now),
        "leader": leader,
        # Null takes away what an earlier decision said; every field costs the API server time.
        "plan": _plan_or_none(assignment.plan),
        **_seats(job, assignment.placement),
        **{name: None for name in OF_AN_EPOCH if name in job.status.get("decision", {})},
        **({"party": assignment.party} if assignment.party else {}),
    }
    return _guarded(job, status)


def seats_patch(
    job: ObservedJob,
    standing: Standing,
    placement: Placement,
    *,
    serial: int,
    joining: Collection[int],
    now: float,
    plan: ExecutionPlan | PlanOrder | None = None,
) -> Patch:
    """The seats that the incarnation has from now on; its epoch stays, and so does its plan.

    Unless it computes under another one by now, or is on its way to one by an order.
    """
    order = plan if isinstance(plan, PlanOrder) else None
    status = _standing(job, standing, now)
    status.setdefault("decision", {}).update(
        {
            "width": placement.width,
            "serial": serial,
            **_seats(job, placement),
            **({"plan": _plan_or_none(plan)} if isinstance(plan, ExecutionPlan) else {}),
            "joining": sorted(joining) or None,
            "order": None if order is None else _order(order),
            "nextSeat": max(job.next_seat, max(placement.numbers) + 1),
        }
    )
    return _guarded(job, status)


def head_patch(job: ObservedJob, headship: Headship) -> Patch:
    """Who leads its workers from now on; all else stays as it is."""
    head = {"seat": headship.seat, "term": headship.term, "lost": list(headship.lost) or None}
    return _guarded(job, {"decision": {"head": head}})


def standing_patch(job: ObservedJob, standing: Standing, now: float) -> Patch:
    """Where the job stands, without touching its decision."""
    return _guarded(job, _standing(job, standing, now))


def aside_patch(job: ObservedJob, why: str, now: float) -> Patch:
    """The condition that it is set aside, or that no more; all else stays as it is."""
    before = {found["type"]: found for found in job.status.get("conditions") or ()}
    was = before.pop(SET_ASIDE, None)
    kept = [*before.values()]
    if why:
        told = why[:MESSAGE_LIMIT]
        kept.append(_condition(was, SET_ASIDE, True, "Fault", told, job.generation, now))
    return _guarded(job, {"conditions": kept})


UNDERSTOOD = "Understood"
"""A condition that is only there where it is not true: this version cannot read all of a spec."""


def stamp(seconds: float) -> str:
    """RFC 3339, as Kubernetes writes it, with microseconds."""
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
    return text.replace("+00:00", "Z")


def title(state: State) -> str:
    """As it stands in the status: `Queued`, `Running`."""
    return state.name.title()


def _guarded(job: ObservedJob, status: Patch) -> Patch:
    return {"metadata": {"resourceVersion": str(job.version)}, "status": status}


def _seats(job: ObservedJob, placement: Placement) -> Patch:
    """One by one, or many of them in runs; the other form, where it is on record, goes."""
    seats = [_seat(seat) for seat in placement.seats]
    runs = runs_of(seats)
    before = job.status.get("decision", {})
    form, other = ("seats", "runs") if runs is None else ("runs", "seats")
    return {form: seats if runs is None else runs, **({other: None} if other in before else {})}


def in_plain_form(patch: Patch, answer: Mapping[str, Any]) -> Patch | None:
    """The seats once more, one by one, where a definition from before runs has pruned them."""
    runs = patch["status"].get("decision", {}).get("runs")
    if not runs or answer.get("status", {}).get("decision", {}).get("runs"):
        return None
    version = answer["metadata"]["resourceVersion"]
    seats = seats_of({"runs": runs})
    return {"metadata": {"resourceVersion": version}, "status": {"decision": {"seats": seats}}}


def _seat(seat: Seat) -> Patch:
    return {
        "number": seat.number,
        "node": seat.node,
        "gpus": seat.gpus,
        "cpus": seat.cpus,
        "memoryGib": seat.memory_gib,
    }


def _standing(job: ObservedJob, standing: Standing, now: float) -> Patch:
    state, reasons = standing.state, standing.reasons
    status: Patch = {
        "observedGeneration": job.generation,
        "state": title(state),
        "gpus": standing.gpus,
        "reason": reasons[0].code.slug if reasons else None,
        "message": (standing.message or (counted(reasons[0].text) if reasons else ""))[
            :MESSAGE_LIMIT
        ]
        or None,
        "reasons": [as_json(reason) for reason in reasons] or None,
        "conditions": _conditions(job, standing, now),
    }
    if standing.past is not None:
        status["past"] = _past(standing.past, now)
    if standing.failure is not None:
        status |= _failures(job, standing.failure, standing, now)
    for name, value in (("progress", standing.progress), ("work", standing.work)):
        if value is not None:
            status[name] = value
    if standing.metrics:
        status["metrics"] = dict(standing.metrics)
    if standing.company is not None or "company" in job.status:
        status["company"] = _company(standing.company)
    if standing.no_company is not None or "noCompany" in job.status:
        told = standing.no_company
        status["noCompany"] = None if told is None else asdict(told)
    if standing.plan is not None or "planChoice" in job.status:
        status["planChoice"] = None if standing.plan is None else _choice(standing.plan)
    if standing.live is not None and state.holds_seats:
        offers = {"offers": list(standing.offers)} if standing.offers else {}
        status["decision"] = {"live": standing.live, **offers}
    return status | _times(job, state, now)


def _times(job: ObservedJob, state: State, now: float) -> Patch:
    """When it began to wait, when it first started, when it ended; each is written once."""
    times: Patch = {}
    if "queuedAt" not in job.status:
        times["queuedAt"] = stamp(job.created)
    if state.holds_seats and "startedAt" not in job.status:
        times["startedAt"] = stamp(now)
    if state.final and "endedAt" not in job.status:
        times["endedAt"] = stamp(now)
    return times


def _past(past: Past, now: float) -> Patch:
    return {
        "attainedGpuSeconds": round(past.attained_gpu_seconds, 3),
        "failures": past.failures,
        "refusals": past.refusals,
        "preemptions": past.preemptions,
        "losses": past.losses,
        "retry": None if past.retry is None else json.dumps(past.retry.told()),
        "updatedAt": stamp(now),
    }


def _failures(job: ObservedJob, found: Diagnosis, standing: Standing, now: float) -> Patch:
    """The last few, each told once; the last one with what became of the job."""
    before = list(job.status.get("failures") or ())
    told = before[-1] if before and before[-1].get("epoch") == job.epoch else None
    did = standing.did.removeprefix(f"{found}; ")[:MESSAGE_LIMIT] or "it is tried again"
    past, known = standing.past, job.past
    grown = past is not None and (past.failures > known.failures or past.losses > known.losses)
    fresh = standing.is_new or grown
    if told.get("did") == did if told is not None else not fresh:
        return {}
    new = _failure(job, found, now) if told is None else dict(told)
    kept = before if told is None else before[:-1]
    return {"failures": [*kept, new | {"did": did}][-MOST_FAILURES:]}


def _failure(job: ObservedJob, found: Diagnosis, now: float) -> Patch:
    plain = written(found)
    names = {"kind": "class", "node_action": "nodeAction"}
    told = {names.get(name, name): value for name, value in plain.items()}
    lost = {"lostGpuSeconds": round(job.gpu_seconds(now) * job.lost_share, 3)}
    return told | {"epoch": job.epoch, "at": stamp(now)} | lost


def _company(company: Company | None) -> Patch | None:
    """In whose company it is; rounded, so that it changes only with them."""
    if company is None:
        return None
    return {
        "others": list(company.others),
        "cycleSeconds": float(f"{company.cycle_seconds:.3g}"),
        "aggregate": round(company.aggregate, 2),
        "slowdown": round(company.slowdown, 2),
        "memoryGib": None if company.memory_gib is None else round(company.memory_gib, 2),
        "matcher": company.matcher,
        "members": [
            {"job": one.job, "slowdown": round(one.slowdown, 2)} for one in company.members
        ],
    }


def _choice(found: Considered) -> Patch:
    return {
        "chosen": None if found.chosen is None else _way(found.chosen),
        "rejected": [_way(one) for one in found.rejected] or None,
        "note": found.note[:MESSAGE_LIMIT] or None,
        "unit": found.unit or None,
    }


def _way(one: Alternative) -> Patch:
    return {
        "gpus": one.gpus,
        "coresPerGpu": round(one.cores_per_gpu, 2),
        "plan": one.plan,
        "unitsPerSecond": float(f"{one.units_per_second:.3g}"),
        "leftSeconds": round(one.left_seconds),
        "why": one.why[:MESSAGE_LIMIT],
    }


def _order(order: PlanOrder) -> Patch:
    return {"plan": _plan_or_none(order.plan), "leaving": sorted(order.leaving) or None}


def _plan_or_none(plan: ExecutionPlan) -> Patch | None:
    return None if plan == AS_WRITTEN else _plan(plan)


def _plan(plan: ExecutionPlan) -> Patch:
    return {
        "data": plan.data,
        "tensor": plan.tensor,
        "pipeline": plan.pipeline,
        "sharding": str(plan.sharding),
        "accumulationSteps": plan.accumulation_steps,
        "recompute": plan.recompute,
        "offload": plan.offload,
        "microBatches": plan.micro_batches,
        "shardDegree": plan.shard_degree,
        "context": plan.context,
        "expert": plan.expert,
    }


def _conditions(job: ObservedJob, standing: Standing, now: float) -> list[Patch]:
    state = standing.state
    why = standing.reasons[0].code.slug.replace(".", "") if standing.reasons else title(state)
    text = standing.message or (counted(standing.reasons[0].text) if standing.reasons else "")
    before = {found["type"]: found for found in job.status.get("conditions") or ()}
    facts = {
        "Admitted": state.holds_seats or state is State.ADMITTED,
        "Running": state in (State.RUNNING, State.RESIZING),
        "Finished": state.final,
    }
    found = [
        _condition(before.get(kind), kind, true, why, text[:MESSAGE_LIMIT], job.generation, now)
        for kind, true in facts.items()
    ]
    if standing.held_up:
        was, told = before.get(HELD_UP), standing.held_up[:MESSAGE_LIMIT]
        found.append(_condition(was, HELD_UP, True, "WorkersStay", told, job.generation, now))
    if job.fault:
        was, fault = before.get(UNDERSTOOD), job.fault[:MESSAGE_LIMIT]
        found.append(_condition(was, UNDERSTOOD, False, "UnknownSpec", fault, job.generation, now))
    return found


def _condition(  # noqa: PLR0917 - the fields of a condition, in its own order
    before: Mapping[str, Any] | None,
    kind: str,
    true: bool,
    reason: str,
    message: str,
    generation: int,
    now: float,
) -> Patch:
    status = "True" if true else "False"
    changed = before is None or before["status"] != status
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": _whole(now)
        if changed or before is None
        else before["lastTransitionTime"],
    }


def _whole(seconds: float) -> str:
    """A condition's time has whole seconds."""
    return stamp(float(int(seconds))).replace(".000000", "")
