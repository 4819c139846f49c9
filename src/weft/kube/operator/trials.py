"""Trials of gangs that this term has begun.

A brain that is built anew knows of none: those of an earlier term are called off.
"""

from dataclasses import replace

from weft.kube.operator.observation.job import ObservedJob
from weft.model.ids import JobId
from weft.model.trial import is_trial


class Trials:
    """By the uids of their objects."""

    def __init__(self) -> None:
        self._uids: set[str] = set()

    def made(self, uid: str) -> None:
        self._uids.add(uid)

    def as_meant(self, job: ObservedJob | None) -> ObservedJob | None:
        """A stray one is cancelled."""
        if job is None or not is_trial(JobId(job.key)) or job.uid in self._uids:
            return job
        return replace(job, cancelled=True)
