"""`weft local up`: the daemon, in the background or here."""

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from weft.api.client import Client
from weft.api.errors import NoAnswer
from weft.cli.completion.candidates import recipes as recipe_names
from weft.cli.exit_status import Exit
from weft.cli.local.status import standing_of, tell
from weft.cli.numbers import Finite
from weft.cli.options import output_option
from weft.cli.terminal.screen import say
from weft.cli.worlds.contexts import answers, own_folder, own_socket, read_settings
from weft.model.errors import SpecError, WeftError, WorldError

if TYPE_CHECKING:
    from weft.view.health import Finding

EXTRA: Final = ("fastapi", "uvicorn", "sqlalchemy")
START_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 0.05
SHOWN_LINES: Final = 12
LOG: Final = "daemon.log"
PATHS: Final = frozenset({"folder", "journal", "notify", "failure_rules"})


@click.command()
@click.option(
    "--slots",
    type=click.IntRange(1),
    help="GPUs to share, or parts of the CPUs where there are none.  [default: all that are found]",
)
@click.option(
    "--recipe",
    shell_complete=recipe_names,
    help="How it decides; see weft recipes.  [default: weave]",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="What it has to remember.  [default: /var/lib/weft for root, else ~/.local/share/weft]",
)
@click.option(
    "--socket",
    type=click.Path(path_type=Path),
    help="Where it is heard.  [default: /run/weft/weft.sock for root, else your runtime folder]",
)
@click.option("--group", help="Users who may speak to it.  [default: all for root, else only you]")
@click.option("--foreground", is_flag=True, help="Stay here until Ctrl-C, as a service does.")
@click.option(
    "--keep-days",
    type=Finite(0),
    help="How long logs and checkpoints outlive their job.  [default: 30]",
)
@click.option("--keep-gib", type=Finite(0), help="How much of them at most.  [default: 50]")
@click.option(
    "--log-gib", type=Finite(0.001), help="What one job may print, at most.  [default: 1]"
)
@click.option(
    "--floor-gib",
    type=Finite(0),
    help="Start nothing while less is free on its disk.  [default: 1]",
)
@click.option(
    "--user-slots",
    type=click.IntRange(1),
    help="What one user has at a time, at most.  [default: all]",
)
@click.option(
    "--protect-hours",
    type=Finite(0),
    help="How long a job keeps its slots that may not be interrupted.  [default: 24]",
)
@click.option(
    "--journal",
    type=click.Path(path_type=Path),
    help="Record events and instructions for weft replay.",
)
@click.option(
    "--notify",
    type=click.Path(path_type=Path),
    help="File that says who is told of what; see docs/failures.md.",
)
@click.option(
    "--failure-rules",
    type=click.Path(path_type=Path),
    help="File with rules for failures that go before Weft's own.",
)
@click.option(
    "--gang-probe-hours",
    type=Finite(0),
    help="Probe the machine before a gang starts, once in so many; 0: never.  [default: 1]",
)
@click.option(
    "--trial-minutes",
    type=Finite(0),
    help="Try a new gang that waits on one slot, for so long; 0: do not.  [default: 0]",
)
@click.option(
    "--log-level",
    type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"], case_sensitive=False),
    help="What to log.  [default: INFO]",
)
@output_option()
def up(*, foreground: bool, output: str, socket: Path | None, **given: Any) -> None:
    """Start a world on this machine, and wait until it answers.

    It goes on after you have left, until weft local down. One that is up already is left as it is;
    if it was started with other options than these, that is an error.
    """
    path = (socket or _default_socket()).absolute()
    options = {name: value for name, value in given.items() if value is not None}
    options["folder"] = given["folder"] or own_folder()
    for name in {
        "folder",
        "journal",
        "notify",
        "failure_rules",
    } & options.keys():  # the daemon starts in another folder
        options[name] = options[name].absolute()
    _extra_is_there()
    if foreground:
        _serve(path, options)
        return
    if answers(path):
        asked = [name for name, value in given.items() if value is not None]
        _check_same(path, {name: options[name] for name in asked})
        say(f"it is up already, at {path}")
    else:
        _start(path, options)
    standing = standing_of(Client(path))
    tell(standing, output)
    if output != "json":
        _warn(standing.health.findings)
        _say_next(path)


def _check_same(path: Path, asked: dict[str, Any]) -> None:
    """Whoever asks for something of a world that is up as it is would wait for it in vain."""
    words = _words_of(Client(path).server().pid)
    if words is None:
        return
    other = {
        name: words.get(f"--{name.replace('_', '-')}", "as it is by default")
        for name, value in asked.items()
        if words.get(f"--{name.replace('_', '-')}") != str(value)
    }
    if other:
        told = ", ".join(f"{name} {value}" for name, value in other.items())
        raise SpecError(
            f"it is up already, at {path}, with other options: {told}",
            hint="weft local down, then up again: jobs save, and go on",
        )


def _words_of(pid: int) -> dict[str, str] | None:
    """The options that a process was started with; None where nobody can tell."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return None
    found = dict(pairwise(words))
    return found | dict(word.split("=", 1) for word in words if "=" in word)


def _default_socket() -> Path:
    named = os.environ.get("WEFT_LOCAL_SOCKET") or read_settings().socket
    return Path(named) if named else own_socket()


def _extra_is_there() -> None:
    for package in EXTRA:
        if importlib.util.find_spec(package) is None:
            raise WeftError(
                f"this needs a package that is not installed: {package}",
                hint="in Weft's checkout: pip install '.[local]'",
            )


def _serve(path: Path, options: dict[str, Any]) -> None:
    from weft.local.main import serve
    from weft.local.options import LocalOptions

    serve(LocalOptions(socket=path, foreground=True, **options))


def _start(path: Path, options: dict[str, Any]) -> None:
    """In a session of its own, so that neither Ctrl-C nor a closed terminal ends it."""
    log = _log_in(options["folder"])
    words = [sys.executable, "-m", "weft.cli.main", "local", "up", "--foreground"]
    words += list(_words({**options, "socket": path}))
    with log.open("ab") as written:
        begun = written.tell()
        daemon = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            cwd="/",
            env=_environment(),
            start_new_session=True,
        )
    try:
        _wait(daemon, path, log, begun)
    except KeyboardInterrupt:
        say(f"\nit goes on starting; its log is {log}")
        raise
    say(f"its log is {log}")


def _wait(daemon: "subprocess.Popen[bytes]", path: Path, log: Path, begun: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        status = daemon.poll()
        if status is not None:
            raise (SpecError if status == Exit.USAGE else WorldError)(
                f"the daemon ended with status {status}:\n{_end_of(log, begun)}",
                hint=f"the whole log is {log}",
            )
        try:
            Client(path).health()
        except NoAnswer:
            time.sleep(LOOK_SECONDS)
        else:
            daemon.returncode = 0  # it is left alone: nobody waits for it any more
            return
    raise WorldError(
        f"the daemon does not answer within {START_SECONDS:.0f} s:\n{_end_of(log, begun)}",
        hint=f"it may still come; weft local status tells. Its log is {log}",
    )


def _log_in(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / LOG
        log.touch(mode=0o600)
    except OSError as error:
        raise SpecError(
            f"{folder} cannot be used: {error.strerror}", hint="choose another --folder"
        ) from error
    return log


def _words(options: dict[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        yield f"--{name.replace('_', '-')}"
        yield str(value)


def _environment() -> dict[str, str]:
    """Ours; paths that were meant from this folder mean the same from the daemon's."""
    paths = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    absolute = os.pathsep.join(str(Path(path).absolute()) for path in paths)
    return {**os.environ, **({"PYTHONPATH": absolute} if absolute else {})}


def _end_of(log: Path, begun: int) -> str:
    """What this start has written, or the end of it."""
    with log.open("rb") as file:
        file.seek(begun)
        lines = file.read().decode(errors="replace").splitlines()
    return "\n".join(f"  {line}" for line in lines[-SHOWN_LINES:]) or "  (it wrote nothing)"


def _warn(findings: "Iterable[Finding]") -> None:
    """Of what keeps jobs from running, with what to do about it."""
    for finding in findings:
        if finding.verdict == "fail":
            say(f"warning: {finding.check}: {finding.text}")
            say(f"         remedy: {finding.remedy}")


def _say_next(path: Path) -> None:
    nexts = {
        "weft run -- COMMAND": "a job, followed until it ends",
        "weft submit JOB.yaml": "one from a file; weft spec init writes it",
        "weft ls": "what runs and what waits",
        "weft top -w": "how full it is",
        "weft local down": "stop; jobs save, and go on after the next up",
    }
    if path != _default_socket().absolute():
        found = f"export WEFT_LOCAL_SOCKET={path}"
        nexts = {found: "so that other commands find it", **nexts}
    widest = max(map(len, nexts))
    say("next:")
    for command, purpose in nexts.items():
        say(f"  {command.ljust(widest)}   {purpose}")
