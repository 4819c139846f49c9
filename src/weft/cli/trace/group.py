"""`weft trace`: workloads as files."""

import click

from weft.cli.entry import Entry
from weft.cli.lazy import LazyGroup, show_help_if_bare

COMMANDS = {
    "show": Entry("weft.cli.trace.show:show", "Tell what a workload holds, and what is wrong."),
    "import": Entry("weft.cli.trace.importing:import_history", "Bring your cluster's own history."),
    "convert": Entry("weft.cli.trace.convert:convert", "Write a workload as Weft's own table."),
    "generate": Entry("weft.cli.trace.generate:generate", "Make a workload like Philly's."),
}


@click.group(cls=LazyGroup, entries=COMMANDS, invoke_without_command=True)
@click.pass_context
def trace(context: click.Context) -> None:
    """Show, import, convert and generate workloads."""
    show_help_if_bare(context)
