"""`weft spec`: job files, before they go anywhere."""

import click

from weft.cli.entry import Entry
from weft.cli.lazy import LazyGroup, show_help_if_bare

COMMANDS = {
    "init": Entry("weft.cli.spec.init:init", "Begin a job file, with comments."),
    "check": Entry("weft.cli.spec.check:check", "Tell whether job files can be used."),
    "explain": Entry("weft.cli.spec.explain:explain", "Tell what a field means."),
    "schema": Entry("weft.cli.spec.schema:schema", "Print the JSON Schema for editors."),
    "import-slurm": Entry("weft.cli.spec.slurm:import_slurm", "Translate a Slurm batch script."),
}


@click.group(cls=LazyGroup, entries=COMMANDS, invoke_without_command=True)
@click.pass_context
def spec(context: click.Context) -> None:
    """Begin, check and explain job files; none of it needs a cluster."""
    show_help_if_bare(context)
