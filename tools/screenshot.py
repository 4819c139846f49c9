"""`python -m tools.screenshot OUT.svg COMMAND...`: what a terminal shows, as a picture.

Each command really runs, in a terminal of its own, one after the other; the picture holds the
commands as typed and what they printed, in colour. A picture in the documentation can so be made
again by anyone, and shows nothing that did not happen. A line `#sleep N` waits so many seconds.
"""

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

COLUMNS = 110
PATIENCE_SECONDS = 600.0


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("commands", nargs=-1, required=True)
@click.option("--title", default="", help="Above the picture.")
@click.option("--columns", default=COLUMNS, show_default=True, help="How wide the terminal is.")
def main(out: Path, commands: tuple[str, ...], title: str, columns: int) -> None:
    """Run COMMANDS and draw what they show into OUT."""
    console = Console(record=True, width=columns, file=sys.stderr, force_terminal=True)
    for command in commands:
        if command.startswith("#sleep "):
            time.sleep(float(command.split()[1]))
            continue
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        console.print(Text.from_ansi(shown_by(command, columns).rstrip().replace("\r\n", "\n")))
    out.parent.mkdir(parents=True, exist_ok=True)
    console.save_svg(str(out), title=title)


def shown_by(command: str, columns: int) -> str:
    """What the command writes to a terminal."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color"}
    process = subprocess.Popen(
        ["/bin/sh", "-c", command], stdin=theirs, stdout=theirs, stderr=theirs, env=env
    )
    os.close(theirs)
    found = bytearray()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and (chunk := _read(ours)):
        found += chunk
    os.close(ours)
    process.wait()
    return found.decode(errors="replace")


def _read(terminal: int) -> bytes:
    """A terminal whose other side has gone cannot be read."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""


if __name__ == "__main__":
    main()
