"""Tables of the contest in Markdown: the verdict by workload, and all columns side by side."""

from collections.abc import Iterable, Iterator, Sequence

from benchmarks.elastic.columns import OWN, Column
from benchmarks.elastic.settings import SCORED, Setting
from benchmarks.elastic.trials import Outcome
from benchmarks.elastic.verdict import MEDIAN, TAIL, Contest
from weft.lab.interval import Interval, interval

HEADER = (
    *("", f"`{OWN.recipe}`, h", "best other", "mean", "median", "p99"),
    *("preemptions", "resizes", "utilisation", "worst share"),
)


def markdown(outcomes: Iterable[Outcome], setting: Setting = SCORED) -> str:
    """Per workload: our own mean time, the best other column, quotients to it, figures of both."""
    contest = Contest.of(outcomes, setting)
    lines = [list(HEADER), ["---"] * len(HEADER)]
    lines += [[name, *_verdict(contest, name)] for name in contest.workloads]
    return "\n".join(map(_line, lines))


def markdown_of_all(outcomes: Sequence[Outcome]) -> str:
    """Every setting: mean times of all columns by workload, relative to our own."""
    return "\n\n".join(
        f"{setting}\n\n{_columns(Contest.of(outcomes, setting))}"
        for setting in Setting
        if any(outcome.setting == setting for outcome in outcomes)
    )


def _verdict(contest: Contest, name: str) -> Iterator[str]:
    best = contest.best_on(name)
    own, theirs = contest.results[name, OWN], contest.results[name, best]
    yield _told(interval([outcome.mean_jct_seconds / 3600.0 for outcome in own]))
    yield f"`{best.label}`"
    yield f"**{_told(contest.quotient(name, best))}**"
    yield from (_told(contest.quotient(name, best, field)) for field in (MEDIAN, TAIL))
    for field in ("preemptions", "resizes", "utilisation", "worst_share"):
        yield f"{_mean(own, field)} / {_mean(theirs, field)}"


def _columns(contest: Contest) -> str:
    columns = [
        column for column in dict.fromkeys(one for _, one in contest.results) if column != OWN
    ]
    names = contest.workloads
    lines = [["", *names], ["---"] * (len(names) + 1)]
    lines += [
        [f"`{one.label}`", *(_relative(contest, name, one) for name in names)] for one in columns
    ]
    return "\n".join(map(_line, lines))


def _relative(contest: Contest, name: str, column: Column) -> str:
    if (name, column) not in contest.results:
        return "–"
    return f"{1.0 / contest.quotient(name, column).mean:.3f}"


def _mean(outcomes: Sequence[Outcome], field: str) -> str:
    found = [getattr(outcome, field) for outcome in outcomes]
    return "–" if None in found else f"{sum(found) / len(found):.2f}"


def _told(found: Interval) -> str:
    if found.half_width is None:
        return f"{found.mean:.3g}"
    return f"{found.mean:.3g} ± {found.half_width:.2g}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
