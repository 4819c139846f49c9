"""One training job: what was asked, what is on record, and what its owner wishes."""

import json
from dataclasses import dataclass, field, replace

from weft.brain.event import Past
from weft.failure.retry import RetryState
from weft.kube.names import (
    CANCEL_ANNOTATION,
    FINALIZER,
)
from weft.kube.operator.observation.metadata import Raw, parse_time
from weft.kube.operator.observation.parsed_request import ParsedRequest, parse_request
from weft.kube.operator.observation.recorded_decision import (
    PlanOrder,
    RecordedDecision,
    read_decision,
)
from weft.kube.operator.observation.stored_spec import read_stored
from weft.kube.reports.headship import Headship
from weft.kube.reports.payload import Unit
from weft.kube.resources.training_job import TrainingJobSpec
from weft.model.capability import Capability
from weft.model.placement import Placement
from weft.model.plan import ExecutionPlan
from weft.spec.quantity import duration_seconds

SET_ASIDE = "SetAside"
"""A condition of a job that the operator cannot look after for now."""

HELD_UP = "HeldUp"
"""A condition of a job whose workers should be gone and are not."""

NO_PAST = Past()


@dataclass(frozen=True, slots=True)
class ObservedJob:
    """One training job: what was asked, what is recorded of the decision, and its owner's wish.

    `fault` says what is wrong with a spec. Fields that this version does not know are left out
    then, since a newer one may have stored them; `spec` is None where even that does not help.
    """

    uid: str
    version: int
    namespace: str
    name: str
    generation: int
    created: float
    deleting: bool
    cancelled: bool
    finalizer: bool
    spec: TrainingJobSpec | None
    fault: str
    status: Raw
    parsed: ParsedRequest | None = None
    decision: RecordedDecision = field(init=False)

    def __post_init__(self) -> None:
        """Read once, since it is asked for at every look."""
        object.__setattr__(self, "decision", read_decision(self.status.get("decision")))

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def state(self) -> str:
        return str(self.status.get("state", ""))

    @property
    def final(self) -> bool:
        return self.state in ("Succeeded", "Failed", "Cancelled")

    @property
    def accepted(self) -> bool:
        """Whether an operator has taken it in before: it is not refused any more."""
        return bool(self.state)

    @property
    def epoch(self) -> int:
        """Of the last decision on record; 0 before the first."""
        return self.decision.epoch

    @property
    def placement(self) -> Placement | None:
        """The seats on record, those that are still to be joined among them."""
        return self.decision.placement

    @property
    def plan(self) -> ExecutionPlan | None:
        """How the last decision on record lets it compute; None before the first."""
        return self.decision.plan

    @property
    def offers(self) -> tuple[Capability, ...]:
        """As what its program can be run by its head's word in this epoch; none before it spoke."""
        return self.decision.offers

    @property
    def order(self) -> PlanOrder | None:
        """The plan that its workers are on their way to; None where they are there."""
        return self.decision.order

    @property
    def serial(self) -> int:
        """Of the last resize on record in this epoch; 0 before the first."""
        return self.decision.serial

    @property
    def joining(self) -> frozenset[int]:
        """Seats whose workers are on their way: a resize under way has added them."""
        return self.decision.joining

    @property
    def next_seat(self) -> int:
        """A number that no seat of this epoch has had."""
        return self.decision.next_seat

    @property
    def is_live(self) -> bool | None:
        """Whether its head said that it can be resized while it trains; None before it spoke."""
        return self.decision.live

    @property
    def headship(self) -> Headship:
        """Who leads the workers of this epoch, as far as that is on record."""
        return self.decision.headship

    @property
    def party(self) -> str:
        """The name of those whom it joined on their GPUs; empty where it has its own."""
        return self.decision.party

    @property
    def held_up(self) -> str:
        """What is on record of workers that should be gone and are not."""
        return self._condition(HELD_UP)

    @property
    def set_aside(self) -> str:
        """What is on record of why the operator leaves it alone."""
        return self._condition(SET_ASIDE)

    def _condition(self, kind: str) -> str:
        for condition in self.status.get("conditions") or ():
            if condition.get("type") == kind:
                return str(condition.get("message", ""))
        return ""

    @property
    def past(self) -> Past:
        found = self.status.get("past")
        if not found:
            return NO_PAST
        return Past(
            float(found.get("attainedGpuSeconds", 0.0)),
            int(found.get("failures", 0)),
            int(found.get("refusals", 0)),
            int(found.get("preemptions", 0)),
            int(found.get("losses", 0)),
            _retry(found.get("retry")),
        )

    def past_by(self, now: float) -> Past:
        """The same, with what it has had since that was written: it trains on while nobody looks.

        What restarts may cost is a part of what jobs have had, so a new brain must know of it.
        """
        known = self.past
        return replace(
            known, attained_gpu_seconds=known.attained_gpu_seconds + self._untold_gpu_seconds(now)
        )

    def _untold_gpu_seconds(self, now: float) -> float:
        """Nothing where an operator that wrote no times has told of its past."""
        told, past = self.status.get("decision") or {}, self.status.get("past") or {}
        if self.state not in ("Running", "Resizing") or (past and "updatedAt" not in past):
            return 0.0
        moments = [text for text in (told.get("at"), past.get("updatedAt")) if text]
        since = max((parse_time(text) for text in moments), default=now)
        return float(told.get("width") or 0) * max(now - since, 0.0)

    def gpu_seconds(self, now: float) -> float:
        """What its present incarnation has had by then."""
        told = self.status.get("decision") or {}
        since = parse_time(told["at"]) if told.get("at") else now
        return float(told.get("width") or 0) * max(now - since, 0.0)

    @property
    def lost_share(self) -> float:
        """Of what it has computed, the part that no later incarnation can go on from."""
        work = self.status.get("work") or {}
        done, saved = float(work.get("done") or 0.0), float(work.get("saved") or 0.0)
        return min(max((done - saved) / done, 0.0), 1.0) if done > 0.0 else 1.0

    @property
    def work_saved(self) -> float:
        """What the job says it can go on from: seconds of its duration, else steps."""
        work, spec = self.status.get("work"), self.spec
        if not work or spec is None:
            return 0.0
        saved, total = float(work.get("saved", 0.0)), float(work.get("total", 0.0))
        if spec.duration is None:
            return saved if work.get("unit") == Unit.STEPS else 0.0
        share = saved / total if total > 0.0 else 0.0
        return min(share, 1.0) * duration_seconds(spec.duration)

    @property
    def execution(self) -> tuple[int, str]:
        """Epoch and phase that an external executor wrote."""
        found = self.status.get("execution", {})
        return int(found.get("epoch", 0)), str(found.get("phase", ""))

    @property
    def ended(self) -> float | None:
        text = self.status.get("endedAt")
        return None if text is None else parse_time(text)

    def check(self) -> None:
        """Whatever will be asked of its status can be answered; else this raises, here and now."""
        hash((self.held_up, self.past, self.work_saved, self.execution, self.ended))


def _retry(text: object) -> RetryState | None:
    """What is on record of its retries; nothing of what another version wrote."""
    if not isinstance(text, str):
        return None
    try:
        return RetryState.read(json.loads(text))
    except (ValueError, KeyError, TypeError):
        return None


class JobReader:
    """Sees training jobs; a spec never changes, so it is read once per job."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[TrainingJobSpec | None, str, ParsedRequest]] = {}

    def __call__(self, raw: Raw) -> ObservedJob:
        meta = raw["metadata"]
        created = parse_time(meta["creationTimestamp"])
        found = self._read.get(meta["uid"])
        if found is None:
            spec, fault = read_stored(raw.get("spec", {}))
            parsed = parse_request(
                spec, fault, namespace=meta["namespace"], name=meta["name"], at=created
            )
            found = self._read[meta["uid"]] = (spec, fault, parsed)
        annotations = meta.get("annotations") or {}
        observed = ObservedJob(
            uid=meta["uid"],
            version=int(meta["resourceVersion"]),
            namespace=meta["namespace"],
            name=meta["name"],
            generation=int(meta.get("generation", 1)),
            created=created,
            deleting="deletionTimestamp" in meta,
            cancelled=annotations.get(CANCEL_ANNOTATION) == "true",
            finalizer=FINALIZER in (meta.get("finalizers") or ()),
            spec=found[0],
            fault=found[1],
            status=raw.get("status") or {},
            parsed=found[2],
        )
        observed.check()
        return observed

    def forget(self, uid: str) -> None:
        self._read.pop(uid, None)
