"""Names for jobs that nobody has named: after their command, and after their point of a sweep."""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import count
from pathlib import PurePath
from typing import Final

from weft.cli.jobs.sweep import Point

MOST: Final = 50  # of a job's name in its file
MOST_OF_COMMAND: Final = 30
ASSIGNED: Final = re.compile(r"\w+=")
FALLBACK: Final = "job"
SCRIPTS: Final = (".py", ".sh")
# Words before the one that says what is run.
STARTERS: Final = re.compile(
    r"exec|env|nohup|time|nice|python[\d.]*|torchrun|(ba|da|z)?sh|uv|run|accelerate|deepspeed"
    r"|launch|poetry|conda"
)


def name_of(command: Sequence[str]) -> str:
    """`python train.py --lr 3` is `train`; `python -m pkg.train` is `pkg-train`."""
    words = command if len(command) > 1 else command[0].split()
    fallback = FALLBACK
    for word in words:
        if word == "-c":  # what follows is a program, not the name of one
            break
        last = PurePath(word).name
        if word.startswith("-") or ASSIGNED.match(word):
            continue
        if not STARTERS.fullmatch(last):
            stem = PurePath(last).stem if PurePath(last).suffix in SCRIPTS else last
            return slug(stem)[:MOST_OF_COMMAND].strip("-") or fallback
        fallback = slug(last) or fallback
    return fallback


def names_for(base: str, points: Sequence[Point], taken: AbstractSet[str] | None) -> list[str]:
    """One for each point; with `taken` the first number behind the base that makes all free."""
    for number in count(1):
        names = list(_names(base if number == 1 else f"{base}-{number}", points))
        if not taken or not taken & set(names):
            return names
    raise AssertionError  # numbers do not end


def slug(text: str) -> str:
    """As much of a text as a name may hold."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _names(base: str, points: Sequence[Point]) -> Iterator[str]:
    """Told by their values, or by numbers where that is too long or tells too little."""
    if points == [{}]:
        yield base
        return
    told = [_told(base, point) for point in points]
    if max(map(len, told)) <= MOST and len(set(told)) == len(told):
        yield from told
        return
    digits = len(str(len(points)))
    yield from (f"{base[: MOST - digits - 1]}-{n:0{digits}}" for n in range(1, len(points) + 1))


def _told(base: str, point: Point) -> str:
    return "-".join([base, *(part for pair in point.items() for part in map(slug, pair))])
