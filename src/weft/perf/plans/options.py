"""The options of one job: which plans it may run where, and how fast each is foretold to be.

A claim, the plans that its request lists and a fabric settle them, so jobs that claim the same
share them. What was measured of a job beyond its claim comes on top (`correction`).
"""

from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from weft.model.capability import Capability, Offers
from weft.model.claim import PlanClaim
from weft.model.plan import AS_WRITTEN, ExecutionPlan
from weft.perf.plans.columns import Floats, PlanColumns
from weft.perf.plans.curve import CORES, Configuration, PlanCurve, best_plans
from weft.perf.plans.fabric import Fabric
from weft.perf.plans.fit import StepModel, fitted, unmeasured
from weft.perf.plans.laws import Bounds, breaches
from weft.perf.plans.memory import peak_memory
from weft.perf.plans.space import legal_plans, plans_of_families
from weft.perf.plans.step import Cases, Work

REMEMBERED = 512
NEVER_SECONDS = 1e9
"""A step where nothing fits: nobody is ever given that, but may be left with it for a moment."""

Where = tuple[int, ...]
"""GPUs by node."""

Plans = frozenset[ExecutionPlan]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a request says of plans; `plans` are all it lists, the submitted one first.

    Without `more_cores` those that were asked for are said to be enough.
    """

    claim: PlanClaim
    plans: tuple[ExecutionPlan, ...]
    gpus: int
    cores: float
    least_gpus: int
    most_gpus: int
    more_cores: bool = True

    @property
    def written(self) -> ExecutionPlan:
        """The submitted plan, its replicas counted."""
        return counted(self.plans[0], self.gpus)


@dataclass(frozen=True, slots=True)
class Foretold:
    """Seconds of a step, the slower end of what is likely, and the bytes on a GPU."""

    plan: ExecutionPlan
    seconds: float
    slow_seconds: float
    gpu_bytes: float


@dataclass(slots=True)
class PlanOptions:
    """Of one request on one fabric. `useful` are the best plans by allocation, those of use."""

    asked: Asked
    model: StepModel
    bounds: Bounds
    plans: PlanColumns
    gpu_bytes: Floats
    useful: tuple[Configuration, ...]
    _steps: dict[tuple[ExecutionPlan, Where, float], Foretold] = field(default_factory=dict)
    _best: dict[tuple[Where, float, Plans], Foretold | None] = field(default_factory=dict)
    _submitted: dict[int, Foretold] | None = None

    def step(self, plan: ExecutionPlan, where: Where, cores: float) -> Foretold:
        """Of this plan there; one `AS_WRITTEN` is the submitted one.

        One that does not fill the width has more or fewer replicas, or is the best there.
        """
        key = plan, where, cores
        found = self._steps.get(key)
        if found is None:
            found = self._steps[key] = self._foretell(plan, where, cores)
        return found

    def best_on(self, where: Where, cores: float, without: Plans = frozenset()) -> Foretold | None:
        """The fastest plan on just these GPUs, but for some; None if none fits there."""
        key = where, cores, without
        if key not in self._best:
            self._best[key] = self._search(where, cores, without)
        return self._best[key]

    def as_asked(self) -> Foretold:
        """What the job asked for: its GPUs on as few nodes as possible, the submitted plan."""
        return self.step(AS_WRITTEN, self.model.fabric.filled(self.asked.gpus), self.asked.cores)

    def submitted(self) -> dict[int, Foretold]:
        """The submitted plan at each width at which it runs, on as few nodes as possible.

        It has more or fewer replicas there. The width that was asked for is always among them.
        """
        if self._submitted is None:
            widths = range(max(self.asked.least_gpus, 1), self.asked.most_gpus + 1)
            pairs = [(scaled(self.asked.plans[0], width), width) for width in widths]
            self._submitted = self._foretell_all([pair for pair in pairs if self._is_legal(*pair)])
            self._submitted[self.asked.gpus] = self.as_asked()
        return self._submitted

    def _is_legal(self, plan: ExecutionPlan, width: int) -> bool:
        """Whether the plan breaks no law at that width, and is listed where several plans are."""
        plans = self.asked.plans
        listed = len(plans) == 1 or any(counted(one, width) == plan for one in plans)
        return listed and not breaches(plan, width, self.bounds)

    def _foretell_all(self, pairs: list[tuple[ExecutionPlan, int]]) -> dict[int, Foretold]:
        """Those of these legal plans that fit into memory, by width."""
        fabric, cores = self.model.fabric, max(self.asked.cores, 1.0)
        columns = PlanColumns.of([plan for plan, _ in pairs], [width for _, width in pairs])
        peak = peak_memory(columns, self.bounds.shape, self.bounds.batch)
        where = [fabric.filled(width) for _, width in pairs]
        cases = Cases.laid(columns, where, np.full(len(pairs), cores), fabric)
        forecast, fits = self.model.forecast(cases), peak.fits(fabric).tolist()
        seconds, slow, used = (
            column.tolist() for column in (forecast.seconds, forecast.high, peak.total)
        )
        return {
            width: Foretold(plan, seconds[row], slow[row], used[row])
            for row, (plan, width) in enumerate(pairs)
            if fits[row]
        }

    def on_paper(self, one: Configuration) -> Foretold:
        """A configuration as a forecast."""
        return Foretold(one.plan, one.seconds, one.slow_seconds, one.gpu_bytes)

    def _foretell(self, plan: ExecutionPlan, where: Where, cores: float) -> Foretold:
        width, written = sum(where), plan == AS_WRITTEN
        plan = scaled(self.asked.plans[0], width) if written else filling(plan, width)
        if not plan.fits_width(width):
            best = self.best_on(where, max(cores, 1.0))
            return best or Foretold(plan, NEVER_SECONDS, NEVER_SECONDS, 0.0)
        columns = PlanColumns.of([plan], [width])
        cases = Cases.laid(columns, [where], np.array([max(cores, 1.0)]), self.model.fabric)
        forecast = self.model.forecast(cases)
        used = peak_memory(columns, self.bounds.shape, self.bounds.batch).total[0]
        return Foretold(plan, float(forecast.seconds[0]), float(forecast.high[0]), float(used))

    def _search(self, where: Where, cores: float, without: Plans) -> Foretold | None:
        rows = np.flatnonzero(self.plans.width == sum(where))
        if not len(rows):
            return None
        part, count = self.plans.take(rows), len(rows)
        cases = Cases.laid(part, [where] * count, np.full(count, cores), self.model.fabric)
        forecast = self.model.forecast(cases)
        order = np.argsort(forecast.high, kind="stable").tolist()
        row = next((row for row in order if part.plan(row) not in without), None)
        if row is None:
            return None
        return Foretold(
            part.plan(row),
            float(forecast.seconds[row]),
            float(forecast.high[row]),
            float(self.gpu_bytes[rows[row]]),
        )


def counted(plan: ExecutionPlan, width: int) -> ExecutionPlan:
    """The same plan with its replicas as a number; where they do not fill the width, as it is."""
    if plan.data or not plan.fits_width(width):
        return plan
    return replace(plan, data=width // plan.gpus_per_replica)


def filling(plan: ExecutionPlan, width: int) -> ExecutionPlan:
    """The plan itself where it fills the width, else with other replicas, if that does."""
    return counted(plan, width) if plan.fits_width(width) else scaled(plan, width)


def scaled(plan: ExecutionPlan, width: int) -> ExecutionPlan:
    """With as many replicas as this width has room for; as it is where they do not fill it."""
    free = replace(plan, data=0, shard_degree=0)
    return counted(free, width) if free.fits_width(width) else plan


@lru_cache(maxsize=REMEMBERED)
def options(asked: Asked, fabric: Fabric) -> PlanOptions:
    """All that can be foretold of such a request on such nodes."""
    claim, offers = asked.claim, frozenset(asked.claim.offers)
    model = _model(claim, fabric)
    bounds = Bounds(
        shape=claim.shape, batch=claim.batch, gpus_per_node=fabric.gpus_per_node, offers=offers
    )
    plans = _space(asked, bounds)
    peak = peak_memory(plans, claim.shape, claim.batch)
    fits = np.flatnonzero(peak.fits(fabric))
    plans, used = plans.take(fits), peak.total[fits]
    cores = _cores(asked, offers)
    best = best_plans(model, bounds, (), cores=cores, among=plans, booked=asked.cores)
    return PlanOptions(asked, model, bounds, plans, used, PlanCurve.of(best).points)


def _model(claim: PlanClaim, fabric: Fabric) -> StepModel:
    prior = unmeasured(Work(shape=claim.shape, batch=claim.batch), fabric)
    if not claim.points:
        return prior
    cases = Cases.of(
        [point.plan for point in claim.points],
        [point.gpus_by_node for point in claim.points],
        [point.cores for point in claim.points],
        fabric,
    )
    return fitted(cases, np.array([point.seconds for point in claim.points]), prior)


def _space(asked: Asked, bounds: Bounds) -> PlanColumns:
    """Plans that are listed, where several are; otherwise all that the program offers."""
    widths = range(max(asked.least_gpus, 1), asked.most_gpus + 1)
    if asked.claim.families:
        return plans_of_families(bounds, tuple(widths), asked.claim.families)
    if len(asked.plans) == 1:
        return legal_plans(bounds, tuple(widths))
    pairs = {
        (counted(plan, width), width)
        for plan in asked.plans
        for width in ((plan.data * plan.gpus_per_replica,) if plan.data else widths)
        if asked.least_gpus <= width <= asked.most_gpus
    }
    legal = [pair for pair in sorted(pairs, key=repr) if not breaches(*pair, bounds)]
    return PlanColumns.of([plan for plan, _ in legal], [width for _, width in legal])


def _cores(asked: Asked, offers: Offers) -> tuple[float, ...]:
    """Cores per GPU to choose from: more than asked for only where offload would use them."""
    own = max(asked.cores, 1.0)
    if Capability.OFFLOAD not in offers or not asked.more_cores:
        return (own,)
    return tuple(sorted({own, *(float(count) for count in CORES if count > own)}))
