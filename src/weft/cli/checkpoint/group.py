"""`weft checkpoint`: the state of trainings as files, Weft's own and those of others."""

import click

from weft.cli.entry import Entry
from weft.cli.lazy import LazyGroup, show_help_if_bare

COMMANDS = {
    "ls": Entry("weft.cli.checkpoint.ls:ls", "List the checkpoints of a folder."),
    "show": Entry("weft.cli.checkpoint.show:show", "Show one checkpoint in full."),
    "export": Entry("weft.cli.checkpoint.exporting:export", "Write one as safetensors or DCP."),
    "import": Entry("weft.cli.checkpoint.importing:import_", "Make one of what others have saved."),
}


@click.group(cls=LazyGroup, entries=COMMANDS, invoke_without_command=True)
@click.pass_context
def checkpoint(context: click.Context) -> None:
    """List, show, export and import checkpoints.

    FOLDER is what a job was given for its state: --checkpoints of the agent, checkpoint.path of a
    job file. All of these commands may be used while the job trains.
    """
    show_help_if_bare(context)
