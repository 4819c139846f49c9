"""`weft shell`: a job that is a shell, waited for, attached to, and ended with it."""

import asyncio
import os
import shlex
import socket
import sys
import tempfile
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.cli.jobs.following import tell_states
from weft.cli.jobs.run_names import names_for
from weft.cli.jobs.wait import seconds
from weft.cli.terminal.age import lasting
from weft.cli.terminal.screen import harmless, say
from weft.cli.worlds.place import Place, place_options
from weft.cli.worlds.world import World
from weft.model.errors import SpecError, WorldError

if TYPE_CHECKING:
    from weft.api.backend import JobKey

LOOK_SECONDS = 0.1
END_SECONDS = 10.0
SESSION = "weft.cli.shell.session"


@click.command()
@click.option("--gpus", default="1", show_default=True, help="A number, or a range: 1..8.")
@click.option(
    "--idle",
    "idle_seconds",
    metavar="DURATION",
    default="30m",
    show_default=True,
    callback=seconds,
    help="End it after so long without a key, an output or a process that works.",
)
@click.option("--name", help="Of the job.  [default: shell]")
@click.option(
    "--set",
    "fields",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Any other field of a job file, such as resources.cpus_per_gpu=4; may be repeated.",
)
@place_options
def shell(
    *, gpus: str, idle_seconds: float, name: str | None, fields: tuple[str, ...], place: Place
) -> None:
    """Open a shell on GPUs of this machine's world, for as long as you work in it.

    It is a job as any other: it waits for its turn, its processes see its GPUs and no others, and
    weft ls shows it. It ends with the shell, when its terminal is closed, and when it is idle; a
    minute before that it says so. On a cluster there is no such thing yet.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise SpecError("a shell needs a terminal", hint="weft run -- COMMAND needs none")
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        path = Path(folder) / "session"
        spec = _spec(gpus, fields, path, idle_seconds)
        key, connected = place.run(lambda world: _opened(world, spec, name, path))
        say(f"{key.name}: exit leaves it; it ends after {lasting(idle_seconds)} without work")
        from weft.cli.shell.attach import attach

        try:
            status = attach(connected)
        finally:
            state = place.run(lambda world: _ended(world, key), quiet=True)
    if status is None:
        say(_why_it_broke_off(key.name, state))
    raise click.exceptions.Exit(1 if status is None else status)


def _spec(gpus: str, fields: tuple[str, ...], path: Path, idle_seconds: float) -> dict[str, object]:
    from weft.cli.jobs.job_source import set_field
    from weft.spec.job_file import JobFile
    from weft.spec.reading import validated

    words = (sys.executable, "-m", SESSION, str(path), str(idle_seconds))
    written: dict[str, object] = {
        "run": shlex.join(words),
        "resources": {"gpus": gpus},
        "nproc_per_node": 1,
        "retry": {"limit": 0},
        "grace": "10s",
        "env": {"TERM": os.environ.get("TERM", "xterm")},
    }
    for field in fields:
        set_field(written, field)
    return validated(JobFile, written).spec


async def _opened(
    world: World, spec: dict[str, object], name: str | None, path: Path
) -> "tuple[JobKey, socket.socket]":
    """The job, once its shell can be spoken to; whoever stops waiting takes it back."""
    from weft.api.backend import JobKey, Selection

    if world.whose != "user":
        raise SpecError(
            "weft shell opens a session on this machine, and this is a cluster",
            hint="weft run --detach -- sleep 2h holds GPUs there, and kubectl exec -it enters them",
        )
    if name is None:
        there = await world.jobs(Selection(world.namespace))
        name = names_for("shell", [{}], {line.name for line in there.jobs})[0]
    made = await world.submit(spec, name, dry_run=False)
    key = JobKey(made.line.namespace, made.line.name)
    try:
        return key, await _connected(world, key, path)
    except BaseException:
        await world.cancel(key, dry_run=False)
        raise


async def _connected(world: World, key: "JobKey", path: Path) -> socket.socket:
    telling = asyncio.ensure_future(tell_states(world, key))
    try:
        while True:
            connected = socket.socket(socket.AF_UNIX)
            try:
                connected.connect(str(path))
                return connected
            except OSError:
                connected.close()
            if telling.done():
                line = (await world.detail(key)).line
                raise WorldError(
                    f"{key.name} {line.state} before it began: {harmless(line.message or '')}",
                    hint=f"weft logs {key.name} may tell more",
                )
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _ended(world: World, key: "JobKey") -> str | None:
    """Its job ends by itself; one that does not is told to. The state in which it ended."""
    with suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS), aclosing(world.changes(key)) as changes:
            async for detail in changes:
                if detail is None or detail.line.finished:
                    return None if detail is None else detail.line.state
    await world.cancel(key, dry_run=False)
    return None


def _why_it_broke_off(name: str, state: str | None) -> str:
    """The job's own last words may not have come through; its state has."""
    if state == "Cancelled":
        return "the job is stopped, and the session with it"
    if state is not None:
        return f"the session is over: {name} {state}"
    return f"the connection to {name} broke off"
