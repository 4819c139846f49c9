"""A job file read and checked: from text to the model, or to an error that helps."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from weft.model.errors import SpecError
from weft.spec.document import parse_document, read_bounded
from weft.spec.fault import Lines, spec_error
from weft.spec.job_file import JobFile

Model = TypeVar("Model", bound=BaseModel)


def read_job_file(path: Path) -> JobFile:
    """The job file at that path."""
    return parse_job_file(read_bounded(path), name=path.name)


def parse_job_file(text: str | bytes, *, name: str = "job file") -> JobFile:
    """The same from text; `name` is how messages call it."""
    document = parse_document(text, name=name)
    if not isinstance(document.value, dict):
        raise SpecError(
            f"{name}: holds no fields",
            hint="write at least `run: <command>`; `weft spec init` makes a file",
        )
    return validated(JobFile, document.value, name=name, lines=document.lines)


def validated(
    model: type[Model], document: object, *, name: str = "", lines: Lines | None = None
) -> Model:
    """Plain values as the model; a SpecError where they do not fit it."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise spec_error(model, error, name=name, lines=lines) from None
