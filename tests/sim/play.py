"""Play a seed to its end: through the faults, then on until everything that can run has run."""

from collections import Counter
from dataclasses import dataclass

from tests.sim.checks import is_at_rest, settled, silent
from tests.sim.promise import PromiseBroken
from tests.sim.random_world import Fault, Plan, RandomWorld, draw
from weft.model.ids import JobId
from weft.model.state import State

MOST_STEPS = 40_000


@dataclass(frozen=True, slots=True)
class Played:
    """What a seed came to."""

    seed: int
    events: int
    counts: Counter[Fault]
    seen: Counter[str]
    digest: str
    outcomes: dict[JobId, tuple[State, float]]


def play(plan: Plan, *, most_steps: int = MOST_STEPS) -> Played:
    """The whole run; raises at the first broken promise."""
    return finish(RandomWorld(plan), most_steps=most_steps)


def finish(world: RandomWorld, *, most_steps: int = MOST_STEPS) -> Played:
    steps = 0
    while world.pending and not is_at_rest(world):
        world.step()
        steps += 1
        if steps > most_steps:
            raise PromiseBroken("I7", f"no rest after {steps} steps, at {world.now} s")
    settled(world)
    silent(world)
    return Played(
        world.plan.seed,
        world.record.events,
        world.counts,
        world.auditor.seen,
        world.journal.digest,
        {job: (end.state, end.at) for job, end in world.brain.state.closed.items()},
    )


def play_seed(seed: int) -> Played:
    return play(draw(seed))
