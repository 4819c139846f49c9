"""`weft`: the group of all commands, and how errors leave.

What went wrong goes to standard error as `error: …` with a `hint: …`; the exit status is 2 where
somebody wrote something that cannot be used, 1 where Weft found something wrong by itself.
"""

import os
import sys

import click

from weft import __version__
from weft.cli.lazy import Entry, LazyGroup, show_help_if_bare
from weft.model.errors import SpecError, WeftError

COMMANDS = {
    "simulate": Entry("weft.cli.simulate:simulate", "Run one workload under one recipe."),
    "compare": Entry("weft.cli.compare:compare", "Run several recipes side by side over seeds."),
    "recipes": Entry("weft.cli.recipes:recipes", "List the recipes and their parameters."),
    "trace": Entry("weft.cli.trace:trace", "Show, convert and generate workloads."),
    "why": Entry("weft.cli.why:why", "Tell why a job of a recorded run waited."),
    "replay": Entry("weft.cli.replay:replay", "Check that a journal replays bit for bit."),
}

EPILOG = "Start with: weft compare"
INTERRUPTED = 130


@click.group(
    cls=LazyGroup,
    entries=COMMANDS,
    invoke_without_command=True,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="weft", message="%(prog)s %(version)s")
@click.option("--no-color", is_flag=True, help="Print without colours, as NO_COLOR does.")
@click.pass_context
def weft(context: click.Context, no_color: bool) -> None:
    """Weft decides who trains when, where and how wide on a shared GPU cluster.

    These commands run it on a simulated cluster: no GPU is needed.
    """
    if no_color:
        os.environ["NO_COLOR"] = "1"
    show_help_if_bare(context)


def main(args: list[str] | None = None) -> None:
    """The console script."""
    try:
        weft.main(args, prog_name="weft", standalone_mode=False)
    except WeftError as error:
        sys.exit(tell(str(error), error.hint, status=2 if isinstance(error, SpecError) else 1))
    except click.ClickException as error:
        sys.exit(tell(error.format_message(), _help_of(error), status=error.exit_code))
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(tell("interrupted", status=INTERRUPTED))


def tell(message: str, hint: str = "", *, status: int) -> int:
    """The error and its hint on standard error, and the exit status back."""
    click.echo(f"error: {message}", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)
    return status


def _help_of(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"see {context.command_path} --help" if context is not None else ""


if __name__ == "__main__":
    main()
