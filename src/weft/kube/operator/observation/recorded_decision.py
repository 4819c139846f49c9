"""The last decision about a job, as it stands in the job's status.

It is read once for each version of the object, and not at each look: a term that begins looks at
every job at once, and each look asks for most of it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from weft.kube.reports.headship import FIRST, Headship, read_headship
from weft.kube.seat_runs import seats_of
from weft.model.capability import Capability
from weft.model.ids import NodeId
from weft.model.placement import Placement, Seat
from weft.model.plan import AS_WRITTEN, ExecutionPlan, Sharding

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PlanOrder:
    """Another plan that workers are on their way to; when they are there, some seats go."""

    plan: ExecutionPlan
    leaving: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """What each field means stands at the property of the same name of a `ObservedJob`."""

    epoch: int = 0
    placement: Placement | None = None
    plan: ExecutionPlan | None = None
    serial: int = 0
    joining: frozenset[int] = frozenset()
    next_seat: int = 0
    live: bool | None = None
    headship: Headship = FIRST
    party: str = ""
    order: PlanOrder | None = None
    offers: tuple[Capability, ...] = ()


NOTHING_DECIDED: Final = RecordedDecision()


def read_decision(raw: Raw | None) -> RecordedDecision:
    """From the status; what cannot be read raises here and now."""
    if raw is None:
        return NOTHING_DECIDED
    placement = _placement(raw)
    highest = max(placement.numbers) if placement else -1
    live = raw.get("live")
    return RecordedDecision(
        epoch=int(raw.get("epoch", 0)),
        placement=placement,
        plan=_plan(raw.get("plan") or {}),
        serial=int(raw.get("serial", 0)),
        joining=frozenset(raw.get("joining", ())),
        next_seat=max(int(raw.get("nextSeat", 0)), highest + 1),
        live=None if live is None else bool(live),
        headship=read_headship(raw.get("head")),
        party=str(raw.get("party") or ""),
        order=_order(raw.get("order")),
        offers=capabilities(raw.get("offers") or ()),
    )


def _placement(raw: Raw) -> Placement | None:
    found = tuple(_seat(seat, place) for place, seat in enumerate(seats_of(raw)))
    return Placement(found) if found else None


def capabilities(names: Iterable[str]) -> tuple[Capability, ...]:
    """Of what another version calls otherwise nothing is known here."""
    known = {one.value for one in Capability}
    return tuple(Capability(name) for name in names if name in known)


def _order(said: Raw | None) -> PlanOrder | None:
    if said is None:
        return None
    return PlanOrder(_plan(said.get("plan") or {}), frozenset(said.get("leaving") or ()))


def _seat(raw: Raw, place: int) -> Seat:
    return Seat(
        NodeId(raw["node"]),
        int(raw.get("gpus", 0)),
        float(raw.get("cpus", 0.0)),
        float(raw.get("memoryGib", 0.0)),
        number=int(raw.get("number", place)),
    )


def _plan(said: Raw) -> ExecutionPlan:
    if not said:
        return AS_WRITTEN
    return ExecutionPlan(
        data=int(said.get("data", 0)),
        tensor=int(said.get("tensor", 1)),
        pipeline=int(said.get("pipeline", 1)),
        sharding=Sharding(said.get("sharding", Sharding.NONE)),
        accumulation_steps=int(said.get("accumulationSteps", 1)),
        recompute=bool(said.get("recompute", False)),
        offload=bool(said.get("offload", False)),
        micro_batches=int(said.get("microBatches", 1)),
        shard_degree=int(said.get("shardDegree", 0)),
        context=int(said.get("context", 1)),
        expert=int(said.get("expert", 1)),
    )
