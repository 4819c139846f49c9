"""The GPUs of this machine, each by a name that keeps its meaning whatever else a process sees.

A number says where a GPU stands among those that are visible, in an order that may be chosen; a
UUID says which one it is. They are found without any library: `nvidia-smi` tells them where it is
installed, and whoever is to be tested brings a lister of its own.
"""

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from weft.model.errors import WorldError

QUESTION: Final = ("--query-gpu=index,uuid", "--format=csv,noheader")
PATIENCE_SECONDS: Final = 20.0
SLICE: Final = "MIG-"  # a part of a GPU, which has a name but no number


@dataclass(frozen=True, slots=True)
class Gpu:
    """One that a worker may be given."""

    number: int
    uuid: str


Lister = Callable[[], tuple[Gpu, ...]]


def listed() -> tuple[Gpu, ...]:
    """As `nvidia-smi` tells them; none where there is no such program."""
    told = told_by_driver(QUESTION, without="--devices none does without GPUs")
    return () if told is None else parse(told)


def told_by_driver(question: Sequence[str], *, without: str) -> str | None:
    """What `nvidia-smi` answers, if it is installed; `without` is how to do without it."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    try:
        answer = subprocess.run(
            (program, *question),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise WorldError(
            f"nvidia-smi cannot tell which GPUs there are: {error}",
            hint=f"run nvidia-smi by hand; {without}",
        ) from error
    return answer.stdout


def parse(text: str) -> tuple[Gpu, ...]:
    """A line for each GPU: `0, GPU-5a1c…`."""
    rows = ([field.strip() for field in line.split(",")] for line in text.splitlines())
    return tuple(Gpu(int(row[0]), row[1]) for row in rows if len(row) > 1 and row[0].isdigit())


def visible(found: tuple[Gpu, ...], variables: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Those that a CUDA program would see, in the order in which it would.

    As CUDA does, a word that names no GPU hides all behind it.
    """
    wanted = variables.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return found
    seen: list[Gpu] = []
    for word in filter(None, (word.strip() for word in wanted.split(","))):
        gpu = _named(word, found, len(seen))
        if gpu is None:
            break
        seen.append(gpu)
    return tuple(seen)


def _named(word: str, found: tuple[Gpu, ...], place: int) -> Gpu | None:
    if word.startswith(SLICE):
        beyond = max((gpu.number for gpu in found), default=-1) + 1
        return Gpu(beyond + place, word)
    if word.isdigit():
        return next((gpu for gpu in found if gpu.number == int(word)), None)
    return next((gpu for gpu in found if gpu.uuid.startswith(word)), None)
