"""Part e: a run that was resized ten times beside one that nobody disturbed.

The widths are drawn from a seed. When the last change is done the job is drained, and the reference
runs alone up to the very same step. Every sample must have been used exactly once in each pass over
the data; the losses of the two models over all samples may differ by rounding (`same_math`), and at
the level `bitwise` not at all, down to the digest of model and optimizer.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from benchmarks.row import Row, at_most, exactly, told
from benchmarks.runtime.figures import only_full
from benchmarks.runtime.job import Job, Size, running, say, scratch
from weft.model.errors import WorldError

SIZE = Size(features=64, batch=16, samples=160, pause=0.02)
WIDEST, SHORT_WIDEST = 3, 2
RESCALES, SHORT_RESCALES = 10, 2
STEPS_BETWEEN = 10
LOSS_BAR = 1e-3
RATE = "3e-3"
SEED = 11


@dataclass(frozen=True, slots=True)
class Ended:
    """The last state of a run."""

    step: int
    digest: str
    loss: float


@dataclass(frozen=True, slots=True)
class Compared:
    """A run that was resized, and its reference."""

    rescales: int
    resized: Ended
    reference: Ended
    passes: int
    exact: int


def rows(*, short: bool) -> Iterator[Row]:
    """Both levels."""
    count, widest = (SHORT_RESCALES, SHORT_WIDEST) if short else (RESCALES, WIDEST)
    with scratch() as folder:
        if short:
            yield from only_full("e", "same_math")
        else:
            yield from _rows("same_math", compare(folder / "same_math", "same_math", count, widest))
        yield from _rows("bitwise", compare(folder / "bitwise", "bitwise", count, widest))


def compare(folder: Path, level: str, count: int, widest: int) -> Compared:
    """Resize, drain, then repeat undisturbed."""
    folder.mkdir()
    words = ("--level", level, "--ids", "--ends", "--rate", RATE)
    with running(folder / "resized", SIZE, *words) as job:
        job.steady(1)
        for number, width in enumerate(_widths(count, widest)):
            say(f"{level}, rescale {number + 1} of {count}, to {width}")
            job.go_on(STEPS_BETWEEN)
            job.resize(width)
        job.go_on(STEPS_BETWEEN)
        job.drain()
    resized = _ended(job)
    passes = _passes(job, SIZE)
    say(f"{level}, {resized.step + 1:,d} steps undisturbed")
    calm = Size(SIZE.features, SIZE.batch, SIZE.samples)
    with running(folder / "calm", calm, *words, "--total", str(resized.step + 1)) as job:
        job.end()
    return Compared(count, resized, _ended(job), len(passes), sum(passes))


def _widths(count: int, widest: int) -> Iterator[int]:
    """Each another than the one before."""
    draw, width = random.Random(SEED), 1
    for _ in range(count):
        width = draw.choice([other for other in range(1, widest + 1) if other != width])
        yield width


def _ended(job: Job) -> Ended:
    """All members of the last epoch must agree."""
    ends = [tale for tale in job.tales if "final" in tale]
    last = max((tale["step"] for tale in ends), default=-1)
    found = {(tale["final"], tale["loss"]) for tale in ends if tale["step"] == last}
    if len(found) != 1 or last != job.newest():
        raise WorldError(f"{len(found)} different states after step {last} of {job.newest()}")
    digest, loss = found.pop()
    return Ended(last, digest, loss)


def _passes(job: Job, size: Size) -> list[bool]:
    """Of each whole pass over the data, whether it has each sample exactly once."""
    used: dict[int, list[int]] = {}
    for step in job.steps:
        if step.stepped:
            used.setdefault(step.step, []).extend(step.ids)
    each = size.samples // size.batch
    return [
        sorted(chain.from_iterable(used.get(step, ()) for step in range(first, first + each)))
        == list(range(size.samples))
        for first in range(0, job.newest() + 2 - each, each)
    ]


def _rows(level: str, found: Compared) -> Iterator[Row]:
    start = f"e: {level}, {found.rescales} rescales"
    steps = found.resized.step + 1
    yield told(
        f"{start}: steps", steps, "", peer="undisturbed", peer_value=found.reference.step + 1
    )
    name = f"{start}: passes that have each sample exactly once"
    yield exactly(name, found.exact, "passes", found.passes)
    difference = abs(found.resized.loss - found.reference.loss)
    yield at_most(
        f"{start}: difference of the final losses",
        difference,
        "",
        LOSS_BAR if level == "same_math" else 0.0,
        peer="loss, undisturbed",
        peer_value=found.reference.loss,
    )
    equal = int(found.resized.digest == found.reference.digest)
    if level == "bitwise":
        yield exactly(f"{start}: equal digests of all state", equal, "", 1)
