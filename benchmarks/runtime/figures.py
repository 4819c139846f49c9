"""Many measurements of one thing, as rows: the median, and the worst beside it."""

from collections.abc import Iterator, Sequence
from statistics import median

from benchmarks.row import Row, at_most, told

MS = 1e3


def spread(name: str, values: Sequence[float], unit: str) -> Row:
    """Told: the median, and beside it the worst."""
    if not values:
        return told(name, None, unit)
    return told(name, median(values), unit, peer="worst", peer_value=max(values))


def held(name: str, values: Sequence[float], unit: str, bar: float, *, judged: bool = True) -> Row:
    """The median, held to a bar where it is judged; beside it the worst."""
    if not judged:
        return spread(name, values, unit)
    middle = median(values) if values else float("nan")
    worst = max(values, default=None)
    return at_most(name, middle, unit, bar, peer="worst", peer_value=worst)


def each_held(
    name: str, values: Sequence[float], unit: str, bar: float, *, judged: bool = True
) -> Row:
    """The worst, held to a bar where it is judged; beside it the median."""
    if not judged:
        return spread(name, values, unit)
    worst = max(values, default=float("nan"))
    middle = median(values) if values else None
    return at_most(f"{name}, worst", worst, unit, bar, peer="median", peer_value=middle)


def in_ms(seconds: Sequence[float]) -> list[float]:
    return [MS * value for value in seconds]


def only_full(part: str, *what: str) -> Iterator[Row]:
    """Say what the short form leaves out."""
    for each in what:
        yield told(f"{part}: {each}: not in the short form", None, "")
