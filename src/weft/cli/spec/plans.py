"""`weft plans`: how a model could be split, by GPUs, with the time and memory of each plan."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.cli.numbers import Finite
from weft.cli.options import output_option
from weft.cli.terminal.screen import new_table, print_json, stdout

if TYPE_CHECKING:
    from rich.table import Table

SCHEMA = "weft-plans/1"
GIB = 2**30
USUAL_GPUS = 16
MOST_GPUS = 1024


@dataclass(frozen=True, slots=True)
class Line:
    """The best plan on so many GPUs, nodes filled: seconds of a step, and GiB of a GPU."""

    gpus: int
    cores_per_gpu: float
    plan: str
    seconds: float
    slow_seconds: float
    gpu_gib: float
    useful: bool


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--gpus",
    type=click.IntRange(1, MOST_GPUS),
    help="Up to so many.  [default: what a job asks for at most, else 16]",
)
@click.option(
    "--node", type=click.IntRange(1, 16), default=8, show_default=True, help="GPUs of a node."
)
@click.option(
    "--memory", type=Finite(0, min_open=True), default=80.0, show_default=True, help="GiB of a GPU."
)
@output_option()
def plans(*, model: Path, gpus: int | None, node: int, memory: float, output: str) -> None:
    """Show the best plan of MODEL on each number of GPUs, with its time and memory.

    MODEL is a YAML file with parameters, layers, hidden, sequence and batch, or a job file that has
    these under model: then within its own range of GPUs. Times are foretold from the shape alone: a
    job that is measured corrects them.
    """
    found = lines(model, gpus, node, memory)
    if output == "json":
        print_json({"schema": SCHEMA, "plans": [asdict(one) for one in found]})
    else:
        stdout().print(_table(found))


def lines(model: Path, gpus: int | None, node: int, memory_gib: float) -> list[Line]:
    from weft.model.plan import AS_WRITTEN
    from weft.perf.plans.curve import best_plans
    from weft.perf.plans.fabric import Fabric
    from weft.perf.plans.options import Asked, options
    from weft.spec.model_file import read_model_file

    read = read_model_file(model)
    most = min(gpus or MOST_GPUS, read.most_gpus or gpus or USUAL_GPUS)
    fabric = Fabric(
        gpus_per_node=node, cards_per_node=max(1, node // 2), gpu_memory_bytes=memory_gib * GIB
    )
    asked = Asked(
        claim=read.claim,
        plans=(AS_WRITTEN,),
        gpus=1,
        cores=4.0,
        least_gpus=read.least_gpus,
        most_gpus=most,
    )
    found = options(asked, fabric)
    best = best_plans(found.model, found.bounds, (), cores=(4.0,), among=found.plans)
    useful = {one.allocation.gpus for one in found.useful}
    return [
        Line(
            one.allocation.gpus,
            one.allocation.cores,
            one.plan.text,
            one.seconds,
            one.slow_seconds,
            one.gpu_bytes / GIB,
            one.allocation.gpus in useful,
        )
        for one in best
        if read.least_gpus <= one.allocation.gpus <= most
    ]


def _table(found: list[Line]) -> "Table":
    table = new_table("Plans", caption="" if found else "no plan fits: give more GPUs or memory")
    for title in ("GPUs", "step (s)", "at most (s)", "GiB of a GPU", "plan", "of use"):
        table.add_column(title, justify="left" if title in ("plan", "of use") else "right")
    for one in found:
        figures = f"{one.seconds:.3g}", f"{one.slow_seconds:.3g}", f"{one.gpu_gib:.1f}"
        table.add_row(str(one.gpus), *figures, one.plan, "yes" if one.useful else "no")
    return table
