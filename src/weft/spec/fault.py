"""What is wrong with a document, in a person's words.

An error says where (file, line, field), what was written, what is allowed there, and one thing to
do. A field that does not exist comes with the nearest one that does: a job whose misspelt
`checkpoint` is ignored looks exactly like one that saves.

What was written is shown cut and quoted, so that it can neither flood nor steer a terminal.
"""

import reprlib
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from weft.model.errors import SpecError, UnknownName
from weft.spec.fields import (
    Path,
    allowed_in,
    every_field,
    example_of,
    field_at,
    field_path,
    model_at,
)

Lines = Mapping[Path, int]

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
    "ntasks_per_node": "nproc_per_node",
    "numprocpernode": "nproc_per_node",
    "nproc": "nproc_per_node",
    "processes": "nproc_per_node",
    "working_dir": "workdir",
    "envs": "env",
    "environment": "env",
    "mounts": "volumes",
    "max_retries": "retry.limit",
    "restarts": "retry.limit",
    "envfrom": "env_from",
    "secrets": "env_from",
    "serviceaccount": "service_account",
    "serviceaccountname": "service_account",
    "priorityclassname": "priority_class",
    "ddp": "plans.data",
    "fsdp": "plans.fsdp2",
    "zero3": "plans.fsdp2",
    "tp": "plans.tensor",
    "pp": "plans.pipeline",
}
# Words of a pod, which a tenant does not write.
POD_WORDS: Final = frozenset(
    (
        "affinity",
        "containers",
        "hostipc",
        "hostnetwork",
        "hostpath",
        "hostpid",
        "initcontainers",
        "labels",
        "nodename",
        "nodeselector",
        "privileged",
        "runtimeclassname",
        "schedulername",
        "securitycontext",
    )
)
POD_HINT: Final = "Weft builds the pods itself: this cannot be set in a job; remove it"

PROBLEMS: Final = {
    "bool_type": "is neither true nor false",
    "dict_type": "is not a set of fields",
    "finite_number": "is not a finite number",
    "float_type": "is not a number",
    "greater_than": "is too small",
    "greater_than_equal": "is too small",
    "int_from_float": "is not a whole number",
    "int_type": "is not a whole number",
    "less_than_equal": "is too large",
    "list_type": "is not a list",
    "model_type": "is not a set of fields",
    "string_too_long": "is too long",
    "string_too_short": "is too short",
    "string_type": "is not text",
    "string_unicode": "is not valid Unicode",
    "too_long": "has too many entries",
    "too_short": "has too few entries",
}

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 60
_short.maxlevel = 2


class SpecFaults(SpecError):
    """Several things that are wrong with one document; `faults` are all of them."""

    def __init__(self, message: str, *, hint: str = "", faults: tuple[SpecError, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.faults = faults


class UnknownFaults(SpecFaults, UnknownName):
    """The same, and the first of them is a field that does not exist."""


def spec_error(
    model: type[BaseModel],
    error: ValidationError,
    *,
    name: str = "",
    lines: Lines | None = None,
) -> SpecError:
    """What is wrong; where it is more than one thing, the first with all of them behind it."""
    faults = [_fault(model, one, name, lines or {}) for one in _telling_first(error)]
    first, more = faults[0], len(faults) - 1
    if not more:
        return first
    kind = UnknownFaults if isinstance(first, UnknownName) else SpecFaults
    return kind(f"{first} (and {more} more)", hint=first.hint, faults=tuple(faults))


def _fault(model: type[BaseModel], detail: ErrorDetails, name: str, lines: Lines) -> SpecError:
    path = _path(detail)
    where = _where(name, path, lines)
    if detail["type"] == "extra_forbidden":
        return UnknownName(f"{where}there is no such field", hint=_nearest(model, path))
    owner = field_path(model, path)
    info = field_at(model, owner)
    return SpecError(f"{where}{_problem(detail, info)}", hint=_hint(detail, owner, info))


def shown(value: object) -> str:
    """A value cut and quoted."""
    return "nothing" if value is None else _short.repr(value)


def in_line(value: object) -> str:
    """A plain value in YAML's one-line form."""
    if isinstance(value, dict):
        inner = ", ".join(f"{key}: {in_line(part)}" for key, part in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(in_line(part) for part in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _telling_first(error: ValidationError) -> list[ErrorDetails]:
    """A misspelt field tells more than the one that is missing because of it."""
    return sorted(error.errors(include_url=False), key=lambda one: one["type"] != "extra_forbidden")


def _path(detail: ErrorDetails) -> Path:
    """The field that is meant, without the mark that pydantic puts behind a map's key."""
    path = tuple(part for part in detail["loc"] if part != "[key]")
    field = detail.get("ctx", {}).get("field")
    return (*path, field) if field else path


def _where(name: str, path: Path, lines: Lines) -> str:
    known = (path[:end] for end in range(len(path), 0, -1) if path[:end] in lines)
    nearest = next(known, None)
    file = f"{name} line {lines[nearest]}" if nearest else name
    said = ", ".join(part for part in (file, _dotted(path)) if part)
    return f"{said}: " if said else ""


def _dotted(path: Path) -> str:
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            plain = part.isidentifier() and part.isascii() and len(part) <= _short.maxstring
            text += ("." if text else "") + (part if plain else shown(part))
    return text


def _nearest(model: type[BaseModel], path: Path) -> str:
    key = str(path[-1])[: _short.maxstring].lower()
    here = model_at(model, path[:-1])
    known = list(here.model_fields) if here else []
    if key.replace("_", "") in POD_WORDS:
        return POD_HINT
    near = get_close_matches(key, known, n=1)
    word = ELSEWHERE.get(key)
    meant = near[0] if near and (not word or len(path) > 1) else word or _elsewhere(model, key)
    return f"did you mean '{meant}'?" if meant else f"fields here: {', '.join(known)}"


def _elsewhere(model: type[BaseModel], key: str) -> str | None:
    """A field of that name in another part of the file."""
    return next((path for path, _ in every_field(model) if path.split(".")[-1] == key), None)


def _problem(detail: ErrorDetails, info: FieldInfo | None) -> str:
    allowed = allowed_in(info)
    if detail["type"] == "missing":
        return f"is missing; allowed: {allowed}"
    told = f"; allowed: {allowed}" if allowed else ""
    if detail["type"] == "weft":
        return detail["msg"] + ("" if detail["ctx"]["field"] else told)
    return f"{shown(detail['input'])} {PROBLEMS.get(detail['type'], 'does not fit')}{told}"


def _hint(detail: ErrorDetails, path: Path, info: FieldInfo | None) -> str:
    given = detail.get("ctx", {}).get("hint")
    if given:
        return str(given)
    if info is None:
        return "see `weft spec explain`"
    if path[0] == "env" and isinstance(detail["input"], int | float):
        return f'write it in quotes: "{in_line(detail["input"])}"'
    return f"write, for example, {path[-1]}: {in_line(example_of(info))}"
