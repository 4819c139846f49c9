"""`weft trace`: workloads as files."""

import click

from weft.cli.lazy import Entry, LazyGroup

COMMANDS = {
    "show": Entry("weft.cli.trace_show:show", "Tell what a workload holds, and what is wrong."),
    "convert": Entry("weft.cli.trace_convert:convert", "Write a workload as Weft's own table."),
    "generate": Entry("weft.cli.trace_generate:generate", "Make a workload like Philly's."),
}


@click.group(cls=LazyGroup, entries=COMMANDS)
def trace() -> None:
    """Show, convert and generate workloads."""
