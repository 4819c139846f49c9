"""A trial: the first minutes of a gang's program on one GPU, before the gang itself has seats.

Most gangs that fail do so within minutes and on any rank, so one GPU shows it as well as sixty-four
would. A trial is a job like any other, with a name that tells whose it is.
"""

from dataclasses import replace
from typing import Final

from weft.model.claim import CurveClaim, HostClaim, WorkClaim
from weft.model.ids import JobId
from weft.model.plan import AS_WRITTEN
from weft.model.request import JobRequest, Width, WorkUnit

SUFFIX: Final = ".trial"  # no job that people submit has a dot in its name


def is_trial(job: JobId) -> bool:
    return job.endswith(SUFFIX)


def tried_by(trial: JobId) -> JobId:
    """Whose trial it is."""
    return JobId(trial.removesuffix(SUFFIX))


def trial_of(job: JobRequest, seconds: float, at: float) -> JobRequest:
    """One GPU for so long; it is tried once, and saves nothing."""
    return replace(
        job,
        id=JobId(job.id + SUFFIX),
        width=Width.fixed(1),
        submit_seconds=at,
        unit=WorkUnit.SECONDS,
        work=WorkClaim(seconds),
        curve=CurveClaim.linear(),
        host=HostClaim.indifferent(),
        stages=None,
        plans=(AS_WRITTEN,),
        max_nodes=None,
        checkpoint_interval_seconds=0.0,
        saves_on_demand=False,
        shareable=False,
        max_retries=0,
    )
