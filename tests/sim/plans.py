"""Worlds in which plans are chosen: what jobs claim of their models, and how long steps take.

Drawn apart from everything else, so that a seed without plans is the world that it always was.
"""

from dataclasses import dataclass, replace
from functools import cache
from random import Random

from tests.sim.promise import PromiseBroken
from weft.brain.state.brain_state import BrainState
from weft.brain.state.plan_book import cores_of, units_per_second, where
from weft.model.capability import EVERYTHING, WITHOUT_HINTS
from weft.model.claim import PlanClaim
from weft.model.decision import Assignment
from weft.model.job import Job
from weft.model.plan import AS_WRITTEN, ExecutionPlan
from weft.model.request import INDIFFERENT, JobRequest, Width, WorkUnit
from weft.model.shape import ModelShape
from weft.model.truth import Work
from weft.perf.plans.fabric import Fabric
from weft.perf.plans.laws import breaches
from weft.perf.plans.options import Asked, PlanOptions, options
from weft.policy.recipe import Recipe
from weft.policy.recipes import RECIPES

SHARE_OF_WORLDS = 0.25
PLANNED = ("rubick", "rubick", "rubick-r", "rubick-p", "sia")
SMALL = ModelShape(parameters=120_000_000, layers=12, hidden=768, sequence=512, vocabulary=30_000)
LARGE = ModelShape(
    parameters=6_700_000_000, layers=32, hidden=4096, sequence=1024, vocabulary=32_000
)
BATCH = 16
SLACK = 0.02
"""A start may come some time after its decision, and more has been measured by then."""


def planful(seed: int) -> bool:
    """Whether plans are chosen in that world."""
    return Random(f"plans {seed}").random() < SHARE_OF_WORLDS


def with_plans(seed: int, jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    """Some claim a shape; of those some are guaranteed, and all are off what is foretold."""
    return tuple(_planned(Random(f"plans {seed} {row}"), job) for row, job in enumerate(jobs))


def choosing_plans(seed: int) -> Recipe:
    rng = Random(f"planning {seed}")
    recipe = RECIPES[rng.choice(PLANNED)](spacing=rng.choice((0.0, 1.0, 30.0)))
    assert recipe.planning is not None
    planning = replace(
        recipe.planning,
        exact=rng.random() < 0.3,
        gate=rng.choice((0.0, 2.0)),
        budget=rng.choice((0.01, 10.0)),
        own_budget=rng.choice((0.03, 10.0)),
        yields_after_seconds=rng.choice((30.0, 3600.0)),
        least_restart_seconds=rng.choice((0.1, 30.0)),
        again_seconds=rng.choice((10.0, 300.0)),
    )
    return replace(recipe, planning=planning)


@dataclass(frozen=True, slots=True)
class FormSteps:
    """Steps as the form foretells them, but for a factor that nobody knows."""

    found: PlanOptions
    factor: float

    def samples_per_second(
        self, plan: ExecutionPlan, gpus_by_node: tuple[int, ...], cores: float
    ) -> float:
        if plan == AS_WRITTEN and sum(gpus_by_node) not in self.found.submitted():
            return 0.0
        step = self.found.step(plan, gpus_by_node, max(cores, 1.0))
        return BATCH / (step.seconds * self.factor)

    def as_asked(self, gpus: int) -> float:
        return self.samples_per_second(AS_WRITTEN, Fabric().filled(gpus), 4.0)


def _planned(rng: Random, job: Job) -> Job:
    asked = job.width.asked_gpus
    if not asked or asked & (asked - 1) or asked > BATCH or rng.random() < 0.25:
        return job
    shape, offers = rng.choice(((SMALL, WITHOUT_HINTS), (SMALL, EVERYTHING), (LARGE, EVERYTHING)))
    splits = PlanClaim(shape, BATCH, tuple(sorted(offers)))
    width = Width(1, BATCH, asked) if rng.random() < 0.8 else Width.fixed(asked)
    plan = ExecutionPlan(data=asked)
    steps = FormSteps(_found(splits, asked), rng.uniform(0.8, 1.3))
    amount = job.truth.seconds_as_asked * steps.as_asked(asked)
    request = replace(
        job.request,
        width=width,
        splits=splits,
        plans=(plan,),
        guaranteed=rng.random() < 0.4,
        unit=WorkUnit.SAMPLES,
        work=None,
        curve=None,
        stages=None,
        target_loss=None,
        shareable=False,
        locality=INDIFFERENT,
        saves_on_demand=rng.random() < 0.5,
    )
    truth = replace(
        job.truth,
        work=Work(amount, WorkUnit.SAMPLES),
        curve=None,
        host=None,
        loss=None,
        stages=None,
        steps=steps,
        locality=INDIFFERENT,
        saves_on_demand=request.saves_on_demand,
    )
    return Job(request, truth)


@cache
def _found(splits: PlanClaim, gpus: int) -> PlanOptions:
    plans = (ExecutionPlan(data=gpus),)
    asked = Asked(claim=splits, plans=plans, gpus=gpus, cores=4.0, least_gpus=1, most_gpus=BATCH)
    return options(asked, Fabric())


def lawful(state: BrainState, spec: JobRequest, assignment: Assignment) -> None:
    """The degrees make the width, the batch stays, memory suffices, and promises are kept (P1).

    What was asked for is started whatever is foretold of it: its owner wrote it.
    """
    if not state.plan_book.chooses:
        return  # jobs run as submitted, at widths that `limited` watches
    plan, slot = assignment.plan, state.slot_of.get(spec.id)
    if not plan.fits_width(assignment.width):
        raise PromiseBroken("P1", f"{spec.id}: {plan} on {assignment.width} GPUs")
    if spec.splits is None or slot is None:
        return
    found = state.plan_book.options(slot, spec)
    assert found is not None
    written = plan in (AS_WRITTEN, spec.plans[0]) and assignment.width == spec.width.asked_gpus
    if broken := () if written else breaches(plan, assignment.width, found.bounds):
        raise PromiseBroken("P2", f"{spec.id}: {broken[0].text}")
    step = found.step(plan, where(assignment.placement), cores_of(assignment.placement))
    if not written and step.gpu_bytes > state.plan_book.fabric.gpu_memory_bytes:
        raise PromiseBroken("P3", f"{spec.id}: {plan} needs {step.gpu_bytes:.3g} bytes of a GPU")
    if spec.guaranteed and not written:
        _kept(state, spec, found, assignment)


def _kept(state: BrainState, spec: JobRequest, found: PlanOptions, given: Assignment) -> None:
    """No slower than the submitted plan on what was asked for; on so many GPUs, where they are."""
    book, sits, cores = state.plan_book, where(given.placement), cores_of(given.placement)
    asked = found.as_asked()
    if given.width == spec.width.asked_gpus:
        asked = found.step(AS_WRITTEN, sits, cores)
    promised, got = (
        units_per_second(spec, found, book.corrected(spec.id, one).seconds)
        for one in (asked, found.step(given.plan, sits, cores))
    )
    if got < promised * (1.0 - SLACK):
        raise PromiseBroken("P4", f"{spec.id} was promised {promised:.4g} and is given {got:.4g}")
