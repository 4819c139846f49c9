"""The verdict: Weft's own recipe beside the best of all others, seed by seed.

Of every other recipe, in every configuration, the one with the shortest mean completion time over
all workloads is the one to beat: somebody who runs a cluster has to choose one. On each workload by
itself the best one there counts, which is harder: it is chosen afterwards, with its luck. Quotients
are taken between equal seeds and told with their 95 % interval; over workloads the mean is
geometric.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

from benchmarks.elastic.columns import AS_IT_IS, COLUMNS, OWN, OWN_RECIPE, Column
from benchmarks.elastic.settings import SCORED, Setting
from benchmarks.elastic.trials import Outcome, compared
from benchmarks.row import Row, at_most, broken, told
from weft.lab.interval import Interval, interval

MEAN_BAR, WORST_BAR = 0.95, 1.02
MEDIAN_BAR = TAIL_BAR = 1.05
PREEMPTIONS_BAR = 1.5

MEAN, MEDIAN, TAIL = "mean_jct_seconds", "p50_jct_seconds", "p99_jct_seconds"

_BY_PARAMETERS = {(column.recipe, column.parameters): column for column in COLUMNS}

Results = Mapping[tuple[str, Column], Sequence[Outcome]]


@dataclass(frozen=True, slots=True)
class Contest:
    """The outcomes of one setting, by workload and column."""

    setting: Setting
    results: Results

    @classmethod
    def of(cls, outcomes: Iterable[Outcome], setting: Setting = SCORED) -> "Contest":
        results: dict[tuple[str, Column], list[Outcome]] = {}
        for outcome in outcomes:
            if outcome.setting == setting:
                results.setdefault((outcome.name, column_of(outcome)), []).append(outcome)
        return cls(setting, results)

    @property
    def workloads(self) -> list[str]:
        """Those on which our own recipe was run, and another."""
        names = dict.fromkeys(name for name, column in self.results if column == OWN)
        return [name for name in names if self.rivals(name)]

    def rivals(self, name: str) -> list[Column]:
        """Columns of other recipes that were run on it with a seed that our own has too."""
        own = {outcome.seed for outcome in self.results.get((name, OWN), ())}
        return [
            column
            for (workload, column), outcomes in self.results.items()
            if workload == name and column.recipe != OWN_RECIPE
            if own & {outcome.seed for outcome in outcomes}
        ]

    def best_on(self, name: str) -> Column:
        return max(self.rivals(name), key=lambda one: self.quotient(name, one).mean)

    def best(self) -> Column | None:
        """Of those that were run on every workload."""
        names = self.workloads
        everywhere = [
            column
            for column in dict.fromkeys(column for name in names for column in self.rivals(name))
            if all(column in self.rivals(name) for name in names)
        ]
        if not everywhere:
            return None
        return max(everywhere, key=lambda one: self.over_workloads(one, MEAN).mean)

    def quotient(self, name: str, other: Column, field: str = MEAN) -> Interval:
        """Our own over the other's, on one workload."""
        return compared(self.results[name, OWN], self.results[name, other], field)

    def over_workloads(self, other: Column, field: str) -> Interval:
        """The same over all of them: for every seed that all share, else for the means."""
        names = self.workloads
        shared = set.intersection(*(self._seeds(name, other) for name in names))
        if not shared:
            means = [self.quotient(name, other, field).mean for name in names]
            return Interval(geometric(means), None)
        return interval([self._at_seed(seed, other, field) for seed in sorted(shared)])

    def mean(self, column: Column, field: str) -> float:
        """Of the figure itself over all workloads and seeds."""
        return fmean(
            fmean(float(getattr(outcome, field)) for outcome in self.results[name, column])
            for name in self.workloads
        )

    def _seeds(self, name: str, other: Column) -> set[int]:
        own, theirs = (
            {outcome.seed for outcome in self.results[name, column]} for column in (OWN, other)
        )
        return own & theirs

    def _at_seed(self, seed: int, other: Column, field: str) -> float:
        return geometric(
            [
                self._figure(name, OWN, seed, field) / self._figure(name, other, seed, field)
                for name in self.workloads
            ]
        )

    def _figure(self, name: str, column: Column, seed: int, field: str) -> float:
        found = next(one for one in self.results[name, column] if one.seed == seed)
        return float(getattr(found, field))


def judged(contest: Contest) -> Iterator[Row]:
    """The bars first, then workload by workload."""
    best = contest.best()
    if best is None:
        yield broken(f"{contest.setting}: contest", "no other recipe was run on every workload")
        return
    yield from _over_all(contest, best)
    yield _worst(contest)
    yield _preemptions(contest, best)
    yield _unfinished(contest)
    for name in contest.workloads:
        yield _beside(contest, name)


def column_of(outcome: Outcome) -> Column:
    """By the parameters that were given."""
    known = _BY_PARAMETERS.get((outcome.recipe, outcome.parameters))
    return known or Column(outcome.recipe, outcome.parameters or AS_IT_IS)


def geometric(values: Sequence[float]) -> float:
    return exp(fmean(log(value) for value in values))


def _over_all(contest: Contest, best: Column) -> Iterator[Row]:
    for what, field, bar in (
        ("mean", MEAN, MEAN_BAR),
        ("median", MEDIAN, MEDIAN_BAR),
        ("p99", TAIL, TAIL_BAR),
    ):
        found = contest.over_workloads(best, field)
        over = f"{what} JCT over {len(contest.workloads)} workloads"
        name = f"{OWN.recipe} / best other ({best.label}): {over}"
        yield at_most(name, found.mean, "×", bar, peer="± 95 %", peer_value=found.half_width)


def _worst(contest: Contest) -> Row:
    """Where our own recipe is furthest behind the best other one there."""
    name = max(
        contest.workloads,
        key=lambda one: contest.quotient(one, contest.best_on(one)).mean,
    )
    best = contest.best_on(name)
    found = contest.quotient(name, best)
    return at_most(
        f"{OWN.recipe} / best other there, where that is most: {name} ({best.label})",
        found.mean,
        "×",
        WORST_BAR,
        peer="± 95 %",
        peer_value=found.half_width,
    )


def _preemptions(contest: Contest, best: Column) -> Row:
    own, theirs = (contest.mean(column, "preemptions") for column in (OWN, best))
    return at_most(
        f"{OWN.recipe}: preemptions per job, at most {PREEMPTIONS_BAR:g} × {best.label}'s",
        own,
        "",
        PREEMPTIONS_BAR * theirs,
        peer=best.label,
        peer_value=theirs,
    )


def _unfinished(contest: Contest) -> Row:
    lost = sum(one.jobs - one.finished for many in contest.results.values() for one in many)
    return at_most("jobs not finished, all columns", lost, "", 0)


def _beside(contest: Contest, name: str) -> Row:
    best = contest.best_on(name)
    found = contest.quotient(name, best)
    first = OWN.label if found.mean <= 1.0 else best.label
    return told(
        f"{name}: mean JCT, {OWN.recipe} / {best.label}; best is {first}",
        found.mean,
        "×",
        peer="± 95 %",
        peer_value=found.half_width,
    )
