"""`weft trace convert`: any workload that can be read, as Weft's own table."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.cli.options import FORMAT, ON_FAULT, Naming, naming_options
from weft.cli.terminal.screen import say

if TYPE_CHECKING:
    from weft.trace.workload import Workload


@click.command()
@click.argument("workload")
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@FORMAT
@ON_FAULT
@naming_options
def convert(
    workload: str,
    target: Path,
    *,
    format: str | None,
    on_fault: str,
    naming: Naming,
) -> None:
    """Read WORKLOAD and write it to TARGET (.csv, .csv.gz or .parquet)."""
    from weft.trace.readers import read

    jobs = read(
        workload,
        format=format,
        on_fault="skip" if on_fault == "skip" else "raise",
        **naming.words,
    )
    leave(jobs, target)


def leave(workload: "Workload", target: Path) -> None:
    """Write the table, and say what was found on the way."""
    from weft.trace.faults import grouped
    from weft.trace.store import write

    write(workload, target)
    for group in grouped(workload.faults):
        say(f"{group.first.severity}: {group.text}; {group.first.remedy}")
    say(f"{len(workload.jobs):,} jobs in {target}")
