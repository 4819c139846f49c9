"""`weft local down`: the end of the machine's own world, with its jobs safe."""

import time
from pathlib import Path
from typing import Final

import click

from weft.api.backend import Farewell
from weft.api.client import Client
from weft.cli.terminal.screen import say
from weft.cli.terminal.watching import detaching
from weft.cli.worlds.contexts import answers, socket_path

LOOK_SECONDS: Final = 0.1
WORDS: Final = {
    Farewell.DRAIN: "jobs save and stop; they go on after the next weft local up",
    Farewell.KILL: "jobs are ended at once; they go on from what they saved last",
    Farewell.KEEP: "jobs train on; the next weft local up takes them over",
}


@click.command()
@click.option("--now", is_flag=True, help="Do not let jobs save first.")
@click.option("--keep-running", is_flag=True, help="Let jobs train on without the daemon.")
@click.option(
    "--socket", type=click.Path(path_type=Path), help="Where it is heard.  [default: looked for]"
)
def down(*, now: bool, keep_running: bool, socket: Path | None) -> None:
    """Stop the world on this machine, and wait until it is gone.

    Its jobs get their time to save, and go on where they were after the next up. Only root and
    whoever started it may.
    """
    if now and keep_running:
        raise click.UsageError("--now and --keep-running exclude each other")
    path = socket or socket_path()
    farewell = Farewell.KILL if now else Farewell.KEEP if keep_running else Farewell.DRAIN
    Client(path).stop(farewell)
    say(WORDS[farewell])
    with detaching("it goes on stopping; weft local status tells whether it is gone"):
        while answers(path):
            time.sleep(LOOK_SECONDS)
    say("it is down")
