"""A sweep: one job for each combination of values, `--sweep lr=1e-3,1e-4 --sweep size=16,32`.

A value reaches a job in one way only: it is put in the place of `{lr}`, in the command or in a
value of --env. So nobody has to guess, and a sweep whose jobs would all be the same is refused.
"""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Final

from weft.model.errors import SpecError

Point = Mapping[str, str]
AXIS: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MOST_POINTS: Final = 500


def points_of(sweeps: Sequence[str]) -> list[Point]:
    """All combinations, the last axis first to change; one that is empty without any axis."""
    axes: dict[str, list[str]] = {}
    for sweep in sweeps:
        name, values = _axis(sweep)
        if name in axes:
            raise SpecError(
                f"--sweep {name} is given twice", hint=f"write {name}=A,B,C in one option"
            )
        axes[name] = values
    number = prod(map(len, axes.values()))
    if number > MOST_POINTS:
        raise SpecError(
            f"{number:,} combinations are more than {MOST_POINTS}", hint="sweep over fewer values"
        )
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def filled(text: str, point: Point) -> str:
    """The text with the point's values in their places; other braces stay."""
    for name, value in point.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def refuse_unused(point: Point, texts: Iterable[str]) -> None:
    """Every axis has its place somewhere."""
    written = list(texts)
    for name in point:
        if not any(f"{{{name}}}" in text for text in written):
            raise SpecError(
                f"nothing uses the values of --sweep {name}",
                hint=f"write {{{name}}} where they belong, such as --{name} '{{{name}}}', "
                f"or --env {name.upper()}={{{name}}}",
            )


def point_words(point: Point) -> str:
    """`lr=1e-3 size=16`."""
    return " ".join(f"{name}={value}" for name, value in point.items())


def _axis(sweep: str) -> tuple[str, list[str]]:
    """`NAME=VALUE,VALUE`; a value with a comma stands in double quotes."""
    name, equals, text = sweep.partition("=")
    if not equals or not AXIS.fullmatch(name):
        raise SpecError(
            f"--sweep '{sweep}' is no sweep", hint="write --sweep lr=1e-3,1e-4: a name and values"
        )
    values = [value.strip() for value in next(csv.reader([text], skipinitialspace=True), [])]
    if not values or not all(values):
        raise SpecError(f"--sweep {name} has an empty value", hint="write NAME=VALUE,VALUE")
    if len(set(values)) < len(values):
        raise SpecError(f"--sweep {name} has a value twice", hint="write each value once")
    return name, values
