"""Retry: failed trials drawn from Philly's table, beside a fixed number of three retries.

A trial of a deterministic reason fails again however often it is tried. Each trial stands for
itself, as the requirement counts; what repeats of one job do to the transient ones is told beside
it: Philly's trials per job make a later one a repeat, and after three without progress a job ends.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.failures.philly import DETERMINISTIC, TRANSIENT, Philly, Trial
from benchmarks.row import Row, at_least, exactly, told
from weft.failure.classes import FailureClass, Retry
from weft.failure.diagnosis import Diagnosis, diagnose
from weft.failure.retry import FRESH, Run, Terms, decide
from weft.failure.rulebook import shipped
from weft.model.ids import JobId, NodeId

TRIALS, SHORT_TRIALS = 10_000, 1_500
FIXED_RETRIES: Final = 3
NODES: Final = 400
SAVES_MINUTES: Final = 60.0
TERMS: Final = Terms(max_retries=FIXED_RETRIES)


@dataclass(slots=True)
class Tally:
    """What became of the trials."""

    retries: Counter[str] = field(default_factory=Counter)
    trials: Counter[str] = field(default_factory=Counter)
    first_retried: Counter[str] = field(default_factory=Counter)
    failures: int = 0
    failures_retried: int = 0
    passed: int = 0


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """Ten thousand trials."""
    chance = random.Random(11)
    trials = Philly(traces).drawn(SHORT_TRIALS if short else TRIALS, chance)
    tally = Tally()
    for number, trial in enumerate(trials):
        if trial.reason in DETERMINISTIC:
            _deterministic(trial, number, chance, tally)
        elif trial.reason in TRANSIENT:
            _transient(trial, number, chance, tally)
    fixed = FIXED_RETRIES * sum(tally.trials[reason] for reason in DETERMINISTIC)
    ours = sum(tally.retries[reason] for reason in DETERMINISTIC)
    yield at_least("retries of deterministic reasons saved", 100.0 * (1 - ours / fixed), "%", 85.0)
    yield told("… retries", ours, "retries", peer="always three", peer_value=fixed)
    inputs = tally.retries["incorrect_inputs"]
    yield told("… of them to confirm that inputs are at fault", inputs, "retries")
    transient = sum(tally.trials[reason] for reason in TRANSIENT)
    retried = sum(tally.first_retried[reason] for reason in TRANSIENT)
    yield at_least("transient failures retried", 100.0 * retried / transient, "%", 99.0)
    share = 100.0 * tally.failures_retried / tally.failures
    yield told("… with repeats by Philly's trials per job", share, "%")
    yield told("… jobs that got through in the end", 100.0 * tally.passed / transient, "%")
    yield exactly("attempts of a job that repeats itself without progress", _attempts(), "", 3)
    yield exactly("attempts of one that saves something new each time, of 50", _advancing(), "", 50)


def _deterministic(trial: Trial, number: int, chance: random.Random, tally: Tally) -> None:
    """It fails at the same place each time, from its last checkpoint if it has one."""
    tally.trials[trial.reason] += 1
    state, clock = FRESH, 0.0
    saved = int(trial.minutes // SAVES_MINUTES) or None
    for attempt in range(FIXED_RETRIES):
        ran = 60.0 * (trial.minutes % SAVES_MINUTES if attempt and saved else trial.minutes)
        clock += ran
        found = diagnose(trial.log(chance), shipped())
        run = Run(
            job=JobId(f"j{number}"),
            at_seconds=clock,
            ran_seconds=ran,
            nodes=_nodes(trial, chance),
            saved=saved,
        )
        verdict, state = decide(found, run, state, TERMS)
        if verdict.retry_after_seconds is None:
            return
        clock += verdict.retry_after_seconds
        tally.retries[trial.reason] += 1


def _transient(trial: Trial, number: int, chance: random.Random, tally: Tally) -> None:
    """It passes in the end, unless it is given up before."""
    tally.trials[trial.reason] += 1
    state, clock, first, saved = FRESH, 0.0, True, 0
    while True:
        ran = 60.0 * trial.minutes
        clock += ran
        saved += int(trial.minutes // SAVES_MINUTES)
        found = diagnose(trial.log(chance), shipped())
        run = Run(
            job=JobId(f"j{number}"),
            at_seconds=clock,
            ran_seconds=ran,
            nodes=_nodes(trial, chance),
            saved=saved or None,
        )
        verdict, state = decide(found, run, state, TERMS)
        again = verdict.retry_after_seconds is not None
        tally.first_retried[trial.reason] += again and first
        tally.failures += 1
        tally.failures_retried += again
        if not again:
            return
        first = False
        clock += verdict.retry_after_seconds or 0.0
        if chance.random() >= trial.again:
            tally.passed += 1
            return


def _nodes(trial: Trial, chance: random.Random) -> frozenset[NodeId]:
    count = max(1, trial.gpus // 8)
    return frozenset(NodeId(f"n{one}") for one in chance.sample(range(NODES), count))


# --- progress -------------------------------------------------------------------------------------


def _attempts() -> int:
    state = FRESH
    for attempt in range(1, 51):
        run = Run(job=JobId("j"), at_seconds=attempt * 3600.0, ran_seconds=1800.0)
        verdict, state = decide(_lost(), run, state, TERMS)
        if verdict.retry_after_seconds is None:
            return attempt
    return 50


def _advancing() -> int:
    state = FRESH
    for attempt in range(1, 51):
        run = Run(
            job=JobId("j"), at_seconds=attempt * 3600.0, ran_seconds=1800.0, saved=attempt * 10
        )
        verdict, state = decide(_lost(), run, state, TERMS)
        if verdict.retry_after_seconds is None:
            return attempt
    return 50


def _lost() -> Diagnosis:
    kind = FailureClass.NODE
    return Diagnosis(
        kind=kind,
        rule="node_fail",
        says="its node was lost",
        cure=Retry.MOVE,
        advice=kind.facts.advice,
        line="node n NotReady",
        fingerprint="f",
    )
