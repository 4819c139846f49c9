"""Units of time and memory that the name of a column states: `Runtime (min)`, `mem_mb`.

A column of the job table counts seconds or GiB. A column that is mapped to it may count something
else and say so in its name; its plain numbers are then converted, and a remark says how. A name
that may mean several units is refused where the column holds plain numbers, because 90 minutes that
are read as 90 seconds look like any other job.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import partial
from typing import Final

from weft.model.errors import SpecError, UnknownName

ONE: Final = Fraction(1)


class Dimension(StrEnum):
    """What a column measures."""

    TIME = "time"
    MEMORY = "memory"

    @property
    def base(self) -> str:
        """The unit in which the job table counts it."""
        return "s" if self is Dimension.TIME else "GiB"


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit; `factor` is its size in the base unit of its dimension."""

    name: str
    dimension: Dimension
    factor: Fraction


@dataclass(frozen=True, slots=True)
class ColumnUnit:
    """The unit of a column's plain numbers.

    `source` is the column whose name states it, empty where the caller states it.
    """

    unit: Unit
    source: str = ""


#: Factor of the base unit, words that mean the unit anywhere in a name, and abbreviations that
#: mean it at the end of a name or in brackets. The first abbreviation is the name of the unit.
_TIME: Final = (
    (Fraction(1, 10**9), "nanosecond nanoseconds nanos nsec nsecs", "ns"),
    (Fraction(1, 10**6), "microsecond microseconds micros usec usecs", "us µs μs"),
    (Fraction(1, 1000), "millisecond milliseconds millis msec msecs", "ms"),
    (ONE, "second seconds secs", "s sec"),
    (Fraction(60), "minute minutes mins", "min"),
    (Fraction(3600), "hour hours hrs", "h hr"),
    (Fraction(86_400), "day days", "d"),
    (Fraction(604_800), "week weeks", "wk"),
)
_GIB: Final = 2**30
_MEMORY: Final = (
    (Fraction(1, _GIB), "byte bytes", "bytes"),
    (Fraction(10**3, _GIB), "kbyte kbytes kilobyte kilobytes", "kB kb"),
    (Fraction(10**6, _GIB), "mbyte mbytes megabyte megabytes", "MB mb"),
    (Fraction(10**9, _GIB), "gbyte gbytes gigabyte gigabytes", "GB gb"),
    (Fraction(10**12, _GIB), "tbyte tbytes terabyte terabytes", "TB tb"),
    (Fraction(2**10, _GIB), "kibibyte kibibytes", "KiB kib"),
    (Fraction(2**20, _GIB), "mebibyte mebibytes", "MiB mib"),
    (ONE, "gibibyte gibibytes", "GiB gib"),
    (Fraction(2**10), "tebibyte tebibytes", "TiB tib"),
)


def _units() -> Iterator[tuple[Unit, list[str], list[str]]]:
    for dimension, table in ((Dimension.TIME, _TIME), (Dimension.MEMORY, _MEMORY)):
        for factor, words, short in table:
            names = short.split()
            yield Unit(names[0], dimension, factor), words.split(), [one.lower() for one in names]


_WORDS: Final = {word: unit for unit, words, _ in _units() for word in words}
_ALL: Final = _WORDS | {name: unit for unit, _, short in _units() for name in short}
#: What may be several units, or one of no fixed length.
_AMBIGUOUS: Final[Mapping[Dimension, frozenset[str]]] = {
    Dimension.TIME: frozenset(
        ["m", "mo", "mon", "month", "months", "y", "yr", "year", "years", "w"]
    ),
    Dimension.MEMORY: frozenset(["b", "k", "m", "g", "t", "p", "bit", "bits"]),
}
#: What means a unit behind other words, and a quantity where it is the whole name.
_SYMBOLS: Final = frozenset(["d", "w", "b", "k", "g", "t", "p"])
#: What may stand in brackets and is no unit: clocks and zones.
_NO_UNIT: Final = frozenset(
    {
        *("in", "the", "of", "since", "utc", "gmt", "local", "epoch", "unix", "iso", "iso8601"),
        *("wall", "raw", "total", "clock", "time"),
    }
)
_CLOCK: Final = frozenset({"hh", "mm", "ss"})
_DEVICES: Final = ("gpu", "gpus", "cpu", "cpus", "core", "cores", "node", "nodes", "card", "cards")
_ONE_GPU: Final = frozenset({"gpu", "card"})
_STATISTICS: Final = frozenset({"max", "mean", "avg", "median", "std"})
_BRACKETS: Final = re.compile(r"[(\[{<]([^)\]}>]*)[)\]}>]")
_TOKEN: Final = re.compile(
    r"[KMGT]i?B(?![a-z])|[A-Z]+s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-zµμ]+|\d+|/|[^\W\d_a-zA-Z]+"
)
_GLUED: Final = re.compile(r"(.+?)((?:milli|micro|nano)?seconds|minutes|hours|secs|mins|hrs)")


def scaled(value: float, factor: Fraction) -> float:
    """The product, exact where the factor is one."""
    return value if factor == ONE else value * factor.numerator / factor.denominator


def dimension_of(column: str) -> Dimension | None:
    """What a column of the job table measures, None where it counts or names something."""
    if column.endswith("_seconds"):
        return Dimension.TIME
    return Dimension.MEMORY if column.startswith("memory_gib") else None


def named_unit(name: str, column: str) -> Unit:
    """The unit that the caller states for one of our columns."""
    dimension = dimension_of(column)
    if dimension is None:
        raise SpecError(
            f"column '{column}' has the unit '{name}', but it holds neither a time nor memory",
            hint=f"leave ':{name}' out",
        )
    unit = _ALL.get(name.lower())
    if unit is None or unit.dimension is not dimension:
        raise UnknownName(
            f"'{name}' is no unit of {dimension} for column '{column}'",
            hint=f"units: {', '.join(unit_names(dimension))}",
        )
    return unit


def unit_names(dimension: Dimension) -> list[str]:
    """What may be stated."""
    return [unit.name for unit, _, _ in _units() if unit.dimension is dimension]


def unit_in_name(name: str, column: str, *, header: Collection[str] = ()) -> Unit | None:
    """The unit that a name states for a column of the job table, None where it states none.

    `ValueError` says why the name is no clear statement. `header` holds the names beside it: next
    to `runtime_max`, `runtime_min` is a minimum and no number of minutes.
    """
    dimension = dimension_of(column)
    if dimension is None:
        return None
    read = partial(_stated, dimension=dimension, per_gpu=column.endswith("_per_gpu"))
    stated = set(read(_tokens(_BRACKETS.sub(" ", name)), bracketed=False))
    for text in _BRACKETS.findall(name):
        stated |= set(read(_tokens(text), bracketed=True))
    if not stated:
        return None
    if len(stated) > 1:
        raise ValueError(f"states {' and '.join(sorted(unit.name for unit in stated))}")
    (unit,) = stated
    if unit.dimension is not dimension:
        raise ValueError(f"states {unit.name}, which is no unit of {dimension}")
    if _is_minimum(name, header):
        raise ValueError("may state minutes or a minimum")
    return unit


def _stated(
    tokens: list[str], *, bracketed: bool, dimension: Dimension, per_gpu: bool
) -> Iterator[Unit]:
    """Words of units anywhere, abbreviations at the end and in brackets."""
    if not bracketed and len(tokens) == 1 and tokens[0] in _SYMBOLS:
        return
    if bracketed and _CLOCK & set(tokens):
        return
    head = _without_rate(tokens, per_gpu=per_gpu)
    for index, token in enumerate(head):
        final = bracketed or index == len(head) - 1
        unit = _unit(token, _ALL if final else _WORDS)
        if unit is not None:
            _check_devices(unit, token, head[index - 1] if index else "")
            yield unit
        elif final and token in _AMBIGUOUS[dimension]:
            raise ValueError(f"has '{token}', which may be several units")
        elif bracketed and token not in _NO_UNIT:
            raise ValueError(f"has '{token}' in brackets, which is no known unit")


def _without_rate(tokens: list[str], *, per_gpu: bool) -> list[str]:
    """The tokens without `per gpu` where our column counts that; refuse other rates."""
    if "per" not in tokens:
        return tokens
    cut = tokens.index("per")
    head, divisor = tokens[:cut], tokens[cut + 1 :]
    if per_gpu and divisor and divisor[0] in _ONE_GPU:
        return head
    if any(_unit(token, _ALL) for token in (*head[-1:], *divisor)):
        raise ValueError("states a rate or a quotient")
    return head


def _unit(token: str, known: Mapping[str, Unit]) -> Unit | None:
    glued = _GLUED.fullmatch(token)
    return known.get(token) or (_WORDS[glued[2]] if glued else None)


def _check_devices(unit: Unit, token: str, before: str) -> None:
    """Refuse GPU hours and their like: the time of several devices together."""
    glued = None if token in _ALL else _GLUED.fullmatch(token)
    together = before in _DEVICES or (glued is not None and glued[1].endswith(_DEVICES))
    if together and unit.dimension is Dimension.TIME:
        raise ValueError("counts the time of several devices together")


def _is_minimum(name: str, header: Collection[str]) -> bool:
    *stem, last = _tokens(name)
    beside = [tokens for tokens in map(_tokens, header) if tokens]
    return last == "min" and (
        not stem or any(one[:-1] == stem and one[-1] in _STATISTICS for one in beside)
    )


def _tokens(name: str) -> list[str]:
    tokens = [token.lower() for token in _TOKEN.findall(name)]
    return ["per" if token == "/" else token for token in tokens]
