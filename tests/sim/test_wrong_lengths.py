"""Jobs that take far longer than declared do not keep their GPUs from others."""

from dataclasses import replace

import pytest

from weft.brain.brain import Brain
from weft.model.claim import WorkClaim
from weft.model.cluster import Cluster
from weft.model.ids import JobId
from weft.model.job import Job
from weft.model.request import Width
from weft.model.truth import Work
from weft.policy.recipes import RECIPES
from weft.sim.world import World

DECLARED_SECONDS, ACTUAL_SECONDS, HONEST_SECONDS = 60.0, 40_000.0, 600.0


def a_job(name: str, at: float, declared: float, actual: float) -> Job:
    job = Job.told(
        id=JobId(name),
        width=Width.fixed(1),
        work=Work(actual),
        submit_seconds=at,
        saves_on_demand=True,
    )
    return Job(replace(job.request, work=WorkClaim(declared)), job.truth)


@pytest.mark.parametrize("policy", ["weave", "srtf", "srsf", "afs-l"])
def test_honest_jobs_pass_one_that_exceeds_its_declared_length(policy: str) -> None:
    wrong = a_job("wrong", 0.0, DECLARED_SECONDS, ACTUAL_SECONDS)
    honest = [
        a_job(f"honest-{number}", 1000.0 * number, HONEST_SECONDS, HONEST_SECONDS)
        for number in range(1, 11)
    ]
    record = World(Cluster.uniform(1, 1), [wrong, *honest], Brain(RECIPES[policy]())).run()
    for job in honest:
        ended = record.jobs[job.id].ended
        assert ended is not None
        assert ended - job.request.submit_seconds < 10 * HONEST_SECONDS
    assert record.jobs[wrong.id].outcome == "succeeded"
