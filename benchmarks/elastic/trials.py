"""Trials: one workload on one cluster under one recipe, in the simulated world, as numbers.

Trials run two at a time in processes of their own and come back small. Recipes are compared seed by
seed: with the same seed they see the same jobs, the same models and the same chances.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from time import process_time
from typing import Any

import numpy as np

from benchmarks.elastic.fairness import worst_share
from benchmarks.elastic.settings import Setting, kept_back
from benchmarks.elastic.workloads import Given
from weft.brain.brain import Brain
from weft.brain.event import Event
from weft.brain.instruction import Instruction
from weft.lab.interval import Interval, interval
from weft.sim.costs import COSTS, TACC, Costs, constant
from weft.sim.record import Record
from weft.sim.world import Checks, World
from weft.spec.recipe import make_recipe

WORKERS = 2

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
    """What is to be run: a workload by name, a recipe with its parameters, what is told."""

    name: str
    workload: Workload
    recipe: str
    parameters: str = ""
    setting: Setting = Setting.TOLD
    seed: int = 0
    costs: Costs = FREE
    checks: Checks = Checks.OFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it. Shares are of 1; `resizes` and `preemptions` are per job.

    A job that is stopped to be started elsewhere or wider is preempted too: it loses the same.
    `worst_share` is None where there is one tenant.
    """

    name: str
    recipe: str
    parameters: str = ""
    setting: str = Setting.TOLD
    seed: int
    jobs: int
    finished: int
    mean_jct_seconds: float
    p50_jct_seconds: float
    p99_jct_seconds: float
    utilisation: float
    resizes: float
    preemptions: float
    worst_share: float | None
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


def as_they_end(trials: Sequence[Trial], *, workers: int = WORKERS) -> Iterator[Outcome]:
    """Outcomes as they come, so that a slow trial keeps none back."""
    if workers == 1:
        yield from map(run, trials)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
        try:
            for future in as_completed([pool.submit(run, trial) for trial in trials]):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def run(trial: Trial) -> Outcome:
    """Simulate to the end."""
    given = trial.workload(trial.seed)
    jobs = kept_back(given.jobs, trial.setting, seed=trial.seed)
    text = f"{trial.recipe}({trial.parameters})" if trial.parameters else trial.recipe
    brain = TimedBrain(make_recipe(text))
    begin = process_time()
    world = World(
        given.cluster,
        jobs,
        brain,
        costs=trial.costs,
        seed=trial.seed,
        checks=trial.checks,
        keep_sittings=True,
    )
    record = world.run()
    cpu_seconds = process_time() - begin
    return _outcome(trial, record, brain, cpu_seconds, worst_share(record, jobs))


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


def compared(outcomes: Sequence[Outcome], base: Sequence[Outcome], field: str) -> Interval:
    """Quotients of a field to the base's, over the seeds that both have, with their interval."""
    by_seed = {outcome.seed: float(getattr(outcome, field)) for outcome in base}
    both = [outcome for outcome in outcomes if outcome.seed in by_seed]
    return interval([float(getattr(o, field)) / by_seed[o.seed] for o in both])


def _outcome(
    trial: Trial, record: Record, brain: TimedBrain, cpu_seconds: float, share: float | None
) -> Outcome:
    lines = list(record.jobs.values())
    ended = [line for line in lines if line.outcome == "succeeded"]
    jcts = np.array([line.jct_seconds for line in ended] or [np.nan])
    span = max((line.ended or 0.0 for line in ended), default=0.0) - lines[0].submitted
    held = sum(line.attained_gpu_seconds for line in lines)
    return Outcome(
        name=trial.name,
        recipe=trial.recipe,
        parameters=trial.parameters,
        setting=trial.setting,
        seed=trial.seed,
        jobs=len(lines),
        finished=len(ended),
        mean_jct_seconds=float(jcts.mean()),
        p50_jct_seconds=float(np.quantile(jcts, 0.5)),
        p99_jct_seconds=float(np.quantile(jcts, 0.99)),
        utilisation=held / max(record.total_gpus * span, 1e-9),
        resizes=sum(line.resizes for line in lines) / len(lines),
        preemptions=sum(line.preemptions for line in lines) / len(lines),
        worst_share=share,
        rounds=record.rounds,
        events=record.events,
        brain_cpu_seconds=brain.cpu_seconds,
        cpu_seconds=cpu_seconds,
    )
