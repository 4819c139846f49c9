"""Worlds whose jobs do not run at every width of their range, and what is promised there.

Drawn apart from everything else, so that a seed without it is the world that it always was. Some
jobs tell at which widths they run, by a curve or by the plan that they were submitted with; others
fail where they do not.
"""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from tests.sim.plans import planful
from tests.sim.promise import PromiseBroken
from weft.brain.event import JobFailed, Phase
from weft.brain.state.brain_state import BrainState
from weft.failure.evidence import FailureClass
from weft.model.claim import ClaimSource, CurveClaim
from weft.model.curve import Curve
from weft.model.job import Job

if TYPE_CHECKING:
    from tests.sim.random_world import RandomWorld

FIRST_SEED = 2_000
SHARE_OF_WORLDS = 0.15
WIDEST = 16


def limited(seed: int) -> bool:
    """Whether some jobs of that world do not run at some widths."""
    return seed >= FIRST_SEED and Random(f"limits {seed}").random() < SHARE_OF_WORLDS


def chooses_plans(seed: int) -> bool:
    """Whether the policy of that world chooses plans; in limited ones jobs run as submitted."""
    return planful(seed) and not limited(seed)


def with_limits(seed: int, jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    return tuple(_limited(Random(f"limit {seed} {row}"), job) for row, job in enumerate(jobs))


def _limited(rng: Random, job: Job) -> Job:
    """Its plan is on record, or its curve is 0 where a replica does not fill the width."""
    request, truth, asked = job.request, job.truth, job.request.width.asked_gpus
    if request.splits is not None:
        source = rng.choice((ClaimSource.TRACE, ClaimSource.USER))
        return Job(replace(request, splits=replace(request.splits, source=source)), truth)
    if not request.width.elastic or truth.steps is not None:
        return job
    replica = rng.choice([gpus for gpus in (2, 3, 4) if gpus <= asked] or [asked])
    speeds = [0.0 if gpus % replica and gpus != asked else gpus**0.8 for gpus in range(1, WIDEST)]
    curve = Curve(tuple(enumerate(speeds, start=1)))
    told = CurveClaim(curve, ClaimSource.TRACE) if rng.random() < 0.6 else None
    return Job(replace(request, curve=told), replace(truth, curve=curve))


def chosen_too_small(state: BrainState, event: JobFailed) -> bool:
    """Whether the job ran out of memory on GPUs that it had not asked for: that costs no retry."""
    slot = state.slot_of.get(event.job)
    if slot is None or event.failure.kind is not FailureClass.GPU_MEMORY:
        return False
    return int(state.jobs.width[slot]) != state.spec(slot).width.asked_gpus


def nothing_stands_still(world: "RandomWorld") -> None:
    """No job holds GPUs on which it makes no progress."""
    for run in world.running():
        stands = run.phase is Phase.RUNNING and not run.broken and run.speed <= 0.0
        if stands and world.now > run.foreseen:
            raise PromiseBroken("speed 0", f"{run.job.id} on {run.placement.width} GPUs")
