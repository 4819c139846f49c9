"""A group under watch: whether it goes on, loses a member, or is broken up.

What was foretold may be wrong, so each group is judged by what its members really do. It is broken
up if together they do less than one of them alone would; a member that is slowed far beyond its cap
at two looks in a row is released. Before there is enough to judge by, nothing is said.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

LEAST_CYCLES = 50
LEAST_SECONDS = 300.0
"""A group is judged after so many cycles, or after so long, whichever comes first."""

NO_HARM = 1.0
BEYOND_CAP = 1.2
LOOKS_IN_A_ROW = 2


class Course(Enum):
    """What becomes of a group."""

    GOES_ON = "goes on"
    RELEASES = "releases a member"
    BROKEN_UP = "is broken up"


@dataclass(frozen=True, slots=True)
class Shown:
    """What members did in so many seconds: the work of each, in seconds that it takes alone."""

    seconds: float
    cycles: float
    alone_seconds: tuple[float, ...]

    @property
    def slowdowns(self) -> tuple[float, ...]:
        """How many times longer each took than alone; infinite where it did nothing."""
        return tuple(self.seconds / own if own else float("inf") for own in self.alone_seconds)

    @property
    def aggregate(self) -> float:
        """A, as measured."""
        return sum(self.alone_seconds) / self.seconds if self.seconds else 0.0

    @property
    def tells_enough(self) -> bool:
        return self.cycles >= LEAST_CYCLES or self.seconds >= LEAST_SECONDS


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows from a look; `released` is a place in the group."""

    course: Course
    released: int | None = None
    why: str = ""


GOES_ON = Verdict(Course.GOES_ON)


@dataclass(frozen=True, slots=True)
class Watch:
    """One group: the cap of each member, and at how many looks in a row each was beyond it."""

    caps: tuple[float, ...]
    beyond: tuple[int, ...]

    @classmethod
    def over(cls, caps: Sequence[float]) -> "Watch":
        return cls(tuple(caps), (0,) * len(caps))

    def look(self, shown: Shown) -> tuple["Watch", Verdict]:
        """The watch after this look, and what follows from it."""
        if not shown.tells_enough:
            return self, GOES_ON
        slowdowns = shown.slowdowns
        over = [slow > BEYOND_CAP * cap for slow, cap in zip(slowdowns, self.caps, strict=True)]
        counts = tuple(
            n + 1 if is_over else 0 for n, is_over in zip(self.beyond, over, strict=True)
        )
        after = Watch(self.caps, counts)
        if shown.aggregate < NO_HARM:
            told = f"together they did {shown.aggregate:.2f} times the work of one alone"
            return after, Verdict(Course.BROKEN_UP, why=told)
        if max(counts, default=0) < LOOKS_IN_A_ROW:
            return after, GOES_ON
        place = counts.index(max(counts))
        told = (
            f"{slowdowns[place]:.1f} times slower than alone, where {self.caps[place]:g} is the cap"
        )
        return after, Verdict(Course.RELEASES, place, told)
