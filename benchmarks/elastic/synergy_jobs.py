"""Synergy's workload: ten models that mind their cores and memory more or less.

The tables are Synergy's own: speed by cores per GPU (1, 2, 3, 4, 5, 6, 9, 12, 24) and by GiB per
GPU (20.83, 62.5, 125, 187.5, 250), relative to the share of 3 cores and 62.5 GiB that a GPU has of
a node with 8 GPUs, 24 cores and 500 GiB. Rows of zeros are shares that a node cannot give to so
many GPUs; tables for several GPUs begin at 62.5 GiB.

One job in five is an image model, seven in ten are language models and one in ten is a speech
model, each model of its class equally likely. Jobs come at moments without memory, so many per
hour, and last 60 × 10^U seconds on their fair share: U even in 1.5 … 3 for four in five, in 3 … 4
for the fifth. Either all ask for one GPU, or for 1, 2, 4, 8 or 16 as often as the jobs of the
Philly list do.
"""

import csv
import gzip
import json
from collections import Counter
from collections.abc import Mapping
from functools import cache
from math import log
from pathlib import Path

from weft.model.cluster import Cluster, Node
from weft.model.host import HostCurve
from weft.model.ids import JobId, NodeId
from weft.model.job import Job
from weft.model.request import INDIFFERENT, Width
from weft.model.truth import Work
from weft.sim.chance import Chance

TABLES = Path("synergy", "sensitivity.json")
PHILLY = Path("jobs", "philly_pollux.csv.gz")

CORES = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 9.0, 12.0, 24.0)
MEMORY_GIB = (20.83, 62.5, 125.0, 187.5, 250.0)
FAIR_CORES, FAIR_GIB = 3.0, 62.5
NODES, NODE_GPUS, NODE_CORES, NODE_GIB = 16, 8, 24.0, 500.0

CLASSES = (
    (0.2, ("alexnet", "res18", "res50", "mobilenet", "shufflenet")),
    (0.7, ("gnmt", "transformer", "lstm")),
    (0.1, ("m5", "deepspeech")),
)
WIDTHS = (1, 2, 4, 8, 16)
LONG_SHARE = 0.2
MEAN_SECONDS = 60.0 * (0.8 * (10**3 - 10**1.5) / 1.5 + 0.2 * (10**4 - 10**3)) / log(10)


def cluster() -> Cluster:
    """Synergy's: 128 GPUs."""
    return Cluster(
        tuple(
            Node(id=NodeId(f"n{i:02d}"), gpus=NODE_GPUS, cpus=NODE_CORES, memory_gib=NODE_GIB)
            for i in range(NODES)
        )
    )


@cache
def curves(traces: Path) -> Mapping[tuple[str, int], HostCurve]:
    """Every table, by model and width."""
    tables = json.loads((traces / TABLES).read_text())
    found = {}
    for name, table in tables.items():
        model, width = name.rsplit("_", 1)
        found[model, int(width)] = _curve(table["tput"])
    return found


@cache
def width_shares(traces: Path) -> Mapping[int, float]:
    """How often the Philly list asks for each of the widths."""
    with gzip.open(traces / PHILLY, "rt") as lines:
        asked = Counter(int(float(row["num_gpus"])) for row in csv.DictReader(lines))
    total = sum(asked[width] for width in WIDTHS)
    return {width: asked[width] / total for width in WIDTHS}


def saturation(traces: Path, *, wide: bool) -> float:
    """Jobs per hour that the cluster's GPUs can just do, each on its fair share."""
    mean_gpus = 1.0
    if wide:
        mean_gpus = sum(width * share for width, share in width_shares(traces).items())
    return NODES * NODE_GPUS * 3600.0 / (MEAN_SECONDS * mean_gpus)


def arrivals(traces: Path, count: int, per_hour: float, *, seed: int, wide: bool) -> list[Job]:
    """Jobs in the order in which they come; at every load the same ones, closer together."""
    chance, at, found = Chance(seed), 0.0, []
    for number in range(count):
        at -= log(1.0 - chance.uniform("gap", number)) * 3600.0 / per_hour
        found.append(_job(traces, chance, number, at, wide=wide))
    return found


def _job(traces: Path, chance: Chance, number: int, at: float, *, wide: bool) -> Job:
    model = _model(chance.uniform("class", number), chance.uniform("model", number))
    gpus = _width(traces, chance.uniform("width", number)) if wide else 1
    low, high = (3.0, 4.0) if chance.uniform("long", number) < LONG_SHARE else (1.5, 3.0)
    exponent = low + (high - low) * chance.uniform("length", number)
    return Job.told(
        id=JobId(f"j{number:05d}"),
        width=Width.fixed(gpus),
        work=Work(60.0 * 10**exponent),
        submit_seconds=at,
        cpus_per_gpu=FAIR_CORES,
        memory_gib_per_gpu=FAIR_GIB,
        locality=INDIFFERENT,
        saves_on_demand=True,
        host=_table(curves(traces), model, gpus),
        model=model,
    )


def _model(kind: float, draw: float) -> str:
    for share, models in CLASSES:
        if kind < share:
            return models[int(draw * len(models))]
        kind -= share
    return CLASSES[-1][1][-1]


def _width(traces: Path, draw: float) -> int:
    for width, share in width_shares(traces).items():
        if draw < share:
            return width
        draw -= share
    return 1


def _table(known: Mapping[tuple[str, int], HostCurve], model: str, gpus: int) -> HostCurve:
    """Of that width, else of the widest that was measured."""
    return known[model, max(width for name, width in known if name == model and width <= gpus)]


def _curve(speeds: list[list[float]]) -> HostCurve:
    rows = [tuple(float(speed) for speed in row) for row in speeds if any(row)]
    memory = MEMORY_GIB[len(MEMORY_GIB) - len(rows[0]) :]
    return HostCurve(CORES[: len(rows)], memory, tuple(rows))
