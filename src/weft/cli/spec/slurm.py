"""`weft spec import-slurm`: a batch script as a job file."""

import click

from weft.cli.jobs.job_source import read_text


@click.command()
@click.argument("script")
def import_slurm(script: str) -> None:
    """Print the job file that asks for what the #SBATCH lines of SCRIPT ask for.

    What has no counterpart stays in it as a comment. Nothing is submitted; - is standard input.
    """
    from weft.spec.slurm import from_slurm

    text, _ = read_text(script)
    click.echo(from_slurm(text.decode(errors="replace")), nl=False)
