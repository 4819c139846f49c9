"""`weft local`: a world on this machine."""

import click

from weft.cli.entry import Entry
from weft.cli.lazy import LazyGroup, show_help_if_bare

COMMANDS = {
    "up": Entry("weft.cli.local.up:up", "Start a world on this machine."),
    "down": Entry("weft.cli.local.down:down", "Stop it; its jobs go on when it comes back."),
    "status": Entry("weft.cli.local.status:status", "Tell whether it is up, and how it is."),
}


@click.group(cls=LazyGroup, entries=COMMANDS, invoke_without_command=True)
@click.pass_context
def local(context: click.Context) -> None:
    """Share the GPUs of this machine: no cluster and no container is needed.

    A daemon decides, and every command for jobs speaks to it over a socket. Run as root it serves
    every user, each job as its owner; run by anybody else it serves that user alone.
    """
    show_help_if_bare(context)
