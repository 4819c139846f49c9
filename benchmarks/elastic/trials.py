"""Trials: one workload on one cluster under one recipe, in the simulated world, as numbers.

Trials run two at a time in processes of their own and come back small. Recipes are compared seed by
seed: with the same seed they see the same jobs, the same models and the same chances.

A tenant's share is what it held of what was due to it: at every moment the GPUs are divided
max-min over the tenants that have jobs, none being due more than its jobs could use; GPU time held
over GPU time due, from its first job to its last, is the share. The worst tenant's share is told,
of tenants to whom at least a hundredth of all was due.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from time import process_time
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.elastic.workloads import Given
from weft.brain.brain import Brain
from weft.brain.event import Event, Tick
from weft.brain.instruction import Instruction
from weft.brain.journal import Journal
from weft.lab.interval import Interval, interval
from weft.model.state import State
from weft.policy.size.weave import fair_parts
from weft.sim.costs import COSTS, TACC, Costs, constant
from weft.sim.record import Record
from weft.sim.world import Checks, World
from weft.spec.recipe import make_recipe

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

WORKERS = 2
LEAST_DUE = 0.01

FREE = COSTS["free"]
# As measured on two real nodes: a new worker trains eight seconds after the order, and the others
# stand still for a third of a second when it joins. Starts as at TACC.
MEASURED = Costs(
    "measured",
    start=TACC,
    stop=constant(2.0),
    resize=constant(8.0),
    resize_pause=constant(0.3),
    move=TACC,
)


def pausing(seconds: float) -> Costs:
    """Every resize is a stand-still of so many seconds, and nothing else costs anything."""
    return Costs(f"pause {seconds:g} s", resize_pause=constant(seconds))


Workload = Callable[[int], Given]
"""From a seed to jobs; a `functools.partial` of a module's function, so that it can be sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is to be run."""

    name: str
    workload: Workload
    recipe: str
    seed: int = 0
    costs: Costs = FREE
    checks: Checks = Checks.OFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it. Shares are of 1; `resizes` and `preemptions` are per job."""

    name: str
    recipe: str
    seed: int
    jobs: int
    finished: int
    mean_jct_seconds: float
    p50_jct_seconds: float
    p99_jct_seconds: float
    utilisation: float
    resizes: float
    preemptions: float
    worst_share: float
    rounds: int
    events: int
    brain_cpu_seconds: float
    cpu_seconds: float


def run_all(trials: Sequence[Trial], *, workers: int = WORKERS) -> Iterator[Outcome]:
    """Outcomes in the order of the trials."""
    if workers == 1 or len(trials) == 1:
        yield from map(run, trials)
        return
    with ProcessPoolExecutor(min(workers, len(trials)), mp_context=get_context("fork")) as pool:
        yield from pool.map(run, trials)


def run(trial: Trial) -> Outcome:
    """Simulate to the end."""
    given = trial.workload(trial.seed)
    brain = TimedBrain(make_recipe(trial.recipe))
    shares = Shares(brain, given.cluster.gpus)
    begin = process_time()
    world = World(
        given.cluster,
        given.jobs,
        brain,
        costs=trial.costs,
        seed=trial.seed,
        journal=shares,
        checks=trial.checks,
    )
    record = world.run()
    return _outcome(trial, record, brain, shares, process_time() - begin)


class TimedBrain(Brain):
    """A brain that knows what its thinking has cost."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.cpu_seconds = 0.0

    def handle(self, event: Event) -> list[Instruction]:
        begin = process_time()
        instructions = super().handle(event)
        self.cpu_seconds += process_time() - begin
        return instructions


class Shares(Journal):
    """Listens at the door for rounds, and adds up who holds what between them."""

    def __init__(self, brain: Brain, gpus: int) -> None:
        super().__init__()
        self._brain = brain
        self._gpus = gpus
        self._since = 0.0
        self._held: Floats = np.zeros(0)
        self._fair: Floats = np.zeros(0)
        self.held_seconds: Floats = np.zeros(0)
        self.due_seconds: Floats = np.zeros(0)

    def record(self, event: Event, instructions: Sequence[Instruction]) -> None:
        if type(event) is not Tick or self._brain.decision is None:
            return
        seconds = event.at - self._since
        self.held_seconds = _sum(self.held_seconds, self._held * seconds)
        self.due_seconds = _sum(self.due_seconds, self._fair * seconds)
        self._since = event.at
        self._look()

    def worst(self) -> float:
        """The smallest share of the tenants that count; 1 where there is none."""
        counts = self.due_seconds > LEAST_DUE * self.due_seconds.sum()
        if not counts.any():
            return 1.0
        return float((self.held_seconds[counts] / self.due_seconds[counts]).min())

    def _look(self) -> None:
        state, size = self._brain.state, self._brain.state.size
        jobs = state.jobs
        active = np.flatnonzero(jobs.active[:size] & (jobs.state[:size] != State.STOPPING))
        tenants = jobs.tenant[active]
        self._held = _by_tenant(tenants, jobs.width[active])
        self._fair = fair_parts(_by_tenant(tenants, jobs.max_gpus[active]), self._gpus)


def compared(outcomes: Sequence[Outcome], base: Sequence[Outcome], field: str) -> Interval:
    """Quotients of a field to the base's, over the seeds that both have, with their interval."""
    by_seed = {outcome.seed: float(getattr(outcome, field)) for outcome in base}
    both = [outcome for outcome in outcomes if outcome.seed in by_seed]
    return interval([float(getattr(o, field)) / by_seed[o.seed] for o in both])


def _by_tenant(tenants: Ints, gpus: Ints) -> Floats:
    return np.bincount(tenants, gpus.astype(np.float64)).astype(np.float64)


def _sum(so_far: Floats, more: Floats) -> Floats:
    if len(more) > len(so_far):
        so_far = np.concatenate([so_far, np.zeros(len(more) - len(so_far))])
    so_far[: len(more)] += more
    return so_far


def _outcome(
    trial: Trial, record: Record, brain: TimedBrain, shares: Shares, cpu_seconds: float
) -> Outcome:
    lines = list(record.jobs.values())
    ended = [line for line in lines if line.outcome == "succeeded"]
    jcts = np.array([line.jct_seconds for line in ended] or [np.nan])
    span = max((line.ended or 0.0 for line in ended), default=0.0) - lines[0].submitted
    held = sum(line.attained_gpu_seconds for line in lines)
    return Outcome(
        name=trial.name,
        recipe=trial.recipe,
        seed=trial.seed,
        jobs=len(lines),
        finished=len(ended),
        mean_jct_seconds=float(jcts.mean()),
        p50_jct_seconds=float(np.quantile(jcts, 0.5)),
        p99_jct_seconds=float(np.quantile(jcts, 0.99)),
        utilisation=held / max(record.total_gpus * span, 1e-9),
        resizes=sum(line.resizes for line in lines) / len(lines),
        preemptions=sum(line.preemptions for line in lines) / len(lines),
        worst_share=shares.worst(),
        rounds=record.rounds,
        events=record.events,
        brain_cpu_seconds=brain.cpu_seconds,
        cpu_seconds=cpu_seconds,
    )
