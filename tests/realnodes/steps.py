"""The steps that a job has done, as it wrote them down itself: was one lost, or done twice?"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Step:
    """One that counts: how many trained then, of which start they were, and when it was done."""

    number: int
    width: int
    epoch: int
    at: float


def read(file: Path) -> list[Step]:
    """All so far; a line that is being written is left for the next time."""
    if not file.exists():
        return []
    whole = file.read_text().rpartition("\n")[0]
    lines = [line.split() for line in whole.splitlines()]
    return [Step(int(step), int(width), int(epoch), float(at)) for step, width, epoch, at in lines]


def follow_on(steps: Sequence[Step]) -> bool:
    """Whether each came once, and none is missing."""
    return all(later.number == step.number + 1 for step, later in pairwise(steps))


def longest_pause_seconds(steps: Sequence[Step]) -> float:
    return max((later.at - step.at for step, later in pairwise(steps)), default=0.0)


def redone(steps: Sequence[Step]) -> list[Step]:
    """Steps that were done, lost, and had to be done again."""
    lost = []
    for place, (step, later) in enumerate(pairwise(steps), start=1):
        if later.number <= step.number:
            lost += [done for done in steps[:place] if done.number >= later.number]
    return lost
