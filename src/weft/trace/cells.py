"""How a value stands in one cell of a job table, read and written by the same few rules.

Lists are separated by `|`; a pair is `key:value`. Every reader of a cell raises `ValueError` with
the problem in words, and every value that was written reads back as itself.

    gpus        8             or 2..16 for a job that can be resized
    gpu_types   V100          or V100|A100:1.8 with speeds relative to the job's reference type
    curve       1:100|2:190   samples per second by width
    plans       data=4 tensor=2 recompute|sharding=gradients offload
    stages      iteration:1.2|storage:0.4|gpu:0.6|memory:8, in seconds and GiB of a GPU
"""

import math
from dataclasses import fields
from datetime import timedelta

from weft.model.curve import Curve
from weft.model.errors import SpecError
from weft.model.ids import GpuType
from weft.model.plan import ExecutionPlan, Sharding
from weft.model.request import GpuSpeed, Width
from weft.model.stages import StageProfile
from weft.trace.bounds import LEAST_SPEED, MOST_GPU_GIB, MOST_GPUS, MOST_SPEED

FLAGS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
DEGREES = (
    *("data", "tensor", "pipeline", "accumulation_steps"),
    *("micro_batches", "shard_degree", "context", "expert"),
)
SWITCHES = ("recompute", "offload")
GIB = 2**30
STAGE_MEMORY = "gpu_memory_gib"
STAGE_FIELDS = {
    **{
        name: f"{name}_seconds"
        for name in ("iteration", "storage", "cpu", "gpu", "network", "loading")
    },
    "memory": STAGE_MEMORY,
}


def write_cell(value: object) -> str:
    """A plain value as text: nothing for None, whole floats without a point."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def cell_of(value: object) -> str:
    """A value of a data frame or a Parquet file as the cell of a table; lengths keep their unit."""
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.9f}".rstrip("0").rstrip(".") + "s"
    return value.decode() if isinstance(value, bytes) else write_cell(value)


def read_flag(cell: str) -> bool:
    flag = FLAGS.get(cell.strip().lower())
    if flag is None:
        raise ValueError("is neither true nor false")
    return flag


def read_width(cell: str) -> Width:
    """`8`, or `2..16`, which asks for the larger end."""
    least, dots, most = cell.partition("..")
    low = _whole(least)
    high = _whole(most) if dots else low
    if low > high:
        raise ValueError(f"the range {low}..{high} runs backwards")
    return Width(low, high, high)


def write_width(width: Width) -> str:
    return f"{width.min_gpus}..{width.max_gpus}" if width.elastic else str(width.asked_gpus)


def read_gpu_types(cell: str) -> tuple[GpuSpeed, ...]:
    return tuple(_gpu_speed(part) for part in cell.split("|"))


def write_gpu_types(types: tuple[GpuSpeed, ...]) -> str:
    return "|".join(f"{accepted.type}:{write_cell(accepted.speed)}" for accepted in types)


def read_curve(cell: str) -> Curve:
    points = []
    for part in cell.split("|"):
        width, _, speed = part.partition(":")
        points.append((_whole(width), _positive(speed)))
    try:
        return Curve(tuple(points))
    except SpecError as error:
        raise ValueError(str(error)) from error


def write_curve(curve: Curve | None) -> str:
    return (
        "|".join(f"{width}:{write_cell(speed)}" for width, speed in curve.points) if curve else ""
    )


def read_stages(cell: str) -> StageProfile:
    """Seconds of an iteration and of its stages; `memory` is the peak of a GPU in GiB."""
    told: dict[str, float] = {}
    for part in cell.split("|"):
        name, _, number = part.strip().partition(":")
        if name not in STAGE_FIELDS:
            raise ValueError(f"'{name}' is no stage; there are {', '.join(STAGE_FIELDS)}")
        if STAGE_FIELDS[name] in told:
            raise ValueError(f"'{name}' is given twice")
        told[STAGE_FIELDS[name]] = _seconds(number)
    memory = told.pop(STAGE_MEMORY, None)
    if "iteration_seconds" not in told:
        raise ValueError("does not say how long an iteration takes alone")
    try:
        held = None if memory is None else _bytes(memory)
        return _meant(StageProfile(**told, gpu_memory_bytes=held))
    except SpecError as error:
        raise ValueError(str(error)) from error


def write_stages(profile: StageProfile | None) -> str:
    if profile is None:
        return ""
    cells = {name: getattr(profile, own) for name, own in STAGE_FIELDS.items() if name != "memory"}
    held = profile.gpu_memory_bytes
    told = {name: seconds for name, seconds in cells.items() if seconds or name == "iteration"}
    if held is not None:
        told["memory"] = held / GIB
    return "|".join(f"{name}:{number!r}" for name, number in told.items())


def read_plans(cell: str) -> tuple[ExecutionPlan, ...]:
    return tuple(_plan(part) for part in cell.split("|"))


def write_plans(plans: tuple[ExecutionPlan, ...]) -> str:
    return "|".join(_plan_text(plan) for plan in plans)


def _whole(text: str) -> int:
    try:
        number = float(text)
    except ValueError:
        raise ValueError("is not a number of GPUs") from None
    if not math.isfinite(number) or number < 0:
        raise ValueError("is not a number of GPUs")
    if not number.is_integer():
        raise ValueError("asks for part of a GPU")
    if number > MOST_GPUS:
        raise ValueError(f"is more than {MOST_GPUS:,d} GPUs")
    return int(number)


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a speed") from None
    if not 0 < number < math.inf:
        raise ValueError(f"'{text}' is not a speed above 0")
    if not LEAST_SPEED <= number <= MOST_SPEED:
        raise ValueError(f"'{text}' is not a speed from {LEAST_SPEED:g} to {MOST_SPEED:g}")
    return number


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a number") from None
    if not 0 <= number < math.inf:
        raise ValueError(f"'{text}' is not a number of 0 or more")
    return number


def _meant(profile: StageProfile) -> StageProfile:
    """As it is, unless it is what a job file may not say either."""
    if not profile.busy_seconds:
        raise ValueError("tells of no stage that takes time")
    if profile.overlong:
        alone = f"the iteration of {profile.iteration_seconds:g} s"
        raise ValueError(f"'{profile.overlong}' is longer than {alone}")
    return profile


def _bytes(gib: float) -> int:
    if gib > MOST_GPU_GIB:
        raise ValueError(f"a memory of {gib:g} GiB is more than {MOST_GPU_GIB:,.0f} GiB")
    return round(gib * GIB)


def _gpu_speed(part: str) -> GpuSpeed:
    name, colon, speed = part.strip().rpartition(":")
    if not colon:
        name, speed = speed, "1"
    if not name:
        raise ValueError("names no GPU type")
    return GpuSpeed(GpuType(name), _positive(speed))


def _plan(part: str) -> ExecutionPlan:
    plan: dict[str, int | bool | Sharding] = {}
    for word in part.split():
        key, _, value = word.partition("=")
        if key in SWITCHES and not value:
            plan[key] = True
        elif key in DEGREES and value.isascii() and value.isdigit():
            plan[key] = _degree(word, value)
        elif key == "sharding" and value in tuple(Sharding):
            plan[key] = Sharding(value)
        else:
            raise ValueError(f"has no plan word '{word}'")
    return ExecutionPlan(**plan)  # type: ignore[arg-type]  # the branches above fit key and type


def _degree(word: str, value: str) -> int:
    """What follows from the width is left out, not written as 0."""
    if len(value) > len(str(MOST_GPUS)) or not 1 <= int(value) <= MOST_GPUS:
        raise ValueError(f"has '{word}', which is not from 1 to {MOST_GPUS:,d}")
    return int(value)


def _plan_text(plan: ExecutionPlan) -> str:
    words = []
    for knob in fields(plan):
        value = getattr(plan, knob.name)
        if value != knob.default:
            words.append(knob.name if value is True else f"{knob.name}={value}")
    return " ".join(words)
