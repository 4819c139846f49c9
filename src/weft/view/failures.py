"""Tries of jobs that failed: why, what that cost, and which causes cost the most."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

HOUR_SECONDS: Final = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureLine:
    """A try that failed: what was found, the line that decided, what was done and what to do.

    `namespace` is whose job it is, `log` is what to type to see what the rank has printed, and
    `lost_gpu_seconds` is what it had computed that nobody can go on from.
    """

    namespace: str
    job: str
    queue: str
    epoch: int
    at: datetime | None
    kind: str
    rule: str
    says: str
    line: str
    fault: str
    did: str
    advice: str
    rank: int | None = None
    node: str | None = None
    log: str = ""
    lost_gpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class FailurePage:
    """Failed tries, the latest first; `left` earlier ones were not read."""

    failures: tuple[FailureLine, ...]
    left: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What failed tries have in common; shares are of all GPU time that was lost."""

    name: str
    says: str
    failures: int
    jobs: int
    owners: int
    lost_gpu_hours: float
    share: float
    so_far: float


def by_rule(line: FailureLine) -> str:
    return f"{line.kind}: {line.rule}"


def by_kind(line: FailureLine) -> str:
    return line.kind


def by_queue(line: FailureLine) -> str:
    return line.queue


def by_owner(line: FailureLine) -> str:
    return line.namespace


def pareto(
    failures: Iterable[FailureLine], key: Callable[[FailureLine], str] = by_rule
) -> tuple[Cause, ...]:
    """The dearest first, then the most frequent."""
    groups: dict[str, list[FailureLine]] = defaultdict(list)
    for line in failures:
        groups[key(line)].append(line)
    total = sum(line.lost_gpu_seconds for lines in groups.values() for line in lines)
    order = sorted(groups.items(), key=lambda pair: (-_lost(pair[1]), -len(pair[1]), pair[0]))
    found, so_far = [], 0.0
    for name, lines in order:
        so_far += _lost(lines)
        found.append(_cause(name, lines, total, so_far))
    return tuple(found)


def _cause(name: str, lines: list[FailureLine], total: float, so_far: float) -> Cause:
    lost = _lost(lines)
    return Cause(
        name=name,
        says=lines[0].says,
        failures=len(lines),
        jobs=len({(line.namespace, line.job) for line in lines}),
        owners=len({line.namespace for line in lines}),
        lost_gpu_hours=lost / HOUR_SECONDS,
        share=lost / total if total else 0.0,
        so_far=so_far / total if total else 0.0,
    )


def _lost(lines: Iterable[FailureLine]) -> float:
    return sum(line.lost_gpu_seconds for line in lines)
