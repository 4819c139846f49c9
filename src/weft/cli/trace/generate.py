"""`weft trace generate`: a workload of any size that is like Philly's."""

from pathlib import Path

import click

from weft.cli.options import DAYS, JOBS, LOAD, SEED, make_source
from weft.cli.terminal.screen import say


@click.command()
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@JOBS
@SEED
@click.option("--cluster", default="8x8", show_default=True, help="No job is wider than this.")
@LOAD
@DAYS
def generate(
    *,
    target: Path,
    jobs: int | None,
    seed: int,
    cluster: str,
    load: float | None,
    days: float | None,
) -> None:
    """Generate a workload and write it to TARGET (.csv, .csv.gz or .parquet)."""
    from weft.trace.clusters import read_cluster
    from weft.trace.store import write

    source = make_source(jobs=jobs, load=load, days=days)
    workload = source.load(seed=seed, gpus=read_cluster(cluster).cluster.gpus)
    write(workload, target)
    say(f"{', '.join(workload.notes)} in {target}")
