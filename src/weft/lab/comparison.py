"""Recipes side by side over the same seeds, in parallel processes.

Every recipe sees the same workload and the same chances for a seed, so differences are taken pair
by pair and their intervals are much narrower than those of the recipes themselves.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing import active_children, get_context
from threading import current_thread, main_thread

import numpy as np

from weft.lab.experiment import Experiment, run
from weft.lab.interval import Interval, interval
from weft.lab.summary import Summary
from weft.model.errors import SpecError
from weft.spec.recipe import make_recipe

SCHEMA = "weft-compare/1"
QUANTILE_POINTS = 101


@dataclass(frozen=True, slots=True)
class Metric:
    """A column of the comparison: a field of the summary and how people call it."""

    field: str
    title: str
    unit: str


METRICS: tuple[Metric, ...] = (
    Metric("mean_jct_seconds", "mean JCT", "s"),
    Metric("median_jct_seconds", "median JCT", "s"),
    Metric("p95_jct_seconds", "p95 JCT", "s"),
    Metric("p99_jct_seconds", "p99 JCT", "s"),
    Metric("mean_start_delay_seconds", "start delay", "s"),
    Metric("mean_slowdown", "slowdown", "×"),
    Metric("utilisation_while_arriving", "GPUs in use", "%"),
    Metric("preemptions_per_job", "preempted", "× per job"),
    Metric("makespan_seconds", "makespan", "s"),
    Metric("jain_index", "Jain index", ""),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One recipe under one seed, small enough to come back from another process."""

    recipe: str
    seed: int
    summary: Summary
    jct_quantiles_seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One recipe over all seeds.

    `versus_first` are differences to the first recipe seed by seed, `ratio_to_first` quotients;
    there is none where the first recipe has a zero, or where a seed of either saw no job end:
    there is nothing to compare then. `ended` counts jobs, 0 where some seed saw none; `failed`
    are among them, and among those whose times are told.
    """

    recipe: str
    metrics: dict[str, Interval]
    versus_first: dict[str, Interval]
    ratio_to_first: dict[str, Interval | None]
    ended: int
    failed: int
    unfinished: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The table, and the trials it was made of in the order recipe, seed."""

    experiment: Experiment
    seeds: tuple[int, ...]
    rows: tuple[Row, ...]
    trials: tuple[Trial, ...]

    def trials_of(self, recipe: str) -> tuple[Trial, ...]:
        return tuple(trial for trial in self.trials if trial.recipe == recipe)

    def as_dict(self) -> dict[str, object]:
        """Its JSON twin."""
        return {
            "schema": SCHEMA,
            "workload": self.experiment.source.label,
            "cluster": self.experiment.cluster,
            "costs": self.experiment.costs,
            "cost_scale": self.experiment.cost_scale,
            "failures": self.experiment.failures,
            "seeds": list(self.seeds),
            "recipes": [asdict(row) for row in self.rows],
            "trials": [trial.summary.as_dict() for trial in self.trials],
        }


def compare(
    experiment: Experiment,
    *,
    recipes: Sequence[str],
    seeds: Sequence[int],
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Every recipe under every seed."""
    _check(recipes, seeds)
    planned = [
        replace(experiment, recipe=recipe, seed=seed) for seed in seeds for recipe in recipes
    ]
    done: list[Trial] = []
    for trial in _trials(planned, min(workers, len(planned))):
        done.append(trial)
        if progress is not None:
            progress(len(done), len(planned))
    done.sort(key=lambda trial: (recipes.index(trial.recipe), seeds.index(trial.seed)))
    return Comparison(
        experiment=experiment,
        seeds=tuple(seeds),
        rows=tuple(_row(recipe, done, recipes[0]) for recipe in recipes),
        trials=tuple(done),
    )


def run_trial(experiment: Experiment) -> Trial:
    """What a worker process does."""
    outcome = run(experiment)
    jcts = [line.jct_seconds for line in outcome.record.jobs.values() if line.ended is not None]
    shares = np.linspace(0.0, 1.0, QUANTILE_POINTS)
    quantiles = np.quantile(np.array(jcts, float), shares).tolist() if jcts else []
    return Trial(
        recipe=experiment.recipe,
        seed=experiment.seed,
        summary=outcome.summary,
        jct_quantiles_seconds=tuple(quantiles),
    )


def _check(recipes: Sequence[str], seeds: Sequence[int]) -> None:
    """Everything that can be wrong with the names is said before the first minute is spent."""
    if not recipes or not seeds:
        raise SpecError("nothing to compare", hint="give at least one recipe and one seed")
    for name, things in (("recipe", recipes), ("seed", seeds)):
        if len(set(things)) < len(things):
            raise SpecError(f"a {name} is given twice", hint=f"give every {name} once")
    for recipe in recipes:
        make_recipe(recipe)


def _trials(planned: Sequence[Experiment], workers: int) -> Iterator[Trial]:
    """Trials as they end. Workers are spawned, so that they share nothing by accident."""
    if workers <= 1:
        yield from map(run_trial, planned)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        try:
            with _interrupts_held_back():
                futures = [pool.submit(run_trial, experiment) for experiment in planned]
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool:
            raise SpecError(
                "a process of the comparison ended in the middle of a trial",
                hint="with --workers 1 it runs here; too little memory, or a recipe that ends it?",
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in active_children():
                worker.kill()  # whoever has pressed Ctrl-C does not wait for the end of a trial
            raise


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Processes begun meanwhile never mind Ctrl-C: it is for this one to end them, once all of them
    have begun. A mask alone does not hold it back: another thread of this process may take it."""
    if current_thread() is not main_thread():
        yield  # nobody is interrupted there
        return
    pressed: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGINT, handler or signal.default_int_handler)
    if pressed:
        raise KeyboardInterrupt


def _row(recipe: str, trials: Sequence[Trial], first: str) -> Row:
    own = [trial.summary for trial in trials if trial.recipe == recipe]
    base = [trial.summary for trial in trials if trial.recipe == first]
    pairs = {metric.field: _pairs(own, base, metric) for metric in METRICS}
    ended = min(_ended(summary) for summary in own) and sum(map(_ended, own))
    comparable = bool(ended) and all(map(_ended, base))
    return Row(
        recipe=recipe,
        metrics={name: interval([a for a, _ in pair]) for name, pair in pairs.items()},
        versus_first={name: interval([a - b for a, b in pair]) for name, pair in pairs.items()},
        ratio_to_first={name: _ratio(pair) if comparable else None for name, pair in pairs.items()},
        ended=ended,
        failed=sum(summary.failed for summary in own),
        unfinished=sum(summary.unfinished for summary in own),
    )


def _ended(summary: Summary) -> int:
    return summary.jobs - summary.unfinished


def _pairs(
    own: Sequence[Summary], base: Sequence[Summary], metric: Metric
) -> list[tuple[float, float]]:
    return [
        (getattr(a, metric.field), getattr(b, metric.field)) for a, b in zip(own, base, strict=True)
    ]


def _ratio(pairs: Sequence[tuple[float, float]]) -> Interval | None:
    return interval([a / b for a, b in pairs]) if all(b for _, b in pairs) else None
