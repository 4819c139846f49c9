"""`weft-agent`, or `python -m weft.agent`: a job on this machine, or one pod of a job.

`run` starts an agent with some workers of a script; orders come by typing them, or from another
terminal, so that the whole protocol can be tried without any scheduler. `pod` is the first process
of a worker's container, which finds what it has to know in its environment.

    weft-agent run -n 2 --folder /tmp/try examples/lm.py
    weft-agent tell /tmp/try resize 3
    weft-agent pod -- python train.py
"""

import asyncio
import contextlib
import json
import logging
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

import click

from weft.agent.agent import Agent, Told, exit_code_of
from weft.agent.checkpoint.home import Place, place_of
from weft.agent.coordination.actions import Conclude
from weft.agent.coordination.limits import Limits
from weft.agent.leases.company import ALONE, Company, parse_company
from weft.agent.messages import Answer, Drain, Kill, Message, Resize, Save, Status
from weft.agent.plan import parse_plan
from weft.agent.pods.pod import run_pod
from weft.agent.settings import PER_NODE, Settings
from weft.agent.wire.orders import ask
from weft.agent.workers.cpus import Cpus, parse_numbers, usable
from weft.agent.workers.processes import program_of
from weft.failure.interval import Advice
from weft.model.errors import SpecError, WeftError

MAKE: Final[dict[tuple[str, int], Callable[..., Message]]] = {
    ("resize", 1): Resize,
    ("save", 0): Save,
    ("drain", 0): lambda: Drain(30.0),
    ("drain", 1): lambda seconds: Drain(float(seconds)),
    ("kill", 1): lambda worker: Kill(worker, signal.SIGKILL),
    ("kill", 2): Kill,
    ("status", 0): Status,
}
TOO_MUCH_FOR_A_LOG: Final = ("stages", "committed", "building", "armed", "regrouping", "leaving")
ORDERS = (
    "resize N | plan PLAN [N] [stop] | accompany FOLDER:GPUS | alone | save | drain [SECONDS] | "
    "kill WORKER [SIGNAL] | status"
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """The supervisor of a training job on one machine."""


@main.command(context_settings={"ignore_unknown_options": True})
@click.option("-n", "--workers", default=1, show_default=True, help="Training processes.")
@click.option(
    "--nproc-per-node",
    type=click.Choice([PER_NODE, "gpu"]),
    default="gpu",
    show_default=True,
    help="A process for each of the workers' GPUs, or 1 that has all of them.",
)
@click.option("--job", default="job", show_default=True, help="Its name.")
@click.option("--incarnation", default=1, show_default=True, help="How often it was started.")
@click.option("--shard", default=1, show_default=True, help="Workers that hold one model together.")
@click.option("--plan", default="", help="How they do: tensor=2,shard=2.")
@click.option("--folder", type=click.Path(path_type=Path), help="Socket, key and logs.")
@click.option("--checkpoints", help="Where states are kept: a folder, or s3://BUCKET/PREFIX.")
@click.option("--every", "every_seconds", default=0.0, help="Seconds between two checkpoints.")
@click.option("--save-advice", default="", help="Instead: FAILURES_EVERY:LONGEST, in seconds.")
@click.option("--grace", "grace_seconds", default=30.0, show_default=True, help="To drain in.")
@click.option("--hang", "hang_seconds", default=60.0, show_default=True, help="A step's most.")
@click.option("--try", "try_seconds", default=60.0, show_default=True, help="A new plan's most.")
@click.option("--warm", "warm_seconds", default=120.0, show_default=True, help="A newcomer's most.")
@click.option("--threads", default=1, show_default=True, help="Of torch, in each worker.")
@click.option("--devices", default="", help="GPUs to share out, one to each worker: 0,3 or 0-3.")
@click.option("--cpus", default="", help="Processors to share out in equal parts: 0-7.")
@click.option("--company", default="", help="Jobs on the same GPUs: FOLDER:0,1.")
@click.option("--json", "as_json", is_flag=True, help="Tell events as JSON lines.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(command: tuple[str, ...], *, as_json: bool, hang_seconds: float, **given: Any) -> None:
    """Run COMMAND (a script, or a program with arguments) and take orders from standard input."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    settings = Settings(
        command=program_of(command, {}),
        width=given["workers"],
        per_gpu=given["nproc_per_node"] != PER_NODE,
        job=given["job"],
        incarnation=given["incarnation"],
        shard=given["shard"],
        split=parse_plan(given["plan"]) if given["plan"] else None,
        folder=given["folder"],
        checkpoints=_place(given["checkpoints"]),
        save_every_seconds=given["every_seconds"],
        save_advice=Advice.parse(given["save_advice"]) if given["save_advice"] else None,
        grace_seconds=given["grace_seconds"],
        threads=given["threads"],
        devices=_numbers(given["devices"]),
        cpus=_numbers(given["cpus"], usable),
        company=_company(given["company"], _numbers(given["devices"])),
        limits=Limits(
            hang_seconds=hang_seconds,
            try_seconds=given["try_seconds"],
            warm_seconds=given["warm_seconds"],
        ),
    )
    agent = Agent(settings, _teller(as_json=as_json))
    if not as_json:
        click.echo(f"folder {agent.folder}\norders: {ORDERS}", err=True)
    try:
        conclusion = asyncio.run(_driven(agent))
    except WeftError as error:
        raise click.ClickException(f"{error}\nhint: {error.hint}") from error
    agent.tell("over", {"outcome": conclusion.outcome.value, "why": conclusion.why})
    sys.exit(exit_code_of(conclusion))


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def pod(command: tuple[str, ...]) -> None:
    """Run COMMAND on this pod's seat of a job; the pod's environment says which that is."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    as_json = bool(os.environ.get("WEFT_AGENT_JSON"))
    tell = _teller(as_json=as_json, to_stderr=True, but=() if as_json else TOO_MUCH_FOR_A_LOG)
    sys.exit(run_pod(program_of(command, os.environ), os.environ, tell))


@main.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.argument("order", nargs=-1, required=True)
def tell(folder: Path, order: tuple[str, ...]) -> None:
    """Give an order to the agent of FOLDER: resize N, accompany FOLDER:GPUS, save, drain, …"""
    try:
        answer = asyncio.run(ask(folder, parse_order(" ".join(order))))
    except WeftError as error:
        raise click.ClickException(f"{error}\nhint: {error.hint}") from error
    click.echo(json.dumps(answer.body, indent=2))
    sys.exit(0 if answer.ok else 1)


def _place(text: str | None) -> Place | None:
    try:
        return place_of(text) if text else None
    except SpecError as error:
        raise click.BadParameter(f"{error}; {error.hint}") from error


def _company(text: str, devices: tuple[int, ...]) -> Company | None:
    try:
        return parse_company(text, devices)
    except SpecError as error:
        raise click.BadParameter(f"{error}; {error.hint}") from error


def _numbers(text: str, check: Callable[[Cpus], Cpus] = tuple) -> tuple[int, ...]:
    try:
        return check(parse_numbers(text))
    except SpecError as error:
        raise click.BadParameter(f"{error}; {error.hint}") from error


def parse_order(text: str) -> Message:
    """What was typed, as a message."""
    word, *rest = text.split() or [""]
    if word in ("accompany", "alone") and len(rest) == (word == "accompany"):
        company = parse_company(" ".join(rest))
        return company.order if company else ALONE
    if word == "plan" and rest:
        return _plan_order(*rest)
    numbers = tuple(int(number) for number in rest if number.isdigit())
    made = MAKE.get((word, len(rest)))
    if made is None or len(numbers) < len(rest):
        raise SpecError(f"{text!r} is no order", hint=ORDERS)
    return made(*numbers)


def _plan_order(plan: str, *rest: str) -> Message:
    """`plan tensor=2`, with another width if that is said, and stopping first if that is."""
    words, stop = [word for word in rest if word != "stop"], "stop" in rest
    if len(words) > 1 or not all(map(str.isdigit, words)):
        raise SpecError(f"{' '.join(rest)!r} says nothing of a plan", hint=ORDERS)
    parse_plan(plan)
    return Resize(int(words[0]) if words else 0, plan=plan, beside=not stop)


async def _driven(agent: Agent) -> Conclude:
    typing = asyncio.create_task(_typed(agent))
    try:
        return await agent.run()
    finally:
        typing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await typing


async def _typed(agent: Agent) -> None:
    """Orders from standard input, until it ends; a container's leads nowhere."""
    if not _can_be_waited_for(sys.stdin):
        return
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        _obey(agent, line.decode(errors="replace").strip())


def _can_be_waited_for(stream: IO[str]) -> bool:
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stream.isatty() or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _obey(agent: Agent, text: str) -> None:
    if not text:
        return
    try:
        answer = agent.driver_asked(parse_order(text))
    except SpecError as error:
        answer = Answer(ok=False, body={"why": str(error), "hint": error.hint})
    agent.tell("answer", answer.body)


def _teller(*, as_json: bool, to_stderr: bool = False, but: Sequence[str] = ()) -> Told:
    """Events as lines, for as long as anybody reads them; but not all of them."""
    began = time.monotonic()

    def tell_json(what: str, facts: Mapping[str, Any]) -> None:
        line = {"event": what, "seconds": round(time.monotonic() - began, 6), **facts}
        _echo(json.dumps(line), to_stderr=to_stderr)

    def tell_text(what: str, facts: Mapping[str, Any]) -> None:
        if what in but:
            return
        shown = "  ".join(f"{key}={value}" for key, value in facts.items())
        line = f"{time.monotonic() - began:8.2f}  {what:<12}{shown}"
        _echo(line, to_stderr=to_stderr)

    return tell_json if as_json else tell_text


def _echo(line: str, *, to_stderr: bool) -> None:
    """A job goes on when the one who listened to its agent has gone."""
    try:
        click.echo(line, err=to_stderr)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stderr.fileno() if to_stderr else sys.stdout.fileno())


if __name__ == "__main__":
    main()
