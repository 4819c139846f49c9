"""`weft`: the group of all commands, and how errors leave.

What went wrong goes to standard error as `error: …` with a `hint: …`; the exit status is 2 where
somebody wrote something that cannot be used, 5 where a cluster could not be reached or refused, 1
where Weft found something wrong by itself (the list: `exit_status`).
"""

import os
import sys

import click

from weft import __version__
from weft.cli.exit_status import Exit
from weft.cli.front import ABOUT, COMMANDS, EPILOG, MOST_COLUMNS, NO_COLOR, VERBOSE
from weft.cli.lazy import LazyGroup, show_help_if_bare
from weft.cli.terminal.screen import tell
from weft.model.errors import SpecError, WeftError, WorldError


@click.group(
    cls=LazyGroup,
    entries=COMMANDS,
    invoke_without_command=True,
    help="\n\n".join(ABOUT),
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": MOST_COLUMNS},
)
@click.version_option(__version__, prog_name="weft", message="%(prog)s %(version)s")
@click.option("--no-color", is_flag=True, help=NO_COLOR)
@click.option("-v", "--verbose", is_flag=True, help=VERBOSE)
@click.pass_context
def weft(context: click.Context, no_color: bool, verbose: bool) -> None:
    if no_color:
        os.environ["NO_COLOR"] = "1"
    if verbose:
        os.environ["WEFT_VERBOSE"] = "1"
    show_help_if_bare(context)


def run(args: list[str]) -> None:
    """Do what the words say; an error becomes a message and a status."""
    try:
        left = weft.main(args, prog_name="weft", standalone_mode=False)
    except WeftError as error:
        for one in getattr(error, "faults", None) or (error,):  # all that is wrong with a file
            tell(str(one), one.hint, status=0)
        sys.exit(_status_of(error))
    except click.ClickException as error:
        sys.exit(tell(error.format_message(), _help_of(error), status=error.exit_code))
    except (click.Abort, KeyboardInterrupt):
        sys.exit(tell("interrupted", status=Exit.INTERRUPTED))
    if left:  # a command that chose its own status
        sys.exit(left)


def _status_of(error: WeftError) -> Exit:
    if isinstance(error, SpecError):
        return Exit.USAGE
    return Exit.WORLD if isinstance(error, WorldError) else Exit.FAILED


def _help_of(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"see {context.command_path} --help" if context is not None else ""
