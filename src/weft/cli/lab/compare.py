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

    from weft.lab.comparison import Comparison, Metric, Row
    from weft.lab.experiment import Experiment
    from weft.lab.interval import Interval
    from weft.lab.workloads.source import Source

RECIPES = "fifo,backfill,las,srtf,weave"
APART = ("mean_jct_seconds", "p95_jct_seconds", "mean_slowdown")
NARROW = (
    *("mean_jct_seconds", "p95_jct_seconds", "mean_start_delay_seconds", "mean_slowdown"),
    "utilisation_while_arriving",
)
SHORTEST_NAME = 16
NUMBERS = 58  # columns of a terminal that the numbers of a narrow table need


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

    Differences to the first recipe come first, taken seed by seed; then the means. Intervals are
    95 % over the seeds.
    """
    experiment, numbers = world.experiment(source), _numbers(seeds)
    look_before(experiment, recipes)
    comparison = _run(experiment, recipes, numbers, workers)
    if output == "json":
        print_json(comparison.as_dict())
    else:
        show(comparison, wide=output == "wide")
    if folder is not None:
        _leave(folder, comparison)


def show(comparison: "Comparison", *, wide: bool) -> None:
    """What sets the recipes apart first, then what each of them does; both fit 80 columns."""
    console, rows = stdout(), comparison.rows
    most = max(SHORTEST_NAME, console.width - NUMBERS)
    console.print(_title(comparison), markup=False, style="bold")
    if len(rows) > 1:
        console.print(f"\nagainst {rows[0].recipe}, seed by seed", markup=False, style="bold")
        console.print(_differences(comparison, wide=wide, most=most))
        console.print(_noise(comparison), style="dim italic")
        console.print("\nmeans over the seeds", style="bold")
    console.print(_means(comparison, wide=wide, most=most))
    for row in rows:
        if row.failed:
            lost = (
                f"{row.failed:,} jobs failed for good under {row.recipe}: in its times up to then"
            )
            console.print(lost, markup=False, style="dim italic")
        if row.unfinished:
            left = f"{row.unfinished:,} jobs never finished under {row.recipe}: not in its times"
            console.print(left, markup=False, style="dim italic")


def _differences(comparison: "Comparison", *, wide: bool, most: int) -> "Table":
    from weft.lab.change import change
    from weft.lab.comparison import METRICS

    first, rows = comparison.rows[0], comparison.rows[1:]
    shown = [metric for metric in METRICS if wide or metric.field in APART]
    table = new_table("")
    table.add_column("recipe", max_width=most, overflow="fold")
    for metric in shown:
        table.add_column(metric.title, justify="right")
    for row in rows:
        table.add_row(plain(row.recipe), *(change(row, first, metric).text for metric in shown))
    return table


def _noise(comparison: "Comparison") -> str:
    from weft.lab.change import UNCLEAR

    if len(comparison.seeds) == 1:
        return "One seed: no intervals."
    return f"± is a 95 % interval over the seeds; {UNCLEAR} may be no difference at all."


def _means(comparison: "Comparison", *, wide: bool, most: int) -> "Table":
    from weft.lab.comparison import METRICS

    rows = comparison.rows
    table = new_table("")
    shown = [metric for metric in METRICS if wide or metric.field in NARROW]
    units = {metric.field: _unit(metric, rows) for metric in shown}
    table.add_column("recipe", max_width=most, overflow="fold")
    for metric in shown:
        unit = units[metric.field]
        table.add_column(metric.title + (f"\n({unit})" if unit else ""), justify="right")
    for row in rows:
        cells = [_cell(row.metrics[m.field], units[m.field], wide=wide) for m in shown]
        table.add_row(plain(row.recipe), *(cells if row.ended else ["–"] * len(cells)))
    return table


def _title(comparison: "Comparison") -> str:
    experiment, count = comparison.experiment, len(comparison.seeds)
    seeds = f"{count} {'seed' if count == 1 else 'seeds'}"
    return f"{experiment.source.label} · {experiment.cluster} · {seeds}"


def _run(
    experiment: "Experiment", recipes: tuple[str, ...], seeds: list[int], workers: int | None
) -> "Comparison":
    from weft.lab.comparison import compare as run_all
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
    found = [seed.strip() for seed in seeds.split(",")]
    if not all(map(str.isdecimal, found)):
        raise click.BadParameter(f"'{seeds}' are no whole numbers from 0 on", param_hint="--seeds")
    return [int(seed) for seed in found]


def _unit(metric: "Metric", rows: "tuple[Row, ...]") -> str:
    if metric.unit != "s":
        return metric.unit
    return unit_for(max(abs(row.metrics[metric.field].mean) for row in rows))


def _cell(value: "Interval", unit: str, *, wide: bool) -> str:
    scale = scale_of(unit)
    mean = number(value.mean / scale)
    if value.half_width is None or not wide:
        return mean
    return f"{mean} ± {rough(value.half_width / scale)}"
