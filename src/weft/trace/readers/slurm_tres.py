"""Slurm's trackable resources: `billing=8,cpu=64,gres/gpu:a100=4,gres/gpu=4,mem=512G,node=1`.

A site counts GPUs together (`gres/gpu=4`), by type (`gres/gpu:a100=4`), or both; the parts by type
are then part of the whole. MIG slices, shards and MPS shares are parts of GPUs, which no job of a
simulation can hold.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

GPU: Final = "gres/gpu"
TYPED_GPU: Final = "gres/gpu:"
SHARED: Final = ("gres/shard", "gres/mps")
MIG: Final = re.compile(r"(?<!\d)\d+g\.\d+gb", re.IGNORECASE)
MEMORY: Final = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)n?c?", re.IGNORECASE)
GIB_PER: Final = {"K": 2.0**-20, "M": 2.0**-10, "": 2.0**-10, "G": 1.0, "T": 2.0**10, "P": 2.0**20}


@dataclass(frozen=True, slots=True)
class Tres:
    """What one job asked for or was given, all its nodes together."""

    gpus: int = 0
    #: GPU types in the order of the cell; empty where the site counts no types.
    types: tuple[str, ...] = ()
    #: Whether every GPU has a type.
    all_typed: bool = False
    cpus: float | None = None
    memory_gib: float | None = None
    #: Generic resources that are no GPUs, by count.
    others: tuple[str, ...] = ()


def read_tres(cell: str) -> Tres:
    """The cell as amounts; `ValueError` says what in it cannot be counted."""
    amounts = dict(_pair(part) for part in cell.strip().split(",") if part)
    by_type = {
        name.removeprefix(TYPED_GPU): _count(name, amount)
        for name, amount in amounts.items()
        if name.startswith(TYPED_GPU)
    }
    _refuse_parts(amounts, by_type)
    typed = sum(by_type.values())
    gpus = _count(GPU, amounts[GPU]) if GPU in amounts else typed
    if typed > gpus:
        raise ValueError(f"counts {gpus} GPUs, and {typed} by type")
    return Tres(
        gpus=gpus,
        types=tuple(name for name, count in by_type.items() if count),
        all_typed=0 < typed == gpus,
        cpus=float(_count("cpu", amounts["cpu"])) if "cpu" in amounts else None,
        memory_gib=_memory_gib(amounts["mem"]) if "mem" in amounts else None,
        others=_others(amounts),
    )


def _pair(part: str) -> tuple[str, str]:
    name, equals, amount = part.partition("=")
    if not equals:
        raise ValueError(f"has '{part}', which is no NAME=AMOUNT")
    return name.strip(), amount.strip()


def _count(name: str, amount: str) -> int:
    if not (amount.isascii() and amount.isdigit()):
        raise ValueError(f"has {name}={amount}, which is no whole number")
    return int(amount)


def _refuse_parts(amounts: Mapping[str, str], by_type: Mapping[str, int]) -> None:
    """Refuse parts of GPUs, which would count as whole ones or as none."""
    slices = [name for name, count in by_type.items() if count and MIG.search(name)]
    if slices:
        raise ValueError(f"counts MIG slices ({slices[0]}), which are parts of a GPU")
    for name, amount in amounts.items():
        if name.partition(":")[0] in SHARED and amount.strip("0"):
            raise ValueError(f"holds {name}={amount}, which is part of a GPU")


def _others(amounts: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(
        f"{name}={amount}"
        for name, amount in amounts.items()
        if name.startswith("gres/") and name.partition(":")[0] != GPU and amount.strip("0")
    )


def _memory_gib(amount: str) -> float:
    """Slurm counts MiB where it names no unit, and its units are powers of 1,024."""
    found = MEMORY.fullmatch(amount)
    if found is None:
        raise ValueError(f"has mem={amount}, which is no amount of memory")
    return float(found[1]) * GIB_PER[found[2].upper()]
