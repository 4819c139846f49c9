"""`weft compare`: recipes side by side."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.cli.completion.candidates import recipes as recipe_names
from weft.cli.lab.looking import look_before
from weft.cli.options import World, folder_options, output_option, source_options, world_options
from weft.cli.terminal.screen import new_table, plain, print_json, say, stdout
from weft.cli.terminal.waiting import waiting
from weft.lab.time_words import number, rough, scale_of, unit_for

if TYPE_CHECKING:
    from rich.table import Table

    from weft.lab.compare import Comparison, Metric, Row
    from weft.lab.experiment import Experiment
    from weft.lab.interval import Interval
    from weft.lab.source import Source

RECIPES = "fifo,backfill,las,srtf,weave"
NARROW = (
    *("mean_jct_seconds", "p95_jct_seconds", "mean_start_delay_seconds", "mean_slowdown"),
    *("utilisation_while_arriving", "preemptions_per_job"),
)


@click.command()
@source_options
@world_options
@click.option(
    "-r",
    "--recipe",
    "recipes",
    multiple=True,
    default=[RECIPES],
    shell_complete=recipe_names,
    help="Recipes, separated by commas or by repeating the option; the first is the baseline."
    f"  [default: {RECIPES}]",
)
@click.option(
    "--seeds",
    "seeds",
    default="0,1,2",
    show_default=True,
    help="Seeds, separated by commas; each generates its own workload.",
)
@click.option(
    "--workers", type=click.IntRange(1), help="Processes at once.  [default: one per CPU]"
)
@folder_options
@output_option("table", "wide", "json")
def compare(
    *,
    source: "Source",
    world: World,
    recipes: tuple[str, ...],
    seeds: str,
    workers: int | None,
    folder: Path | None,
    output: str,
) -> None:
    """Run several recipes on WORKLOAD, or on generated ones, and tell them apart.

    Intervals are 95 % over the seeds; differences are to the first recipe, seed by seed.
    """
    experiment, numbers = world.experiment(source), _numbers(seeds)
    look_before(experiment, recipes)
    comparison = _run(experiment, recipes, numbers, workers)
    if output == "json":
        print_json(comparison.as_dict())
    else:
        stdout().print(table_of(comparison, wide=output == "wide"))
    if folder is not None:
        _leave(folder, comparison)


def table_of(comparison: "Comparison", *, wide: bool = False) -> "Table":
    """A row per recipe, a column per number, and how it differs from the first."""
    from weft.lab.compare import METRICS

    rows, experiment = comparison.rows, comparison.experiment
    count = len(comparison.seeds)
    table = new_table(
        f"{experiment.source.label} · {experiment.cluster} · "
        f"{count} {'seed' if count == 1 else 'seeds'}",
        caption=_caption(comparison),
    )
    shown = [metric for metric in METRICS if wide or metric.field in NARROW]
    units = {metric.field: _unit(metric, rows) for metric in shown}
    table.add_column("recipe")
    for metric in shown:
        unit = units[metric.field]
        table.add_column(metric.title + (f"\n({unit})" if unit else ""), justify="right")
    table.add_column(f"mean JCT\nvs {plain(rows[0].recipe)}", justify="right")
    for row in rows:
        cells = [_cell(row.metrics[m.field], units[m.field]) for m in shown]
        table.add_row(plain(row.recipe), *cells, _change(row, rows[0]))
    return table


def _run(
    experiment: "Experiment", recipes: tuple[str, ...], seeds: list[int], workers: int | None
) -> "Comparison":
    from weft.lab.compare import compare as run_all
    from weft.spec.recipe import split_recipes

    with waiting("comparing") as progress:
        return run_all(
            experiment,
            recipes=[part for text in recipes for part in split_recipes(text)],
            seeds=seeds,
            workers=workers or _cpus(),
            progress=progress,
        )


def _cpus() -> int:
    """CPUs that this process may use, which in a container are fewer than there are."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


def _leave(folder: Path, comparison: "Comparison") -> None:
    from weft.lab.compare_dir import leave_in

    leave_in(folder, comparison, command=["weft", *sys.argv[1:]])
    say(f"report: {folder / 'report.html'}")


def _numbers(seeds: str) -> list[int]:
    try:
        return [int(seed) for seed in seeds.split(",")]
    except ValueError:
        raise click.BadParameter(f"'{seeds}' are no whole numbers", param_hint="--seeds") from None


def _unit(metric: "Metric", rows: "tuple[Row, ...]") -> str:
    if metric.unit != "s":
        return metric.unit
    return unit_for(max(abs(row.metrics[metric.field].mean) for row in rows))


def _cell(value: "Interval", unit: str) -> str:
    scale = scale_of(unit)
    mean = number(value.mean / scale)
    return mean if value.half_width is None else f"{mean} ± {rough(value.half_width / scale)}"


def _change(row: "Row", first: "Row") -> str:
    ratio = row.ratio_to_first["mean_jct_seconds"]
    if row is first or ratio is None:
        return "baseline" if row is first else ""
    text = f"{ratio.mean - 1.0:+.0%}".replace("-", "−")
    return text if ratio.half_width is None else f"{text} ± {ratio.half_width * 100:.0f}"


def _caption(comparison: "Comparison") -> str:
    left = sum(row.unfinished for row in comparison.rows)
    several = "± is a 95 % interval over the seeds; the last column is taken seed by seed."
    text = several if len(comparison.seeds) > 1 else "One seed: no intervals."
    return text + (f" {left:,} jobs never finished and are not in the times." if left else "")
