"""Failures like Philly's: what fails, how often, after how long, and what is left of it.

The table is of the paper; the lines were written for the purpose, in the words of today's programs.
"""

import math
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, Final

JOBS: Final = 96_260
WORDS: Final = ("encoder", "imagenet", "bert", "wiki", "resnet", "head", "shard", "warmup")
SMALL_GPUS: Final = 4

Draw = Callable[[str], float]
"""A number from 0 to 1 by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhillyReason:
    """One row of the table."""

    name: str
    trials: int
    jobs: int
    minutes: tuple[float, float, float]
    by_gpus: tuple[int, int, int]
    cured: bool
    alone: bool

    @property
    def again(self) -> float:
        """The chance that the next try fails too, by trials per job."""
        return 1.0 - self.jobs / self.trials if self.cured else 1.0

    def jobs_of(self, gpus: int) -> float:
        """Jobs of about that width that it met."""
        column = 0 if gpus <= 1 else 1 if gpus <= SMALL_GPUS else 2
        return self.jobs * self.by_gpus[column] / self.trials

    def seconds(self, share: float) -> float:
        """Seconds to the failure: between known percentiles on a logarithmic scale."""
        p50, p90, p95 = self.minutes
        points = ((0.0, p50 / 10), (0.5, p50), (0.9, p90), (0.95, p95), (1.0, 2 * p95))
        for (low, a), (high, b) in pairwise(points):
            if share <= high:
                part = (share - low) / (high - low)
                return 60.0 * math.exp(math.log(a) + part * (math.log(b) - math.log(a)))
        return 120.0 * p95


def chosen(gpus: int, share: float) -> PhillyReason:
    """The reason for a job of that width, by shares of jobs."""
    reasons = philly_reasons()
    weights = [one.jobs_of(gpus) for one in reasons]
    left = share * sum(weights)
    for reason, weight in zip(reasons, weights, strict=True):
        left -= weight
        if left < 0:
            return reason
    return reasons[-1]


def ending(reason: PhillyReason, draw: Draw) -> tuple[str, ...]:
    """What is left of such a trial; a line of another stream begins with its name and a colon."""
    ends = philly_ends()[reason.name]
    texts = ends[int(draw("end") * len(ends))]
    return tuple(_worded(text, draw) for text in texts)


def failing_share() -> float:
    """The share of jobs that meet a failure."""
    return sum(one.jobs for one in philly_reasons()) / JOBS


@cache
def philly_reasons() -> tuple[PhillyReason, ...]:
    return tuple(
        PhillyReason(**(row | {"minutes": tuple(row["minutes"]), "by_gpus": tuple(row["by_gpus"])}))
        for row in _table()["reason"]
    )


def philly_ends() -> dict[str, Sequence[Sequence[str]]]:
    """By reason: ends, each of some lines."""
    ends: dict[str, Sequence[Sequence[str]]] = _table()["ends"]
    return ends


@cache
def _table() -> dict[str, Any]:
    text = files("weft.trace").joinpath("philly_failures.toml").read_text("utf-8")
    return tomllib.loads(text)


def _worded(text: str, draw: Draw) -> str:
    number = str(1 + int(draw("number") * 63))
    word = WORDS[int(draw("word") * len(WORDS))]
    host = f"node-{int(draw('host') * 99)}"
    return text.replace("{n}", number).replace("{w}", word).replace("{h}", host)
