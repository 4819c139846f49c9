"""`weft trace import`: a cluster's own history as Weft's table."""

from pathlib import Path

import click

from weft.cli.options import ON_FAULT, Naming, naming_options
from weft.model.errors import SpecError

FORMATS = {"sacct": "sacct", "kueue": None, "csv": None}


@click.command("import")
@click.argument("kind", type=click.Choice(tuple(FORMATS)))
@click.argument("history", type=click.Path(exists=True, dir_okay=False))
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@ON_FAULT
@naming_options
def import_history(
    kind: str,
    history: str,
    target: Path,
    *,
    on_fault: str,
    naming: Naming,
) -> None:
    """Write the HISTORY of a cluster to TARGET (.csv, .csv.gz or .parquet).

    \b
    sacct: sacct -a -X -P -S 2026-01-01 \\
             -o JobID,User,Account,Partition,Submit,Start,End,Elapsed,State,ReqTRES,AllocTRES \\
             > HISTORY
    kueue: kubectl get workloads -A -o json > HISTORY.json
    csv:   any table, with --column OURS=THEIRS where its columns are named otherwise

    Dates, units (90 min, 1-02:03:04) and the separators , ; | are understood.
    """
    from weft.cli.trace.convert import leave
    from weft.trace.readers import read

    if kind == "kueue" and not history.endswith((".json", ".json.gz")):
        raise SpecError(
            f"'{history}' is no .json, in which Kueue's workloads come",
            hint="kubectl get workloads -A -o json > workloads.json",
        )
    jobs = read(
        history,
        format=FORMATS[kind] if not naming.columns else None,
        on_fault="skip" if on_fault == "skip" else "raise",
        **naming.words,
    )
    leave(jobs, target)
