"""What a trial really is: the beginning of its gang's work, on one GPU."""

from collections.abc import Mapping

from weft.brain.instruction import Start
from weft.brain.settings import Settings
from weft.model.ids import JobId
from weft.model.job import Job
from weft.model.trial import trial_of, tried_by
from weft.model.truth import JobTruth


def trial_job(start: Start, jobs: Mapping[JobId, Job], settings: Settings) -> Job:
    """It lasts as long as the brain wants it to, unless what ails the gang shows."""
    gang = jobs[tried_by(start.job)]
    request = trial_of(gang.request, settings.trial_seconds, gang.submit_seconds)
    return Job(request, JobTruth.as_claimed(request, settings.trial_seconds))
