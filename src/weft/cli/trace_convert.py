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
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="OURS=THEIRS",
    help="Read our column OURS from theirs; may be repeated.",
)
@click.option(
    "--duration",
    "durations",
    multiple=True,
    metavar="MODEL=SECONDS",
    help="How long a job of MODEL takes, for lists without durations; may be repeated.",
)
def convert(
    workload: str,
    target: Path,
    *,
    format: str | None,
    on_fault: str,
    columns: tuple[str, ...],
    durations: tuple[str, ...],
) -> None:
    """Read WORKLOAD and write it to TARGET (.csv, .csv.gz or .parquet)."""
    from weft.trace.readers import read
    from weft.trace.store import write

    jobs = read(
        workload,
        format=format,
        on_fault="skip" if on_fault == "skip" else "raise",
        columns=_pairs(columns, "--column") or None,
        durations=_seconds(_pairs(durations, "--duration")) or None,
    )
    write(jobs, target)
    say(f"{len(jobs.jobs):,} jobs in {target}")


def _pairs(given: tuple[str, ...], option: str) -> dict[str, str]:
    for pair in given:
        if "=" not in pair:
            raise click.BadParameter(f"'{pair}' is not of the form NAME=VALUE", param_hint=option)
    return dict(pair.split("=", 1) for pair in given)


def _seconds(durations: dict[str, str]) -> dict[str, float]:
    try:
        return {model: float(seconds) for model, seconds in durations.items()}
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--duration") from None
