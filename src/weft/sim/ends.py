"""How runs end before their time, by chance or of what is wrong, and what is told of it.

A job without any speed where it sits ends at once: in a real cluster its plan would not fit into
the memory of its GPUs, or would not divide their number.
"""

from weft.brain.event import JobFailed
from weft.failure.evidence import UNEXPLAINED, Failure, FailureClass
from weft.sim.chance import Chance
from weft.sim.mishaps import Mishaps
from weft.sim.run import Run
from weft.sim.troubles import Mishap, Troubles


class Ends:
    """Foresees them, and says what somebody finds who looks."""

    def __init__(self, troubles: Troubles, mishaps: Mishaps, chance: Chance) -> None:
        self._troubles = troubles
        self._mishaps = mishaps
        self._chance = chance

    def at(self, run: Run) -> float | None:
        """When it fails: of what is wrong, if that comes first, or somewhere on its way."""
        trouble = self._trouble(run)
        if trouble is not None and trouble.at < run.finish_at:
            return trouble.at
        share = self._mishaps.fail_after(run.foreseen, run.job.id, run.epoch)
        return None if share is None else run.foreseen + share * (run.finish_at - run.foreseen)

    def told(self, run: Run, now: float, kept: float) -> JobFailed:
        if run.speed <= 0.0:
            return JobFailed(now, run.job.id, run.epoch, kept, _does_not_run(run))
        trouble = self._trouble(run)
        found = None if trouble is None else self._troubles.found(trouble, run)
        failure = UNEXPLAINED if found is None else found.failure
        return JobFailed(now, run.job.id, run.epoch, kept, failure, found)

    def _trouble(self, run: Run) -> Mishap | None:
        return None if self._troubles.none else self._troubles.next_end(run, self._chance)


def _does_not_run(run: Run) -> Failure:
    gpus = run.placement.width
    return Failure(FailureClass.GPU_MEMORY, f"its plan does not run on {gpus} GPUs")
