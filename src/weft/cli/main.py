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
from weft.cli.lazy import Entry, LazyGroup, show_help_if_bare
from weft.cli.terminal.screen import tell
from weft.model.errors import SpecError, WeftError, WorldError

JOBS, WORLD, LAB = "Jobs", "World", "Lab"
COMMANDS = {
    "run": Entry("weft.cli.jobs.run:run", "Run a command as a job, without a file.", JOBS),
    "submit": Entry("weft.cli.jobs.submit:submit", "Submit the job that a file describes.", JOBS),
    "ls": Entry("weft.cli.jobs.ls:ls", "List jobs.", JOBS),
    "show": Entry("weft.cli.jobs.show:show", "Show one job in full.", JOBS),
    "why": Entry(
        "weft.cli.jobs.why:why", "Tell why a job waits, or waited in a recorded run.", JOBS
    ),
    "logs": Entry("weft.cli.jobs.logs:logs", "Print what a job's workers print.", JOBS),
    "wait": Entry("weft.cli.jobs.wait:wait", "Wait until a job runs or has ended.", JOBS),
    "cancel": Entry("weft.cli.jobs.cancel:cancel", "Ask for the end of jobs.", JOBS),
    "retry": Entry(
        "weft.cli.jobs.retry:retry", "Try jobs again that failed or were cancelled.", JOBS
    ),
    "checkpoint": Entry(
        "weft.cli.checkpoint.group:checkpoint", "List, show, export and import checkpoints.", JOBS
    ),
    "launch": Entry(
        "weft.cli.launch.command:launch", "Run a script with several workers on this machine.", JOBS
    ),
    "spec": Entry("weft.cli.spec.group:spec", "Begin, check and explain job files.", JOBS),
    "queues": Entry(
        "weft.cli.overview.queues:queues", "Show the queues and what is used of them.", WORLD
    ),
    "nodes": Entry("weft.cli.overview.nodes:nodes", "List the nodes and their GPUs.", WORLD),
    "top": Entry("weft.cli.overview.top:top", "Show how full the world is, and what runs.", WORLD),
    "doctor": Entry("weft.cli.overview.doctor:doctor", "Check that everything is in place.", WORLD),
    "context": Entry(
        "weft.cli.context.group:context", "Choose the world: this machine, a cluster.", WORLD
    ),
    "local": Entry("weft.cli.local.group:local", "Start and stop a world on this machine.", WORLD),
    "operator": Entry(
        "weft.cli.operator.command:operator", "Run a cluster's operator (the chart does).", WORLD
    ),
    "simulate": Entry("weft.cli.lab.simulate:simulate", "Run one workload under one recipe.", LAB),
    "compare": Entry("weft.cli.lab.compare:compare", "Run several recipes side by side.", LAB),
    "recipes": Entry("weft.cli.lab.recipes:recipes", "List the recipes and their parameters.", LAB),
    "trace": Entry("weft.cli.trace.group:trace", "Show, import and generate workloads.", LAB),
    "replay": Entry("weft.cli.lab.replay:replay", "Check that a journal replays bit for bit.", LAB),
}

EPILOG = "Start with: weft compare, weft local up, or on a cluster: weft doctor"


@click.group(
    cls=LazyGroup,
    entries=COMMANDS,
    invoke_without_command=True,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="weft", message="%(prog)s %(version)s")
@click.option("--no-color", is_flag=True, help="Print without colours, as NO_COLOR does.")
@click.option(
    "-v", "--verbose", is_flag=True, help="Say which world is spoken to, into a pipe too."
)
@click.pass_context
def weft(context: click.Context, no_color: bool, verbose: bool) -> None:
    """Weft decides who trains when, where and how wide on shared GPUs.

    Commands for jobs speak to a world: this machine (weft local up) or a cluster (your kubeconfig);
    weft context chooses. Those of the lab need neither, nor a GPU.
    """
    if no_color:
        os.environ["NO_COLOR"] = "1"
    if verbose:
        os.environ["WEFT_VERBOSE"] = "1"
    show_help_if_bare(context)


def main(args: list[str] | None = None) -> None:
    """The console script."""
    try:
        left = weft.main(args, prog_name="weft", standalone_mode=False)
    except WeftError as error:
        sys.exit(tell(str(error), error.hint, status=_status_of(error)))
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


if __name__ == "__main__":
    main()
