"""A prior: what is believed of a job's losses before it has been measured.

The losses are those of `smooth`: by each doubling of the width, at the node's edge, and by bending.
Nothing is lost by `FREE`. What the finished jobs of a cluster lost, on average, is its typical
curve; a few jobs that lost nothing are counted in, so that the first one does not speak for all,
and old ones are forgotten slowly, as clusters and their users change.
"""

from dataclasses import dataclass

DOUBTERS = 4.0
"""Imagined jobs without loss, which the finished ones have to outweigh."""
REMEMBERED = 256.0
"""Jobs after which an older one counts for less."""

Losses = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Prior:
    """The sums of the losses of so many jobs, in logarithms of speed: 0 or less, as a rule."""

    jobs: float = 0.0
    sums: Losses = (0.0, 0.0, 0.0)

    @property
    def losses(self) -> Losses:
        """What is typical."""
        slope, node, bend = self.sums
        jobs = self.jobs + DOUBTERS
        return slope / jobs, node / jobs, bend / jobs

    def with_job(self, losses: Losses) -> "Prior":
        """One more job has finished."""
        kept = min(1.0, (REMEMBERED - 1.0) / max(self.jobs, 1.0))
        slope, node, bend = (kept * old + new for old, new in zip(self.sums, losses, strict=True))
        return Prior(kept * self.jobs + 1.0, (slope, node, bend))


FREE = Prior()
"""Speed rises as the width does."""
