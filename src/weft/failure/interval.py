"""How often to save: as often as failures make it worth the time that saving takes.

Young's rule: with `w` seconds lost at each save and a failure every `M` seconds on average, what is
lost is least when a save comes every sqrt(2 w M) seconds. A job fails the more often the more nodes
it has; small jobs die of other things than nodes, so what was observed of jobs like it counts too.
"""

from dataclasses import dataclass
from math import exp, expm1, sqrt
from typing import Final

DAY_SECONDS: Final = 86_400.0
NODE_FAULTS_PER_DAY: Final = 6.5 / 1_000
"""Per node, as Meta told of its larger research cluster."""

NODE_GPUS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalTerms:
    """Bounds of what is advised: nobody loses more than an hour, or half of one if it may have to
    make way; and nobody spends more than a tenth of its time on saving."""

    longest_seconds: float = 3_600.0
    longest_if_preemptible_seconds: float = 1_800.0
    most_share: float = 0.1


TERMS: Final = IntervalTerms()


def seconds_between_failures(
    gpus: int,
    *,
    node_faults_per_day: float = NODE_FAULTS_PER_DAY,
    observed_seconds: float | None = None,
    node_gpus: int = NODE_GPUS,
) -> float:
    """What a job of so many GPUs can expect: by its nodes, or less if that was observed."""
    nodes = max(gpus / node_gpus, 1.0 / node_gpus)
    by_nodes = DAY_SECONDS / (nodes * node_faults_per_day)
    return by_nodes if observed_seconds is None else min(by_nodes, observed_seconds)


def young_seconds(save_seconds: float, between_failures_seconds: float) -> float:
    """Before any bound."""
    return sqrt(2.0 * save_seconds * between_failures_seconds)


def advised_seconds(
    save_seconds: float,
    between_failures_seconds: float,
    *,
    preemptible: bool = True,
    terms: IntervalTerms = TERMS,
) -> float:
    """How often a job should save."""
    longest = terms.longest_if_preemptible_seconds if preemptible else terms.longest_seconds
    least = save_seconds / terms.most_share
    return max(min(young_seconds(save_seconds, between_failures_seconds), longest), least)


def useful_share(
    interval_seconds: float,
    save_seconds: float,
    between_failures_seconds: float,
    *,
    restart_seconds: float = 300.0,
) -> float:
    """Of its time, what a job trains that is not lost, where failures come by chance.

    Daly's closed form: a stretch of work and the save after it are done again until no failure
    comes between, each time after a restart.
    """
    mean = between_failures_seconds
    stretch = interval_seconds + save_seconds
    took = mean * exp(restart_seconds / mean) * expm1(stretch / mean)
    return interval_seconds / took
