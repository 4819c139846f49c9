"""How fast those are who take turns on the same GPUs, as their truths have it.

Who starts, stops or is broken takes no turn. The cycle is that of the stages which jobs really
have; what was claimed of them, and what the brain makes of it, is no matter here.
"""

from collections.abc import Mapping

from weft.brain.event import Phase
from weft.model.ids import JobId
from weft.model.stages import BUSY
from weft.perf.interleaving.group import CycleModel, foretold
from weft.sim.ground import Ground
from weft.sim.neighbours import Neighbours
from weft.sim.run import Run


class Turns:
    """Speeds of runs, in the company that they are in."""

    def __init__(self, ground: Ground, runs: Mapping[JobId, Run], cycles: CycleModel) -> None:
        self._ground = ground
        self._runs = runs
        self._cycles = cycles
        self._neighbours = Neighbours(runs)

    def speed(self, run: Run) -> float:
        """Work per second where it sits, beside its neighbours and whoever takes turns with it."""
        alone = self._ground.speed(run) / self._neighbours.slowdown(run)
        others = self.others(run)
        run.in_company = bool(others)
        return alone / self._slowdown(run, others) if others else alone

    def slower(self, run: Run) -> float:
        """How many times longer all that it does takes, because others train there too."""
        return self._cycles.slower(1 + len(self.others(run)))

    def others(self, run: Run) -> list[Run]:
        """Those who train there now too."""
        there = (self._runs.get(job) for job in self._ground.party(run))
        return [
            other for other in there if other is not None and other is not run and _trains(other)
        ]

    def beside(self, run: Run) -> list[Run]:
        """Those whose pace hangs on this one: they take turns with it, or mind that it is there."""
        return [*self.others(run), *self._neighbours.minding(run)]

    def _slowdown(self, run: Run, others: list[Run]) -> float:
        profiles = [one.job.truth.stages or BUSY for one in (run, *others)]
        return foretold(profiles, self._cycles).slowdowns[0]


def _trains(run: Run) -> bool:
    return run.phase is Phase.RUNNING and not run.broken
