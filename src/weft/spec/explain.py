"""Help on each field of the job file, from the models themselves.

python -m weft.spec.explain > docs/job-file.md
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from weft.model.errors import UnknownName
from weft.spec.document import MAX_BYTES
from weft.spec.fault import in_line
from weft.spec.fields import allowed_in, every_field, example_of, inner_model
from weft.spec.job_file import JobFile

REQUIRED: Final = "required"
KINDS: Final = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "array": "list",
    "object": "names with text",
}


ELSEWHERE: Final = ("cpus", "memory", "offers")
"""What a job with GPUs, or with commands by plan, cannot say as well."""


@dataclass(frozen=True, slots=True)
class Help:
    """What there is to say about one field, or about the whole file where the path is empty."""

    path: str
    description: str
    kind: str
    allowed: str
    default: str
    example: str
    fields: tuple["Help", ...] = ()


def help_on(path: str = "") -> Help:
    """Help on a dotted path such as `resources.gpus`; on all of the file without one."""
    if not path:
        about = "A job file: one YAML document. Only `run` is required."
        return Help("", about, "fields", "", "", "", tuple(_helps(JobFile, "")))
    known = dict(every_field(JobFile))
    if path not in known:
        near = get_close_matches(path, known, n=1) or [
            name for name in known if name.endswith(f".{path}")
        ]
        meant = f"did you mean '{near[0]}'? " if near else ""
        raise UnknownName(
            f"the job file has no field '{path[:100]}'",
            hint=f"{meant}`weft spec explain` lists all",
        )
    return _help(path, known[path])


def help_text(about: Help) -> str:
    """Help as a terminal shows it."""
    return "\n".join(_lines(about)) + "\n"


def page() -> str:
    """The reference page."""
    whole = help_on()
    parts = [one for one in whole.fields if one.fields]
    return (
        "\n\n".join(
            [
                INTRODUCTION.strip(),
                f"```yaml\n{example_file()}```",
                "## Fields\n\n" + _table(whole.fields),
                *(
                    f"### {part.path}\n\n{part.description}\n\n{_table(part.fields)}"
                    for part in parts
                ),
                RULES.strip(),
            ]
        )
        + "\n"
    )


def example_file() -> str:
    """A file that sets every field which a job with GPUs can have."""
    return "".join(f"{line}\n" for line in _example_lines(JobFile, ""))


def _helps(model: type[BaseModel], above: str) -> Iterator[Help]:
    for name, info in _in_order(model):
        yield _help(f"{above}{name}", info)


def _in_order(model: type[BaseModel]) -> list[tuple[str, FieldInfo]]:
    """As a person writes them: the name comes first."""
    return sorted(model.model_fields.items(), key=lambda item: item[0] != "name")


def _help(path: str, info: FieldInfo) -> Help:
    inner = inner_model(info)
    fields = tuple(_helps(inner, f"{path}.")) if inner else ()
    return Help(
        path=path,
        description=info.description or "",
        kind=_kind(path, listed=_is_list(info), inner=inner),
        allowed=allowed_in(info),
        default=_default(info),
        example=f"{path.rpartition('.')[2]}: {in_line(example_of(info))}",
        fields=fields,
    )


def _is_list(info: FieldInfo) -> bool:
    return isinstance(example_of(info), list)


def _kind(path: str, *, listed: bool, inner: type[BaseModel] | None) -> str:
    if inner:
        return "list of fields" if listed else "fields"
    schema: dict[str, Any] = JobFile.model_json_schema()
    for part in path.split("."):
        schema = _plain(schema, JobFile.model_json_schema()["$defs"])["properties"][part]
    plain = _plain(schema, {})
    return KINDS.get(plain.get("type", ""), "whole number or range")


def _plain(schema: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    options = [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]
    found: dict[str, Any] = options[0]
    if "items" in found and "$ref" in found["items"]:
        found = found["items"]
    return known[found["$ref"].rpartition("/")[2]] if "$ref" in found else found


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return REQUIRED
    value = info.default
    if isinstance(value, BaseModel):
        value = value.model_dump(exclude_none=True)
    return "" if value is None or value in ([], {}) else in_line(value)


def _lines(about: Help) -> Iterator[str]:
    if about.path:
        yield about.path
        yield ""
    yield f"  {about.description}"
    yield ""
    facts = {"kind": about.kind, "allowed": about.allowed, "default": about.default}
    if about.path:
        for name, fact in (facts | {"example": about.example}).items():
            if fact:
                yield f"  {name:<8} {fact}"
    if about.fields:
        yield "  fields"
        width = max(len(one.path.rpartition(".")[2]) for one in about.fields)
        for one in about.fields:
            name = one.path.rpartition(".")[2]
            yield f"    {name:<{width}}  {one.description.partition('. ')[0].rstrip('.')}"


def _table(fields: tuple[Help, ...]) -> str:
    head = "| field | meaning | allowed | default |\n|---|---|---|---|\n"
    return head + "\n".join(_row(one) for one in fields)


def _row(one: Help) -> str:
    name = one.path.rpartition(".")[2]
    allowed = one.allowed or f"[{one.kind}](#{one.path})"
    default = one.default if one.default in ("", REQUIRED) else f"`{one.default}`"
    cells = (f"`{name}`", one.description, allowed, default)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _example_lines(model: type[BaseModel], indent: str) -> Iterator[str]:
    for name, info in _in_order(model):
        inner = inner_model(info)
        if name in ELSEWHERE:
            continue
        if inner and not _is_list(info):
            yield f"{indent}{name}:"
            yield from _example_lines(inner, indent + "  ")
        else:
            yield f"{indent}{name}: {in_line(example_of(info))}"


INTRODUCTION: Final = """
# The job file

<!-- Made by `python -m weft.spec.explain` from the models; a test keeps it equal. -->

One YAML (or JSON) document says what a training job needs. Only `run` is required. The same file
serves every world, and a `TrainingJob` in a cluster carries exactly these fields under `spec`, with
the name as its `metadata.name`.

`weft spec init` makes a file, `weft spec check` reads one, `weft spec explain resources.gpus` tells
what stands below about one field. Editors complete and check it with
[job-file.schema.json](job-file.schema.json): put `# yaml-language-server: $schema=<its path>` on
the first line.
"""

RULES: Final = f"""
## Rules

- **Unknown fields are refused**, with the nearest that exists.
- A launcher (`torchrun`, `accelerate`, `deepspeed`, `mpirun`) is started once on each node, and
  `nproc_per_node: gpu` is refused beside one: it starts a process for each GPU itself.
  [Plain scripts](plain-scripts.md) tells what a process finds in its environment.
- Of a job whose plan may be chosen, `model` tells the shape; recipes that choose no plans do not
  look at it. Under `plans` a command can be told what it has a placeholder for: `{{tensor}}` in
  that of `fsdp2` offers shards of tensors in parts. Doubled braces stand for themselves, and
  `${{NAME}}` is the shell's. [Plans](plans.md) tells more.
- A job with GPUs has `cpus_per_gpu` and `memory_per_gpu`; a job without (`gpus: 0`) has `cpus`,
  which it needs, and `memory`.
- Durations are whole numbers with `d`, `h`, `m` and `s`, the larger unit first: `90s`, `1h30m`.
- Memory is a number with `MB`, `GB`, `TB` (powers of 1000) or `MiB`, `GiB`, `TiB` (powers of 1024;
  `Mi`, `Gi`, `Ti` mean the same).
- Text is taken as it stands: `$` means nothing to Kubernetes in `run` and `env`.
- A file has at most {MAX_BYTES // 1024} KiB. Anchors, aliases and tags of YAML are not read, and
  `yes`, `on` and `010` are text.
- Names in `env` that Weft sets are refused (`WEFT_*`, `PET_*`, `TORCHELASTIC_*`,
  `KUBEFLOW_TRAINER_*`, `MASTER_ADDR`, `MASTER_PORT`, `RANK`, `WORLD_SIZE`, `LOCAL_RANK`,
  `LOCAL_WORLD_SIZE`, `GROUP_RANK`, `NODE_RANK`, `NNODES`), and so are those that would hand a
  container GPUs which it was not given (`NVIDIA_VISIBLE_DEVICES`, `NVIDIA_MIG_*`,
  `NVIDIA_IMEX_*`).

## In a cluster

- A `TrainingJob` lists `gpu_type` in brackets even if it names one: its schema knows no
  alternatives. `weft submit` writes it so.
- `spec` cannot be changed. Cancel the job and submit another.
- Unknown fields are refused by the API server for every client, through the policies that the
  chart installs (`admissionPolicy.enabled`). Without them the object is stored, and the operator
  refuses the job.
- Workers run `/bin/sh -c` with the command. An image without `weft-agent` runs it once in each
  pod; `nproc_per_node: gpu` fails there and says so. Workers run without privileges and without a
  token for the API server; a job cannot ask for node names, host paths or capabilities.
- Who names a Secret or a ConfigMap must be allowed to `get` it, and who names a `service_account`
  to `impersonate` it, when the job is created. All three are to be had in namespaces with the
  label `weft.dev/lending: allowed`.
- `devices_per_gpu` are counted by the GPU: a node suits the job if it has as many for each of its
  GPUs. What comes out as half a device for a worker is rounded down.
- On a stop, SIGTERM goes to the commands that the shell runs, and `grace` later SIGKILL. When they
  have ended, the shell does too: commands that follow are not run.
"""

if __name__ == "__main__":
    sys.stdout.write(page())
