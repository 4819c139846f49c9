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
from weft.cli.screen import tell
from weft.model.errors import SpecError, WeftError, WorldError

JOBS, CLUSTER, LAB = "Jobs", "Cluster", "Lab"
COMMANDS = {
    "submit": Entry("weft.cli.submit:submit", "Submit the job that a file describes.", JOBS),
    "ls": Entry("weft.cli.ls:ls", "List jobs.", JOBS),
    "show": Entry("weft.cli.show:show", "Show one job in full.", JOBS),
    "why": Entry("weft.cli.why:why", "Tell why a job waits, or waited in a recorded run.", JOBS),
    "logs": Entry("weft.cli.logs:logs", "Print what a job's workers print.", JOBS),
    "wait": Entry("weft.cli.wait:wait", "Wait until a job runs or has ended.", JOBS),
    "cancel": Entry("weft.cli.cancel:cancel", "Ask for the end of jobs.", JOBS),
    "spec": Entry("weft.cli.spec:spec", "Begin, check and explain job files.", JOBS),
    "queues": Entry("weft.cli.queues:queues", "Show the queues and what is used of them.", CLUSTER),
    "nodes": Entry("weft.cli.nodes:nodes", "List the nodes and their GPUs.", CLUSTER),
    "top": Entry("weft.cli.top:top", "Show how full the cluster is, and what runs.", CLUSTER),
    "doctor": Entry("weft.cli.doctor:doctor", "Check that everything is in place.", CLUSTER),
    "operator": Entry("weft.cli.operator:operator", "Run the operator (the chart does).", CLUSTER),
    "simulate": Entry("weft.cli.simulate:simulate", "Run one workload under one recipe.", LAB),
    "compare": Entry("weft.cli.compare:compare", "Run several recipes side by side.", LAB),
    "recipes": Entry("weft.cli.recipes:recipes", "List the recipes and their parameters.", LAB),
    "trace": Entry("weft.cli.trace:trace", "Show, convert and generate workloads.", LAB),
    "replay": Entry("weft.cli.replay:replay", "Check that a journal replays bit for bit.", LAB),
}

EPILOG = "Start with: weft compare, or on a cluster: weft doctor"


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

    Commands for jobs and the cluster use your kubeconfig; those of the lab need neither a cluster
    nor a GPU.
    """
    if no_color:
        os.environ["NO_COLOR"] = "1"
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
    return Exit.CLUSTER if isinstance(error, WorldError) else Exit.FAILED


def _help_of(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"see {context.command_path} --help" if context is not None else ""


if __name__ == "__main__":
    main()
