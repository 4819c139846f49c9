"""`weft launch`: a script with several workers on this machine, in torchrun's place.

Neither a daemon nor a cluster is needed: the command is the job's agent itself. torchrun's own
spellings are taken where they mean the same here, and refused with the right one where not.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from weft.cli.numbers import Finite
from weft.model.errors import SpecError

F = TypeVar("F", bound=Callable[..., Any])

ONE_MACHINE = "leave it out: workers of one machine find each other by themselves"
OUTPUT = "--show all|first chooses whose output is shown, --prefix marks it; a file keeps all of it"
NEEDLESS = "leave it out"
REFUSED = {  # options of torchrun, with what to write instead
    **dict.fromkeys(
        ("--rdzv-backend", "--rdzv-endpoint", "--rdzv-id", "--rdzv-conf", "--node-rank"),
        ONE_MACHINE,
    ),
    **dict.fromkeys(("--master-addr", "--master-port", "--local-addr"), ONE_MACHINE),
    **dict.fromkeys(("--log-dir", "--redirects", "-r", "--tee", "-t"), OUTPUT),
    **dict.fromkeys(("--local-ranks-filter", "--log-line-prefix-template"), OUTPUT),
    "--shutdown-timeout": "--grace SECONDS is the time to stop in",
    "--numa-binding": NEEDLESS,
    "--signals-to-handle": NEEDLESS,
    "--monitor-interval": NEEDLESS,
    "--start-method": NEEDLESS,
    "--event-log-handler": NEEDLESS,
    "--logs-specs": NEEDLESS,
    "--role": NEEDLESS,
}


def as_torchrun(command: F) -> F:
    """Take or refuse what torchrun would have been told."""
    for name, hint in REFUSED.items():
        command = click.option(
            *_spellings(name), hidden=True, expose_value=False, callback=_refusing(hint)
        )(command)
    for name in ("--standalone", "--no-python", "--run-path", "--virtual-local-rank"):
        command = click.option(*_spellings(name), hidden=True, is_flag=True, expose_value=False)(
            command
        )
    for name, allowed in (("--nnodes", ("1", "1:1")), ("--max-restarts", ("0",))):
        command = click.option(
            *_spellings(name), hidden=True, expose_value=False, callback=_only(allowed)
        )(command)
    return command


def _spellings(name: str) -> tuple[str, ...]:
    """torchrun has each of its options with dashes and with underscores."""
    spelled = "--" + name[2:].replace("-", "_") if name.startswith("--") else name
    return (name,) if spelled == name else (name, spelled)


def _refusing(hint: str) -> Callable[..., None]:
    def check(context: click.Context, option: click.Parameter, value: str | None) -> None:
        if value is not None:
            raise SpecError(f"{option.opts[0]} is an option of torchrun", hint=hint)

    return check


def _only(allowed: tuple[str, ...]) -> Callable[..., None]:
    def check(context: click.Context, option: click.Parameter, value: str | None) -> None:
        if value is None or value in allowed:
            return
        several = "machines: weft submit runs jobs over several"
        tries = "a script is not started again after an error of its own; a lost worker is replaced"
        hint = several if option.opts[0] == "--nnodes" else tries
        raise SpecError(f"{option.opts[0]} {value} cannot be had here", hint=hint)

    return check


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    *("-n", "--workers", "--nproc-per-node", "--nproc_per_node"),
    metavar="N|auto|gpu|cpu",
    default="1",
    show_default=True,
    help="Processes; auto is one for each GPU, or for each CPU where there is none.",
)
@click.option("-m", "--module", is_flag=True, help="SCRIPT is a module, as for python -m.")
@click.option(
    "--checkpoints",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep states here, and go on from the newest.",
)
@click.option(
    "--every",
    metavar="SECONDS",
    type=Finite(0),
    default=300.0,
    show_default=True,
    help="Between two of them; 0: only when it is stopped.",
)
@click.option(
    "--shard",
    metavar="N",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Workers that hold one model together.",
)
@click.option(
    "--devices",
    metavar="LIST|none",
    help="GPUs that a Weft script's workers share out: 0,3 or 0-3.  [default: all]",
)
@click.option(
    "--threads",
    metavar="N",
    type=click.IntRange(1),
    help="Of torch, in each worker.  [default: OMP_NUM_THREADS; else 1, if there are several]",
)
@click.option(
    "--grace",
    metavar="SECONDS",
    type=Finite(0),
    default=30.0,
    show_default=True,
    help="To stop in, after Ctrl-C or SIGTERM.",
)
@click.option("--name", help="Of the job.  [default: the script's]")
@click.option(
    "--show",
    type=click.Choice(["all", "first"]),
    help="Whose output.  [default: first of a Weft script, all of others]",
)
@click.option("--prefix", is_flag=True, help="Begin each line with its worker's rank.")
@click.option("-q", "--quiet", is_flag=True, help="Show the workers' output and nothing else.")
@as_torchrun
@click.argument("script", nargs=-1, required=True, metavar="SCRIPT [ARGUMENTS]...")
def launch(script: tuple[str, ...], **given: Any) -> None:
    """Run SCRIPT with several workers on this machine, as torchrun does.

    A script that knows nothing of Weft finds torchrun's variables. One that imports weft can also
    be resized while it trains, and goes on when a worker is lost. Ctrl-C stops it at the end of a
    step, with a checkpoint; a second one does not wait. The exit status is the script's.
    """
    from weft.cli.launch.run import Wanted, run

    sys.exit(run(script, Wanted(**given)))
