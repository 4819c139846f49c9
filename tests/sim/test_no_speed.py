"""A job does not hold GPUs on which it makes no progress."""

from tests.builders import a_job
from weft.brain.brain import Brain
from weft.model.cluster import Cluster
from weft.model.curve import Curve
from weft.model.reason import ReasonCode
from weft.policy.recipes import RECIPES
from weft.sim.world import World

FROM_TWO = Curve(((1, 0.0), (2, 2.0)))
FROM_FOUR = Curve(((1, 0.0), (3, 0.0), (4, 4.0), (8, 8.0)))


def test_a_job_that_runs_nowhere_gives_its_gpu_back_and_says_what_it_needs() -> None:
    job = a_job("job", 2, width=(1, 2), curve=FROM_TWO, tell_curve=False, max_retries=0)
    other, brain = a_job("other", 1, at=1.0), Brain(RECIPES["weave"]())
    record = World(Cluster.uniform(1, 1), [job, other], brain).run()
    assert record.jobs[other.id].outcome == "succeeded"
    reason = brain.explain(job.id)[0]
    assert (reason.code, reason.numbers["need"]) == (ReasonCode.CONSTRAINT_NEVER, 2)


def test_jobs_whose_widths_are_not_declared_find_one_at_which_they_run() -> None:
    jobs = [
        a_job(f"job{n}", 8, width=(1, 8), curve=FROM_FOUR, tell_curve=False, max_retries=0)
        for n in range(5)
    ]
    record = World(Cluster.uniform(2, 8), jobs, Brain(RECIPES["weave"]())).run()
    assert {one.outcome for one in record.jobs.values()} == {"succeeded"}
