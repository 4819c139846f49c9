"""How often to save: as often as failures make it worth the time that saving takes.

Young's rule: with `w` seconds lost at each save and a failure every `M` seconds on average, what is
lost is least when a save comes every sqrt(2 w M) seconds. A job fails the more often the more nodes
it has; small jobs die of other things than nodes, so what was observed of jobs like it counts too.
"""

from collections.abc import Collection
from dataclasses import dataclass
from math import exp, expm1, isfinite, sqrt
from typing import Final

from weft.model.errors import SpecError

DAY_SECONDS: Final = 86_400.0
NODE_FAULTS_PER_DAY: Final = 6.5 / 1_000
"""Per node, as Meta told of its larger research cluster."""

NODE_GPUS: Final = 8
KNOWN_NODE_DAYS: Final = 1_000.0
"""What Meta told weighs as much as so many days of nodes of one's own."""

MOST_SECONDS: Final = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalTerms:
    """Bounds of what is advised: nobody loses more than an hour, or half of one if it may have to
    make way; and nobody spends more than a tenth of its time on saving."""

    shortest_seconds: float = 60.0
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


def observed_node_faults_per_day(
    faults_at_seconds: Collection[float], nodes: int, at_seconds: float
) -> float:
    """Per node: what is commonly known, drawn to what was seen here, the more the longer."""
    seen = at_seconds - min(faults_at_seconds) if faults_at_seconds else 0.0
    days = max(seen / DAY_SECONDS, 1.0) if faults_at_seconds else 0.0
    faults = KNOWN_NODE_DAYS * NODE_FAULTS_PER_DAY + len(faults_at_seconds)
    return faults / (KNOWN_NODE_DAYS + days * max(nodes, 1))


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


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one save: how long training stood still for it, and how long it was written beside it."""

    stopped_seconds: float
    written_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Advice:
    """What whoever saves has to know of failures; only there it is known what a save costs.

    It is told for one GPU, so that it holds at whatever width the job has: n of them fail n times
    as often.
    """

    gpu_seconds_between_failures: float
    longest_seconds: float = TERMS.longest_if_preemptible_seconds

    def interval_seconds(self, gpus: int, cost: Cost | None, terms: IntervalTerms = TERMS) -> float:
        """How often to save; soon for the first time, which shows what it costs."""
        if cost is None:
            return terms.shortest_seconds
        between = self.gpu_seconds_between_failures / max(gpus, 1)
        best = min(young_seconds(cost.stopped_seconds, between), self.longest_seconds)
        least = (cost.stopped_seconds + cost.written_seconds) / terms.most_share
        return _rounded(max(best, least, terms.shortest_seconds))

    def __str__(self) -> str:
        return f"{self.gpu_seconds_between_failures:.0f}:{self.longest_seconds:.0f}"

    @classmethod
    def parse(cls, text: str) -> "Advice":
        """What `str` wrote."""
        between, _, longest = text.partition(":")
        try:
            found = cls(float(between), float(longest))
        except ValueError:
            found = cls(float("nan"))
        numbers = (found.gpu_seconds_between_failures, found.longest_seconds)
        if not all(isfinite(one) and 0.0 < one <= MOST_SECONDS for one in numbers):
            raise SpecError(
                f"{text[:40]!r} is no advice on saving",
                hint="write the seconds between failures of one GPU, and the longest interval: "
                "100000000:1800",
            )
        return found


def _rounded(seconds: float) -> float:
    """To two figures: what is measured anew each time need not be told anew."""
    return float(f"{seconds:.2g}")


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
