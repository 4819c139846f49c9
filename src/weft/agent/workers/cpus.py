"""Processors for workers: a pool, cut into equal slices, one for each worker that runs.

Whatever a process starts inherits the processors of the thread that started it, so a new worker
gets its slice from the thread that starts it, without any code between fork and exec. When another
worker comes or goes the slices change, and every thread of those that run is moved.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

from weft.model.errors import SpecError

Cpus = tuple[int, ...]


def parse_numbers(text: str) -> tuple[int, ...]:
    """Numbers as people write them: `0-3,8`."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not first.isdigit() or not last.isdigit() or int(last) < int(first):
            raise SpecError(f"{text!r} is no list of numbers", hint="write them as 0-3,8")
        found.update(range(int(first), int(last) + 1))
    return tuple(sorted(found))


def usable(cpus: Sequence[int]) -> Cpus:
    """The pool, if this process may use all of it."""
    strange = sorted(set(cpus) - os.sched_getaffinity(0))
    if strange:
        raise SpecError(
            f"processor {strange[0]} is not there to be used",
            hint=f"this process may use {_shown(os.sched_getaffinity(0))}",
        )
    return tuple(sorted(set(cpus)))


def slices(pool: Cpus, count: int) -> list[Cpus]:
    """As many slices of nearly the same size; with more workers than processors they share."""
    if count > len(pool):
        return [pool[number % len(pool) :][:1] if pool else () for number in range(count)]
    cuts = [number * len(pool) // max(count, 1) for number in range(count + 1)]
    return [pool[start:end] for start, end in pairwise(cuts)]


@contextmanager
def on(cpus: Cpus) -> Iterator[None]:
    """Whatever this thread starts meanwhile is bound to these processors; none means all."""
    if not cpus:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def move(pid: int, cpus: Cpus) -> None:
    """Every thread of a process, and of all that it has started, to these processors."""
    for process in _family(pid):
        for task in _listed(Path(f"/proc/{process}/task")):
            with suppress(ProcessLookupError, PermissionError):
                os.sched_setaffinity(int(task.name), cpus)


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in _listed(Path(f"/proc/{pid}/task")):
        with suppress(OSError):
            for child in (task / "children").read_text().split():
                yield from _family(int(child))


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _shown(numbers: set[int]) -> str:
    return ",".join(map(str, sorted(numbers)))
