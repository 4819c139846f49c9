"""What workers of the simulated world measure, and when they tell it.

A real job is measured by its stage profiler: the speed at the width that it has, where the time of
a step goes while it takes no turns, and its loss. Here all are the truth with an error, told some
time after every change of width and then now and again. Jobs about which nobody has anything to
learn are not spoken of.
"""

from dataclasses import dataclass
from math import inf

from weft.brain.event import JobMeasured
from weft.model.job import Job
from weft.model.stages import StageProfile
from weft.sim.chance import Chance
from weft.sim.run import Run


@dataclass(frozen=True, slots=True)
class Telling:
    """`error` is the largest relative error of a speed that was measured.

    Where the first measurement would come after an infinite time, nobody measures.
    """

    after_seconds: float = 60.0
    every_seconds: float = 120.0
    in_company_every_seconds: float = 900.0
    error: float = 0.02

    def has_news_of(self, run: Run) -> bool:
        """Whether it takes turns or minds neighbours, or something of it is to be learnt."""
        if self.after_seconds == inf:
            return False
        minds = run.job.truth.minds is not None
        return run.in_company or minds or self.tells_of(run.job) or tells_stages(run.job)

    def every(self, run: Run) -> float:
        """Seconds between two measurements."""
        known = not self.tells_of(run.job)
        return self.in_company_every_seconds if known else self.every_seconds

    def tells_of(self, job: Job) -> bool:
        request, truth = job.request, job.truth
        minds_cores = request.host is None and truth.host is not None
        return request.curve is None or minds_cores or truth.loss is not None

    def news(self, run: Run, now: float, chance: Chance, slower: float = 1.0) -> JobMeasured:
        """What is told next; in company all that a job does takes so many times longer."""
        job, placement, done, number = run.job, run.placement, run.progress(now), run.news
        stages = self._stages(run, chance, number)
        drawn = 2.0 * chance.uniform("speed", job.id, run.epoch, run.serial, number) - 1.0
        loss = None
        if job.truth.loss is not None:
            loss = job.truth.loss.at(
                done, chance.uniform("loss", job.id, run.epoch, run.serial, number)
            )
        return JobMeasured(
            now,
            job.id,
            run.epoch,
            gpus=placement.width,
            nodes=len(placement.nodes),
            units_per_second=run.speed * (1.0 + self.error * drawn),
            seconds=now - max(run.paced, run.told),
            work_done=done,
            cpus=sum(seat.cpus + run.fed.cores * seat.gpus for seat in placement.seats),
            loss=loss,
            stages=None if run.in_company else stages,
            stages_in_turns=stages.scaled(slower) if stages and run.in_company else None,
        )

    def _stages(self, run: Run, chance: Chance, number: int) -> StageProfile | None:
        """As if it had its GPUs to itself."""
        job = run.job
        if not tells_stages(job):
            return None
        assert job.truth.stages is not None
        drawn = 2.0 * chance.uniform("stages", job.id, run.epoch, run.serial, number) - 1.0
        return job.truth.stages.scaled(1.0 + self.error * drawn)


def tells_stages(job: Job) -> bool:
    """Whether company may come to it, and its stages are others than were claimed."""
    truth, claim = job.truth.stages, job.request.stages
    return truth is not None and job.request.shareable and (claim is None or claim.profile != truth)


TELLING = Telling()
SILENT = Telling(after_seconds=inf)
