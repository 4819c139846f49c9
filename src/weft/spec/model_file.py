"""A model file: the shape of a model and what its program offers, for asking about plans.

A job file that claims its model serves as well.
"""

from dataclasses import dataclass
from pathlib import Path

from weft.model.capability import EVERYTHING
from weft.model.claim import PlanClaim
from weft.model.errors import SpecError
from weft.spec.document import parse_document, read_bounded
from weft.spec.job_file import JobFile
from weft.spec.model_claims import ModelClaims
from weft.spec.reading import validated
from weft.spec.request import splits_of


@dataclass(frozen=True, slots=True)
class ModelFile:
    """What is claimed; of a job also its own range of GPUs, which `most_gpus` of 0 leaves open."""

    claim: PlanClaim
    least_gpus: int = 1
    most_gpus: int = 0


def read_model_file(path: Path) -> ModelFile:
    """What the file at that path says."""
    document = parse_document(read_bounded(path), name=path.name)
    if not _is_job(document.value):
        model = validated(ModelClaims, document.value, name=path.name, lines=document.lines)
        return ModelFile(model.claim(EVERYTHING))
    job = validated(JobFile, document.value, name=path.name, lines=document.lines)
    claim = splits_of(job)
    if claim is None:
        raise SpecError(
            f"{path.name}: the job says nothing of its model",
            hint="add model with parameters, layers, hidden, sequence and batch",
        )
    width = job.resources.width
    return ModelFile(claim, max(width.least, 1), width.most)


def _is_job(written: object) -> bool:
    """Whether it has anything that only a job has; its faults are then told as those of a job."""
    return isinstance(written, dict) and not JobFile.model_fields.keys().isdisjoint(written)
