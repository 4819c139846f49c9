"""`weft trace convert`: any workload that can be read, as Weft's own table."""

from pathlib import Path

import click

from weft.cli.options import FORMAT, ON_FAULT
from weft.cli.screen import say


@click.command()
@click.argument("workload")
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@FORMAT
@ON_FAULT
def convert(workload: str, target: Path, format: str | None, on_fault: str) -> None:
    """Read WORKLOAD and write it to TARGET (.csv, .csv.gz or .parquet)."""
    from weft.trace.readers import read
    from weft.trace.store import write

    jobs = read(workload, format=format, on_fault="skip" if on_fault == "skip" else "raise")
    write(jobs, target)
    say(f"{len(jobs.jobs):,} jobs in {target}")
