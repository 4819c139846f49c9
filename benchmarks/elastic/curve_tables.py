"""Measured curves of other systems: how fast a model trains by its width.

Gavel (three types of GPU, packed and spread over nodes), ElasticFlow (A100 and T4, to 64 GPUs), AFS
(nine models), Pollux (T4, four to a node, to 64 GPUs) and Sia (A100, V100, 2080 Ti, RTX 6000). A
curve is one model on one type of GPU at one batch, each width on the fewest nodes; several
placements of the same width on as few nodes count by their median. What is left out and why:

- AFS prints widths in between that its authors drew as straight lines in time: only 1, 2 and
  multiples of 4 were measured.
- Gavel gives widths that ran out of memory as 0, and ElasticFlow as 0 or nothing.
- Sia's GPT is a formula, not a measurement; of its two A100 tables the larger is taken.

Gavel, Pollux and Sia measured at a fixed batch per GPU, ElasticFlow and AFS at a fixed global
batch, which is what Weft's own runtime keeps. The measurements of Pollux and Sia at a fixed global
batch, wherever batches of the table multiply up to within 3 %, are curves of their own here; one
whose points are all among another's is left out.
"""

import csv
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from weft.perf.point import Point

SECONDS = 60.0
FEWEST_WIDTHS = 3
SAME_BATCH = 0.03

GAVEL_NODE = 8
ELASTICFLOW = {"A100": 8, "T4": 4}
AFS_NODE = 4
POLLUX = {"aws": 4}
SIA = {"azure": 8, "dgx-ext": 8, "quad": 4, "rtx": 8}
SIA_MODELS = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")

Steps = dict[tuple[int, int, int], float]
"""Seconds per step by GPUs, nodes and batch per GPU."""


@dataclass(frozen=True, slots=True)
class MeasuredCurve:
    """One curve; `program` names what else it has in common with its likes."""

    source: str
    program: str
    node_gpus: int
    points: tuple[Point, ...]


def measured_curves(traces: Path) -> list[MeasuredCurve]:
    """All of them, as published."""
    return [
        *_gavel(traces / "gavel"),
        *_elasticflow(traces / "elasticflow"),
        *_afs(traces / "afs"),
        *_profiled("pollux", POLLUX, traces / "sia" / "profiles"),
        *_profiled("sia", SIA, traces / "sia" / "profiles"),
    ]


def at_global_batch(traces: Path) -> list[MeasuredCurve]:
    """All curves along which the whole batch stays the same."""
    profiles = traces / "sia" / "profiles"
    composed = [
        *_profiled_globally("pollux", POLLUX, profiles),
        *_profiled_globally("sia", SIA, profiles),
    ]
    return [
        *_elasticflow(traces / "elasticflow"),
        *_afs(traces / "afs"),
        *(curve for curve in composed if not _is_part_of_another(curve, composed)),
    ]


def share_points(one: MeasuredCurve, other: MeasuredCurve) -> bool:
    """Whether a measurement is in both."""
    return not set(one.points).isdisjoint(other.points)


def is_packed(gpus: int, node_gpus: int) -> bool:
    """Whether the width divides a node or fills nodes."""
    return node_gpus % gpus == 0 or gpus % node_gpus == 0


# --- Gavel, ElasticFlow, AFS ------------------------------------------------------------------


def _gavel(folder: Path) -> Iterator[MeasuredCurve]:
    tables = json.loads((folder / "simulation_throughputs.json").read_text())
    for gpu_type, jobs in tables.items():
        speeds: dict[str, dict[int, float]] = defaultdict(dict)
        for key, row in jobs.items():
            model, gpus = re.fullmatch(r"\('(.+)', (\d+)\)", key).groups()  # type: ignore[union-attr]
            speeds[model][int(gpus)] = row["null"]
        apart = gpu_type.endswith("unconsolidated")
        for model, by_gpus in speeds.items():
            nodes = {gpus: gpus if apart else 1 for gpus in by_gpus}
            program = f"{gpu_type} {model.split(' (')[0]}"
            yield from _curve("gavel", program, GAVEL_NODE, by_gpus, nodes)


def _elasticflow(folder: Path) -> Iterator[MeasuredCurve]:
    for gpu_type, node_gpus in ELASTICFLOW.items():
        for path in sorted((folder / f"throughputs_{gpu_type}").glob("*.csv")):
            for row in _rows(path):
                row.pop("global_batch_size")
                speeds = {int(gpus): float(speed or 0) for gpus, speed in row.items()}
                program = f"{gpu_type} {path.stem}"
                yield from _curve("elasticflow", program, node_gpus, speeds)


def _afs(folder: Path) -> Iterator[MeasuredCurve]:
    speeds: dict[str, dict[int, float]] = defaultdict(dict)
    for row in _rows(folder / "curves.csv"):
        gpus = int(row["gpus"])
        if is_packed(gpus, AFS_NODE):
            speeds[row["model"]][gpus] = 1.0 / float(row["iteration_seconds"])
    for model, by_gpus in speeds.items():
        yield from _curve("afs", model, AFS_NODE, by_gpus)


# --- Pollux, Sia ------------------------------------------------------------------------------


def _profiled(source: str, types: dict[str, int], profiles: Path) -> Iterator[MeasuredCurve]:
    for program, node_gpus, steps in _profiles(types, profiles):
        for batch in sorted({batch for _, _, batch in steps}):
            speeds = {
                gpus: gpus * batch / seconds
                for (gpus, nodes, size), seconds in sorted(steps.items())
                if size == batch and nodes == _fewest(gpus, node_gpus)
            }
            yield from _curve(source, program, node_gpus, speeds)


def _profiled_globally(
    source: str, types: dict[str, int], profiles: Path
) -> Iterator[MeasuredCurve]:
    for program, node_gpus, steps in _profiles(types, profiles):
        seen = set()
        for whole in sorted({size * factor for _, _, size in steps for factor in (4, 16)}):
            speeds = {
                gpus: gpus * size / seconds
                for (gpus, nodes, size), seconds in sorted(steps.items())
                if abs(gpus * size / whole - 1) <= SAME_BATCH and nodes == _fewest(gpus, node_gpus)
            }
            if tuple(speeds.items()) not in seen:
                seen.add(tuple(speeds.items()))
                yield from _curve(source, program, node_gpus, speeds)


def _is_part_of_another(curve: MeasuredCurve, curves: list[MeasuredCurve]) -> bool:
    return any(
        curve.program == other.program and set(curve.points) < set(other.points) for other in curves
    )


def _profiles(types: dict[str, int], profiles: Path) -> Iterator[tuple[str, int, Steps]]:
    for model in SIA_MODELS:
        for gpu_type, node_gpus in types.items():
            yield f"{gpu_type} {model}", node_gpus, _steps(profiles / model, gpu_type)


def _steps(folder: Path, gpu_type: str) -> Steps:
    """The placements, and from the other file what they do not have."""
    placed: dict[tuple[int, int, int], list[float]] = defaultdict(list)
    for row in _rows(folder / f"placements-{gpu_type}.csv"):
        seats = [int(gpus) for gpus in row["placement"]]
        placed[sum(seats), len(seats), _batch(row)].append(float(row["step_time"]))
    steps = {key: median(seconds) for key, seconds in placed.items()}
    for row in _rows(folder / f"scalability-{gpu_type}.csv"):
        key = int(row["num_replicas"]), int(row["num_nodes"]), _batch(row)
        steps.setdefault(key, float(row["step_time"]))
    return steps


def _batch(row: dict[str, str]) -> int:
    return round(float(row["local_bsz"]))


# --- common -----------------------------------------------------------------------------------


def _curve(
    source: str,
    program: str,
    node_gpus: int,
    speeds: dict[int, float],
    nodes: dict[int, int] | None = None,
) -> Iterator[MeasuredCurve]:
    """One curve, if enough of its widths ran."""
    points = tuple(
        Point(
            gpus,
            speed,
            nodes=_fewest(gpus, node_gpus) if nodes is None else nodes[gpus],
            seconds=SECONDS,
        )
        for gpus, speed in sorted(speeds.items())
        if speed > 0 and math.isfinite(speed)
    )
    if len(points) >= FEWEST_WIDTHS:
        yield MeasuredCurve(source, program, node_gpus, points)


def _fewest(gpus: int, node_gpus: int) -> int:
    return math.ceil(gpus / node_gpus)


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="") as file:
        yield from csv.DictReader(file)
