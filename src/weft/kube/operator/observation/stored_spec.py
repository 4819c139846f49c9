"""A spec as it is stored, which another version of the operator may have accepted.

New jobs are read strictly: an unknown field is most likely a slip. A stored one may come from a
newer version, whose fields this one does not know, while an upgrade is under way or after it was
taken back. What such a job asks for besides is still to be had.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from pydantic import ValidationError

from weft.kube.resources.training_job import TrainingJobSpec
from weft.model.errors import SpecError
from weft.spec.reading import validated

UNKNOWN_FIELD = "extra_forbidden"


def read_stored(raw: Mapping[str, Any]) -> tuple[TrainingJobSpec | None, str]:
    """As much of it as is known, if that is enough; and what is wrong, if anything is."""
    try:
        return validated(TrainingJobSpec, raw, name="spec"), ""
    except SpecError as error:
        return _read_what_is_known(raw), f"{error}: {error.hint}"


def _read_what_is_known(raw: Mapping[str, Any]) -> TrainingJobSpec | None:
    known = deepcopy(dict(raw))
    try:
        TrainingJobSpec.model_validate(known)
    except ValidationError as error:
        for fault in error.errors(include_url=False, include_input=False):
            if fault["type"] != UNKNOWN_FIELD or not _removed(known, fault["loc"]):
                return None
    try:
        return TrainingJobSpec.model_validate(known)
    except ValidationError:
        return None


def _removed(document: dict[str, Any], path: tuple[int | str, ...]) -> bool:
    """Whether there was such a field; it is gone now."""
    *outer, name = path
    inside: Any = document
    try:
        for part in outer:
            inside = inside[part]
        del inside[name]
    except (KeyError, IndexError, TypeError):
        return False
    return True
