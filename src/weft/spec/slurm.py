"""A Slurm batch script as a job file.

What has a counterpart is translated; every other option is kept as a comment, so that nothing gets
lost in silence. The rest of the script becomes the command.
"""

import json
import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from weft.agent.workers.program import LAUNCHERS
from weft.spec.job_file import MAX_NAME
from weft.spec.process_rules import FIELD, PER_GPU
from weft.spec.quantity import duration_text, memory_text

LETTERS: Final = {
    "J": "job-name",
    "N": "nodes",
    "n": "ntasks",
    "c": "cpus-per-task",
    "G": "gpus",
    "p": "partition",
    "t": "time",
    "D": "chdir",
    "o": "output",
    "e": "error",
    "A": "account",
    "q": "qos",
    "a": "array",
    "d": "dependency",
    "C": "constraint",
}
FLAGS: Final = frozenset(("requeue", "no-requeue", "exclusive"))
GIB: Final = {"K": 2**-20, "M": 2**-10, "": 2**-10, "G": 1.0, "T": 1024.0}
SRUN: Final = (
    "srun is not there, so remove it: the command starts once on each node, or for each GPU with "
    "nproc_per_node: gpu"
)

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMGT]?)B?", re.IGNORECASE)
_TIME = re.compile(r"(?:(\d{1,3})-)?(\d{1,4})(?::(\d{1,2}))?(?::(\d{1,2}))?")
_COUNT = re.compile(r"(?:.*:|[0-9]+-)?([0-9]{1,5})")
_SRUN = re.compile(r"^\s*srun\b", re.MULTILINE)
_LAUNCHER = re.compile(rf"\b(?:{'|'.join(sorted(LAUNCHERS))}|torch\.distributed\.(?:run|launch))\b")
_GPU_TYPE = re.compile(r"(?:gpu:)?([A-Za-z][A-Za-z0-9._-]*):[0-9]+")


@dataclass(slots=True)
class _Script:
    """Options by their long name, and the lines that Slurm would run."""

    options: dict[str, str] = field(default_factory=dict)
    odd: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)


def from_slurm(script: str) -> str:
    """The text of a job file that asks for what the script asks for."""
    read = _read(script)
    lines = [
        "# Translated from a Slurm script; `weft spec check` reads it.",
        *_comments(read),
        *_fields(read.options),
        *_processes(read),
        "run: |2",  # the first line may be indented itself
        *(f"  {line}" if line else "" for line in _command(read.body)),
    ]
    return "\n".join(lines) + "\n"


def _read(script: str) -> _Script:
    found = _Script()
    for line in script.splitlines():
        if not line.startswith("#SBATCH"):
            found.body.append(line)
            continue
        try:
            words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
        except ValueError:
            found.odd.append(line)
            continue
        found.options |= _options(words, found.odd)
    return found


def _options(words: list[str], odd: list[str]) -> dict[str, str]:
    """`--name=value`, `--name value`, `-n value` and `-nvalue`, all by their long names."""
    found: dict[str, str] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        elif word.startswith("-") and word[1:2] in LETTERS:
            name, value = LETTERS[word[1]], word[2:].removeprefix("=")
            equals = value
        else:
            odd.append(word)
            continue
        if not equals and name not in FLAGS and left:
            value = left.pop(0)
        found[name] = value
    return found


def _comments(read: _Script) -> Iterator[str]:
    for name, value in read.options.items():
        if name not in READ or not READ[name](value):
            yield _one_line(f"# not translated: --{name} {value}")
    for line in read.odd:
        yield _one_line(f"# not understood: {line}")
    if _SRUN.search("\n".join(read.body)):
        yield f"# {SRUN}"


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text).rstrip()


def _fields(options: Mapping[str, str]) -> Iterator[str]:
    name = re.sub("[^a-z0-9]+", "-", options.get("job-name", "").lower())[:MAX_NAME].strip("-")
    if name:
        yield f"name: {_quoted(name)}"
    yield from _resources(options)
    nodes = _count(options, "nodes")
    if nodes:
        yield f"nodes: {nodes}"
    queue = re.sub("[^a-z0-9]+", "-", options.get("partition", "").lower())[:63].strip("-")
    if queue:
        yield f"queue: {_quoted(queue)}"
    minutes = _minutes(options.get("time", ""))
    if minutes:
        yield f"duration: {duration_text(minutes * 60)}  # an estimate: it is not stopped then"
    if "no-requeue" in options:
        yield "preemptible: false"
    if options.get("chdir", "").startswith("/"):
        yield f"workdir: {_quoted(options['chdir'])}"


def _processes(read: _Script) -> Iterator[str]:
    """Tasks are processes where srun starts the command itself, and no launcher does."""
    body = "\n".join(read.body)
    if not _SRUN.search(body) or _LAUNCHER.search(body):
        return
    nodes = _count(read.options, "nodes") or 1
    tasks, gpus = _tasks(read.options, nodes), _gpus(read.options, nodes)
    if tasks == gpus > 1:
        yield f"{FIELD}: {PER_GPU}"
    elif gpus and tasks not in (nodes, gpus):
        yield f"# not translated: {tasks} tasks on {gpus} GPUs, without {FIELD}: {PER_GPU}"


def _resources(options: Mapping[str, str]) -> Iterator[str]:
    nodes = _count(options, "nodes") or 1
    gpus = _gpus(options, nodes)
    cpus = (_count(options, "cpus-per-task") or 1) * _tasks(options, nodes)
    memory = _gib(options.get("mem", "")) * nodes
    yield "resources:"
    yield f"  gpus: {gpus}"
    if not gpus:
        yield f"  cpus: {cpus}"
        if memory:
            yield f"  memory: {memory_text(memory)}"
        return
    found = _GPU_TYPE.fullmatch(options.get("gres", "") or options.get("gpus", ""))
    if found and found[1] != "gpu":
        yield f"  gpu_type: {_quoted(found[1])}"
    each = _count(options, "cpus-per-gpu") or (
        math.ceil(cpus / gpus) if "cpus-per-task" in options else 0
    )
    if each:
        yield f"  cpus_per_gpu: {each}"
    memory_each = _gib(options.get("mem-per-gpu", "")) or memory / gpus
    if memory_each:
        yield f"  memory_per_gpu: {memory_text(memory_each)}"


def _gpus(options: Mapping[str, str], nodes: int) -> int:
    per_node = _count(options, "gpus-per-node")
    if not per_node and options.get("gres", "").startswith("gpu"):
        per_node = _count(options, "gres") or 1
    per_task = _count(options, "gpus-per-task") * _tasks(options, nodes)
    return min(_count(options, "gpus") or per_node * nodes or per_task, 99_999)


def _tasks(options: Mapping[str, str], nodes: int) -> int:
    return _count(options, "ntasks") or (_count(options, "ntasks-per-node") or 1) * nodes


def _count(options: Mapping[str, str], name: str) -> int:
    return _number(options.get(name, ""))


def _number(text: str) -> int:
    """The number in `4`, `a100:4` or `gpu:a100:4`; of `2-4`, the larger."""
    found = _COUNT.fullmatch(text)
    return int(found[1]) if found else 0


def _gib(text: str) -> float:
    found = _SIZE.fullmatch(text)
    return float(found[1]) * GIB[found[2].upper()] if found else 0.0


def _minutes(text: str) -> int:
    """Slurm's times: `90`, `90:00`, `1:30:00`, `2-12`, `2-12:30`."""
    found = _TIME.fullmatch(text)
    if not found:
        return 0
    days, first, second, third = (int(part) if part else None for part in found.groups())
    if days is not None:
        return days * 1440 + (first or 0) * 60 + (second or 0)
    if third is not None:
        return (first or 0) * 60 + (second or 0)
    return first or 0


def _command(body: list[str]) -> list[str]:
    lines = [line for line in body if not line.startswith("#!")]
    while lines and not lines[0].strip():
        del lines[0]
    while lines and not lines[-1].strip():
        del lines[-1]
    return lines or ["true"]


def _quoted(text: str) -> str:
    """Quotes where YAML would take the text for something else."""
    plain = re.fullmatch(r"[a-zA-Z/][A-Za-z0-9._/-]*", text)
    return text if plain else json.dumps(text, ensure_ascii=False)


READ: Final[Mapping[str, Callable[[str], object]]] = {
    "job-name": bool,
    "partition": bool,
    "chdir": lambda value: value.startswith("/"),
    "requeue": lambda _: True,
    "no-requeue": lambda _: True,
    "time": _minutes,
    "mem": _gib,
    "mem-per-gpu": _gib,
    "gres": lambda value: value.startswith("gpu"),
    "gpus": _number,
    "gpus-per-node": _number,
    "gpus-per-task": _number,
    "nodes": _number,
    "ntasks": _number,
    "ntasks-per-node": _number,
    "cpus-per-task": _number,
    "cpus-per-gpu": _number,
}
