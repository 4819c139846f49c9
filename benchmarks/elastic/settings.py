"""Settings: what is told of a job, and what only the world knows.

Three settings share their jobs. Where everything is told, the brain reads every length, every
curve and what being spread costs from the job. People rarely know any of it: where curves and
lengths are unknown, both are learnt from what workers measure, and what being spread costs is not
what the brain believes. It believes the default for every job; in the world it depends on the
model, which is why it is drawn for each model and seed, evenly between a fiftieth and almost a half
per doubling of the nodes.
"""

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from zlib import crc32

from weft.model.job import Job
from weft.model.request import INDIFFERENT, Locality

BELIEVED = Locality()
LEAST_PER_DOUBLING, MOST_PER_DOUBLING = 0.02, 0.45


class Setting(StrEnum):
    """How much is told; the last is the setting that people have."""

    TOLD = "everything told"
    LENGTHS_UNKNOWN = "lengths unknown"
    UNTOLD = "curves and lengths unknown"

    @property
    def tells_lengths(self) -> bool:
        return self is Setting.TOLD

    @property
    def tells_curves(self) -> bool:
        return self is not Setting.UNTOLD

    @property
    def tells_locality(self) -> bool:
        return self is not Setting.UNTOLD


SCORED = Setting.UNTOLD


def kept_back(jobs: Iterable[Job], setting: Setting, *, seed: int) -> list[Job]:
    """The jobs of one trial: the one place where something is kept from the brain.

    What a workload itself leaves unknown stays unknown in every setting.
    """
    return [_kept_back(job, setting, seed=seed) for job in jobs]


def _kept_back(job: Job, setting: Setting, *, seed: int) -> Job:
    asked = job.request
    request = replace(
        asked,
        work=asked.work if setting.tells_lengths else None,
        curve=asked.curve if setting.tells_curves else None,
    )
    if setting.tells_locality or job.truth.locality == INDIFFERENT:
        return replace(job, request=request)
    truth = replace(job.truth, locality=true_locality(job, seed=seed))
    return Job(replace(request, locality=BELIEVED), truth)


def true_locality(job: Job, *, seed: int) -> Locality:
    """The same for all jobs of a model."""
    drawn = crc32(f"locality {seed} {job.request.model}".encode()) / 2**32
    per_node = LEAST_PER_DOUBLING + (MOST_PER_DOUBLING - LEAST_PER_DOUBLING) * drawn
    return replace(job.truth.locality, per_node_doubling=per_node)
