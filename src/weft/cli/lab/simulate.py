"""`weft simulate`: one workload under one recipe."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.cli.completion.candidates import recipes as recipe_names
from weft.cli.lab.looking import look_before
from weft.cli.options import (
    SEED,
    World,
    folder_options,
    output_option,
    source_options,
    world_options,
)
from weft.cli.terminal.screen import new_table, plain, print_json, say, stdout
from weft.cli.terminal.waiting import waiting
from weft.lab.time_words import number, span

if TYPE_CHECKING:
    from rich.table import Table

    from weft.lab.experiment import Experiment, Outcome
    from weft.lab.summary import Summary
    from weft.lab.workloads.source import Source


@click.command()
@source_options
@world_options
@click.option(
    "-r",
    "--recipe",
    default="weave",
    show_default=True,
    shell_complete=recipe_names,
    help="See weft recipes; NAME(KNOB=VALUE).",
)
@SEED
@folder_options
@output_option()
def simulate(
    *,
    source: "Source",
    world: World,
    recipe: str,
    seed: int,
    folder: Path | None,
    output: str,
) -> None:
    """Run WORKLOAD, or a generated one, under one recipe on a simulated cluster.

    WORKLOAD is a table of jobs, a job file with its duration, or a folder of job files.
    """
    experiment = world.experiment(source, recipe=recipe, seed=seed)
    look_before(experiment, (recipe,))
    outcome = _run(experiment, folder)
    if output == "json":
        print_json(outcome.summary.as_dict())
    else:
        show(outcome.summary)
    _talk(outcome, folder)


def show(summary: "Summary") -> None:
    """The headline, what was waited for, and the tenants."""
    console = stdout()
    console.print(_headline(summary))
    console.print(_remarks(summary), markup=False)
    waits = {cause: total for cause, total in summary.waits_seconds.items() if total > 0}
    if waits:
        console.print(_waits(waits, summary.jobs))
    if summary.foretold:
        console.print(_foretold(summary))
    if len(summary.tenants) > 1:
        console.print(_tenants(summary))


def _run(experiment: "Experiment", folder: Path | None) -> "Outcome":
    from weft.lab.experiment import run
    from weft.lab.run_dir import run_into

    with waiting(f"simulating {experiment.recipe}") as progress:
        if folder is None:
            return run(experiment, progress=progress)
        return run_into(folder, experiment, command=["weft", *sys.argv[1:]], progress=progress)


def _talk(outcome: "Outcome", folder: Path | None) -> None:
    unfinished = outcome.summary.unfinished
    if unfinished:
        say(f"note: {unfinished:,} jobs never finished; weft why JOB --run DIR tells the reason")
    if folder is not None:
        say(f"report: {folder / 'report.html'}")
        say(f"next: weft why {_most_waiting(outcome)} --run {folder}")


def _most_waiting(outcome: "Outcome") -> str:
    """The job whose wait a person would ask about first."""
    lines = outcome.record.jobs.values()
    return max(lines, key=lambda line: sum(line.waits_seconds)).id if lines else "JOB"


def _headline(summary: "Summary") -> "Table":
    table = new_table(f"{summary.recipe} · {summary.workload} · {summary.cluster}")
    table.add_column("")
    for title in ("mean", "median", "p95", "p99"):
        table.add_column(title, justify="right")
    jct = (
        summary.mean_jct_seconds,
        summary.median_jct_seconds,
        summary.p95_jct_seconds,
        summary.p99_jct_seconds,
    )
    table.add_row("completion time", *map(span, jct))
    delay = (span(summary.mean_start_delay_seconds), "", span(summary.p95_start_delay_seconds), "")
    table.add_row("start delay", *delay)
    return table


def _remarks(summary: "Summary") -> str:
    failed = f", {summary.failed:,} failed for good," if summary.failed else ""
    return (
        f"{summary.finished:,} of {summary.jobs:,} jobs finished{failed} in "
        f"{span(summary.makespan_seconds)}\n"
        f"{summary.utilisation_while_arriving:.1%} of GPUs in use while jobs arrived, "
        f"{summary.utilisation:.1%} over the whole time\n"
        f"{number(summary.preemptions_per_job)} preemptions and "
        f"{number(summary.resizes_per_job)} resizes per job\n"
        f"{summary.events:,} events and {summary.rounds:,} rounds simulated in "
        f"{summary.wall_seconds:.1f} s; journal {summary.journal_hash}"
    )


def _waits(waits: dict[str, float], jobs: int) -> "Table":
    table = new_table("\nWaiting time by cause")
    table.add_column("cause")
    table.add_column("per job", justify="right")
    table.add_column("share", justify="right")
    total = sum(waits.values())
    for cause, seconds in sorted(waits.items(), key=lambda pair: -pair[1]):
        table.add_row(cause, span(seconds / jobs), f"{seconds / total:.1%}")
    return table


def _foretold(summary: "Summary") -> "Table":
    table = new_table("\nWhat was foretold, against what came")
    table.add_column("prediction")
    for title in ("scored", "80 % interval held", "median error", "p90 error"):
        table.add_column(title, justify="right")
    for line in summary.foretold:
        shares = (line.coverage, line.median_error, line.p90_error)
        table.add_row(line.what, f"{line.count:,}", *(f"{share:.1%}" for share in shares))
    return table


def _tenants(summary: "Summary") -> "Table":
    table = new_table("Tenants", caption=f"Jain index of their slowdowns: {summary.jain_index:.3f}")
    table.add_column("tenant")
    for title in ("jobs", "share of GPU time", "mean JCT", "slowdown"):
        table.add_column(title, justify="right")
    for tenant in sorted(summary.tenants, key=lambda tenant: -tenant.share):
        table.add_row(
            plain(tenant.tenant),
            f"{tenant.jobs:,}",
            f"{tenant.share:.1%}",
            span(tenant.mean_jct_seconds),
            number(tenant.mean_slowdown),
        )
    return table
