"""Truths as they may be: drawn from what a brain believes of the jobs that it has.

Who forecasts does not know how long a job is or how it scales; the brain's beliefs are all there
is. A total that was claimed, or an interval that was foretold, is taken at its word as long as the
job has not gone beyond it. Else the job is like one of those that have finished in this cluster
after more service than it has had; and where there are none of these either, it may well take as
long again as it has taken so far. Each seed is another of the worlds that may be.
"""

from math import isfinite

import numpy as np

from weft.brain.brain import Brain
from weft.brain.state.brain_state import BrainState
from weft.brain.state.menubook import is_learnt
from weft.model.curve import Curve
from weft.model.ids import JobId
from weft.model.request import JobRequest, WorkUnit
from weft.model.snapshot import Floats
from weft.model.truth import JobTruth, Work
from weft.sim.chance import Chance
from weft.sim.costs import Distribution

HOUR = 3600.0


def sampled(brain: Brain, seed: int) -> dict[JobId, JobTruth]:
    """A truth for each active job."""
    drawn = Sampled(brain, seed)
    return {job: drawn.truth(slot) for job, slot in brain.state.slot_of.items()}


class Sampled:
    """What is believed now, and one seed's draws from it."""

    def __init__(self, brain: Brain, seed: int) -> None:
        state, jobs = brain.state, brain.state.jobs
        elapsed = np.maximum(brain.now - jobs.mark, 0.0)
        self._state: BrainState = state
        self._chance = Chance(seed)
        self._done: Floats = jobs.work_done + jobs.speed * elapsed
        self._attained: Floats = jobs.attained_gpu_seconds + jobs.gpu_rate * elapsed
        self._finished: Floats = np.sort(state.finished.samples.gpu_seconds)

    def truth(self, slot: int) -> JobTruth:
        """Of one job: its work and, where it claims none, its curve."""
        request, state = self._state.spec(slot), self._state
        curve = self._curve(slot) if is_learnt(request) else None
        if request.curve is not None:
            curve = request.curve.curve
        return JobTruth(
            work=Work(self._amount(slot, request), request.unit),
            asked_gpus=request.width.asked_gpus,
            curve=curve,
            host=state.host_of(slot),
            gpu_types=request.gpu_types,
            locality=request.locality,
            checkpoint_interval_seconds=request.checkpoint_interval_seconds,
            saves_on_demand=request.saves_on_demand,
        )

    def _amount(self, slot: int, request: JobRequest) -> float:
        """All its work. Seconds are counted at the asked width, however fast it was foretold."""
        done, pace = float(self._done[slot]), float(self._state.jobs.pace[slot])
        pace = pace if isfinite(pace) and pace > 0 else 1.0
        draw = self._chance.uniform("work", request.id)
        total = self._foretold(slot, done, draw)
        if not total > done:
            seconds = self._gpu_seconds_left(slot, request, draw)
            total = done + pace * seconds / max(request.width.asked_gpus, 1)
        if request.unit is WorkUnit.SECONDS and is_learnt(request):
            total = done + (total - done) / pace
        return total

    def _foretold(self, slot: int, done: float, draw: float) -> float:
        """From what was claimed, or from the interval: eight in ten lie within it."""
        jobs = self._state.jobs
        low, likely, high = (
            float(column[slot]) for column in (jobs.work_low, jobs.work_total, jobs.work_high)
        )
        if not (isfinite(low) and isfinite(high)) or high <= low:
            return likely
        least, most = max(low - (likely - low) / 4, 0.0), high + (high - likely) / 4
        points = ((0.0, least), (0.1, low), (0.5, likely), (0.9, high), (1.0, most))
        return Distribution("total", points).beyond(done, draw)

    def _gpu_seconds_left(self, slot: int, request: JobRequest, draw: float) -> float:
        """What jobs like it still needed: those that needed more than it has had."""
        attained = float(self._attained[slot])
        first = int(np.searchsorted(self._finished, attained, side="right"))
        beyond = self._finished[first:]
        if len(beyond) and request.width.asked_gpus:
            return float(beyond[int(draw * len(beyond))]) - attained
        return 2.0 * draw * max(attained, HOUR * max(request.width.asked_gpus, 1))

    def _curve(self, slot: int) -> Curve | None:
        """What has been learnt of it, in the unit that it counts."""
        state, menu = self._state, int(self._state.jobs.menu[slot])
        table, scale = state.menus.table, float(state.jobs.scale[slot])
        widest = int(table.widest[menu])
        if not widest:
            return None
        scale = scale if isfinite(scale) else 1.0
        rows = zip(table.gpus[menu].tolist(), table.likely[menu].tolist(), strict=True)
        points = {gpus: scale * speed for gpus, speed in rows if 0 < gpus <= widest}
        return Curve(tuple(points.items()))
