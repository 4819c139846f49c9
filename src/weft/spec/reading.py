"""A job file read and checked, with errors that name the field, the value and a way out.

An error says where (file, line, field path), what was written, what is allowed there, and one
thing to do. A field that does not exist is an error, with the nearest one that does: a job whose
misspelt `checkpoint` is ignored looks exactly like one that saves.
"""

import types
import typing
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from weft.model.errors import SpecError, UnknownName
from weft.spec.document import MAX_BYTES, parse_document
from weft.spec.job_file import JobFile

Model = TypeVar("Model", bound=BaseModel)
Lines = Mapping[tuple[str | int, ...], int]

# Words of other systems, and what says the same here.
ELSEWHERE: Final = {
    "command": "run",
    "cmd": "run",
    "script": "run",
    "entrypoint": "run",
    "gpu": "resources.gpus",
    "num_gpus": "resources.gpus",
    "accelerators": "resources.gpus",
    "partition": "queue",
    "time": "duration",
    "timeout": "duration",
    "working_dir": "workdir",
    "envs": "env",
    "environment": "env",
    "mounts": "volumes",
    "max_retries": "retry.limit",
    "restarts": "retry.limit",
}
# Words of a pod, which a tenant does not write.
POD_WORDS: Final = frozenset(
    "nodename nodeselector hostpath hostnetwork hostpid hostipc privileged securitycontext "
    "tolerations affinity serviceaccount serviceaccountname containers initcontainers "
    "schedulername priorityclassname runtimeclassname annotations labels".split()
)
POD_HINT: Final = "Weft builds the pods itself: this cannot be set in a job; remove it"


def read_job_file(path: Path) -> JobFile:
    """The job file at that path."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SpecError(
            f"{path}: cannot be read: {error.strerror}", hint="check the path"
        ) from error
    return parse_job_file(raw, name=path.name)


def parse_job_file(text: str | bytes, *, name: str = "job file") -> JobFile:
    """The same from text; `name` is how messages call it."""
    document = parse_document(text, name=name)
    if not isinstance(document.value, dict):
        raise SpecError(
            f"{name}: holds no fields",
            hint="write at least: run: <command>; `weft spec init` makes a file",
        )
    return validated(JobFile, document.value, name=name, lines=document.lines)


def validated(
    model: type[Model], document: object, *, name: str = "", lines: Lines | None = None
) -> Model:
    """Plain values as the model, or an error in a person's words."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise spec_error(model, error, name=name, lines=lines) from None


def spec_error(
    model: type[BaseModel],
    error: ValidationError,
    *,
    name: str = "",
    lines: Lines | None = None,
) -> SpecError:
    """The first thing that is wrong, and how many more there are."""
    first = error.errors(include_url=False)[0]
    count = error.error_count()
    more = f" (and {count - 1} more)" if count > 1 else ""
    path = _path(model, first)
    where = _where(name, path, lines or {})
    if first["type"] == "extra_forbidden":
        return _unknown(model, path, where, more)
    info = _field(model, path)
    said = _said(first, info)
    return SpecError(f"{where}{said}{more}", hint=_hint(first, path, info))


def _path(model: type[BaseModel], detail: ErrorDetails) -> tuple[str | int, ...]:
    """The field that is meant, without the marks that pydantic adds for keys and unions."""
    path = [part for part in detail["loc"] if part != "[key]"]
    field = detail.get("ctx", {}).get("field")
    if field:
        path.append(field)
    return tuple(path)


def _where(name: str, path: tuple[str | int, ...], lines: Lines) -> str:
    line = next((lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in lines), None)
    at = " ".join(part for part in (name, f"line {line}" if line else "") if part)
    field = dotted(path)
    return f"{', '.join(part for part in (at, field) if part)}: " if at or field else ""


def dotted(path: tuple[str | int, ...]) -> str:
    """`volumes[2].path`; a name of somebody's own is shown so that it cannot steer a terminal."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            shown = part if part.isidentifier() and part.isascii() else repr(part)
            text += ("." if text else "") + _cut(shown, 60)
    return text


def _unknown(
    model: type[BaseModel], path: tuple[str | int, ...], where: str, more: str
) -> UnknownName:
    key = str(path[-1])
    here = _model_at(model, path[:-1])
    known = list(here.model_fields) if here else []
    return UnknownName(
        f"{where}there is no such field{more}", hint=_nearest(model, key, path[:-1], known)
    )


def _nearest(
    model: type[BaseModel], key: str, parent: tuple[str | int, ...], known: list[str]
) -> str:
    if key.lower().replace("_", "") in POD_WORDS:
        return POD_HINT
    near = get_close_matches(key[:60].lower(), known, n=1)
    if near:
        return f"did you mean '{near[0]}'?"
    elsewhere = ELSEWHERE.get(key.lower()) or _paths(model).get(key)
    if elsewhere:
        return f"did you mean '{elsewhere}'?"
    return f"fields here: {', '.join(known)}"


def _paths(model: type[BaseModel], above: str = "") -> dict[str, str]:
    """Where each field name of the tree stands; the outermost wins."""
    found: dict[str, str] = {}
    for name, info in model.model_fields.items():
        inner = inner_model(info.annotation)
        if inner is not None:
            found = _paths(inner, f"{above}{name}.") | found
    return found | {name: f"{above}{name}" for name in model.model_fields}


def inner_model(annotation: object) -> type[BaseModel] | None:
    """The model that a field holds, alone, in a list or beside None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, list, typing.Annotated):
        return next(filter(None, map(inner_model, typing.get_args(annotation))), None)
    return None


def _model_at(model: type[BaseModel], path: tuple[str | int, ...]) -> type[BaseModel] | None:
    here: type[BaseModel] | None = model
    for part in path:
        if isinstance(part, int):
            continue
        info = here.model_fields.get(part) if here else None
        here = inner_model(info.annotation) if info else None
    return here


def _field(model: type[BaseModel], path: tuple[str | int, ...]) -> Any:  # noqa: ANN401
    """What is told about the innermost field on the path."""
    here: type[BaseModel] | None = model
    found = None
    for part in path:
        if isinstance(part, int) or here is None:
            continue
        found = here.model_fields.get(part, found)
        here = inner_model(found.annotation) if found else None
    return found


def _said(detail: ErrorDetails, info: Any) -> str:  # noqa: ANN401
    allowed = _allowed(info)
    if detail["type"] == "missing":
        return "is missing" + (f"; write {allowed}" if allowed else "")
    if detail["type"] == "weft":
        return detail["msg"] + (f"; allowed: {allowed}" if allowed and not _whole(info) else "")
    problem = f"{_cut(repr(detail['input']), 60)} {_PROBLEMS.get(detail['type'], 'does not fit')}"
    return problem + (f"; allowed: {allowed}" if allowed and not _whole(info) else "")


def _whole(info: Any) -> bool:  # noqa: ANN401
    return inner_model(info.annotation) is not None


def _allowed(info: Any) -> str:  # noqa: ANN401
    extra = getattr(info, "json_schema_extra", None)
    return str(extra.get("allowed", "")) if isinstance(extra, dict) else ""


_PROBLEMS: Final = {
    "string_type": "is not text",
    "string_unicode": "is not valid Unicode",
    "string_too_long": "is too long",
    "string_too_short": "is too short",
    "int_type": "is not a whole number",
    "int_from_float": "is not a whole number",
    "float_type": "is not a number",
    "finite_number": "is not a finite number",
    "bool_type": "is neither true nor false",
    "list_type": "is not a list",
    "dict_type": "is not a set of fields",
    "model_type": "is not a set of fields",
    "too_long": "has too many entries",
    "too_short": "has too few entries",
    "greater_than_equal": "is too small",
    "less_than_equal": "is too large",
}


def _hint(detail: ErrorDetails, path: tuple[str | int, ...], info: Any) -> str:  # noqa: ANN401
    hint = detail.get("ctx", {}).get("hint")
    if hint:
        return str(hint)
    if path and path[0] == "env" and detail["type"] == "string_type":
        return f'write it in quotes: "{_cut(str(detail["input"]), 30)}"'
    example = (getattr(info, "examples", None) or [None])[0]
    name = next((part for part in reversed(path) if isinstance(part, str)), "")
    if example is None or not name:
        return "see `weft spec explain`"
    return f"write, for example, {written(name, example)}"


def written(name: str, value: object) -> str:
    """`name: value` as one line of a job file."""
    return f"{name}: {in_line(value)}"


def in_line(value: object) -> str:
    """A plain value in YAML's one-line form."""
    if isinstance(value, dict):
        return "{" + ", ".join(written(str(key), inner) for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(in_line(inner) for inner in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."
