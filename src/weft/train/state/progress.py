"""How far a run has come: the steps of each of its loops, and whether the last was left early.

A script may have several loops of `weft.steps`, one after the other, and a worker that starts later
runs it from its first line. It has to know which loops are over, and a step number alone does not
tell: one loop may have been left by `break`. So this goes with the state, to newcomers and to disk.

A run that another program has begun may have used other batches for its first steps; then their
samples are counted apart.
"""

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Progress:
    """The steps of every loop that was begun; the last one is the present one."""

    loops: tuple[int, ...] = (0,)
    left: bool = False
    before: tuple[int, int] | None = None  # steps of another program, and the samples they took

    @property
    def loop(self) -> int:
        """The number of the present one."""
        return len(self.loops) - 1

    @property
    def steps(self) -> int:
        """Of all loops together."""
        return sum(self.loops)

    def stepped(self) -> "Progress":
        return replace(self, loops=(*self.loops[:-1], self.loops[-1] + 1))

    def in_next_loop(self) -> "Progress":
        return Progress((*self.loops, 0), before=self.before)

    def left_early(self) -> "Progress":
        """The script has gone on before the last step that it had asked for."""
        return replace(self, left=True)

    def after(self, steps: int) -> "Progress":
        """The same, if it speaks of so many steps; what says nothing of loops is of the first."""
        return self if self.steps == steps else Progress((steps,), before=self.before)

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"loops": list(self.loops), "left": self.left}
        return told if self.before is None else {**told, "before": list(self.before)}

    @classmethod
    def from_json(cls, told: object) -> "Progress":
        """As it was told; a `ValueError` if it cannot be so."""
        if told is None:
            return cls()
        told = told if isinstance(told, dict) else {}
        loops, left = told.get("loops"), told.get("left")
        if not isinstance(loops, list) or not loops or not isinstance(left, bool):
            raise ValueError(f"no progress: {told!r:.60}")
        if not all(type(steps) is int and steps >= 0 for steps in loops):
            raise ValueError(f"no steps: {loops!r:.60}")
        return cls(tuple(loops), left, _pair(told.get("before")))


def _pair(told: object) -> tuple[int, int] | None:
    if told is None:
        return None
    match told:
        case [int(steps), int(samples)] if steps >= 0 and samples >= 0:
            return steps, samples
    raise ValueError(f"no steps and samples: {told!r:.60}")
