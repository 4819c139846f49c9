"""A job file as a command names it: a path or standard input, with fields set on the way."""

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from weft.model.errors import SpecError

if TYPE_CHECKING:
    from weft.spec.job_file import JobFile

STDIN = "-"


def read_job(file: str, overrides: Iterable[str] = ()) -> "JobFile":
    """The job file, checked after its fields have been set anew."""
    from weft.spec.document import parse_document
    from weft.spec.job_file import JobFile
    from weft.spec.reading import parse_job_file, validated

    text, name = read_text(file)
    if not (given := list(overrides)):
        return parse_job_file(text, name=name)
    document = parse_document(text, name=name)
    fields = document.value if isinstance(document.value, dict) else {}
    for override in given:
        set_field(fields, override)
    return validated(JobFile, fields, name=name, lines=document.lines)


def name_for(file: str, job: "JobFile", given: str | None) -> str:
    """The name given, else the one in the file, else the file's own."""
    name = given or job.name
    return checked_name(name) if name else name_of_file(file)


def name_of_file(file: str) -> str:
    """The name of a job that has none itself."""
    name = "" if file == STDIN else Path(file).name.partition(".")[0]
    if not name:
        raise SpecError("the job has no name", hint="give it one with --name")
    return checked_name(name)


def checked_name(name: str) -> str:
    """The name, if a job may have it."""
    from weft.spec.job_file import MAX_NAME, NAME_PATTERN

    if not re.match(NAME_PATTERN, name):
        raise SpecError(
            f"'{name}' is no name for a job",
            hint=f"--name gives another: a-z, 0-9 and -, at most {MAX_NAME} characters",
        )
    return name


def read_text(file: str) -> tuple[bytes, str]:
    """What stands there, at most a little more than a job file may hold; and what to call it."""
    from weft.spec.document import MAX_BYTES, read_bounded

    if file == STDIN:
        return sys.stdin.buffer.read(MAX_BYTES + 1), "standard input"
    return read_bounded(Path(file)), Path(file).name


def set_field(fields: dict[str, object], override: str) -> None:
    """`resources.gpus=8`: the value is read as it would be in the file."""
    from weft.spec.document import parse_document

    path, equals, text = override.partition("=")
    *above, last = path.split(".")
    if not equals or not all((*above, last)):
        raise SpecError(f"--set '{override}' sets nothing", hint="write --set resources.gpus=8")
    for name in above:
        inner = fields.setdefault(name, {})
        if not isinstance(inner, dict):
            raise SpecError(
                f"--set '{path}': '{name}' has no fields", hint=f"set all of it: --set {name}=VALUE"
            )
        fields = inner
    fields[last] = parse_document(text, name=f"--set {path}").value
