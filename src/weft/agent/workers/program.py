"""What can be said of a training program from outside, without running or importing it."""

import hashlib
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Final

SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh"})
LAUNCHERS: Final = frozenset(
    {"torchrun", "accelerate", "deepspeed", "colossalai", "horovodrun", "mpirun", "mpiexec"}
)
WEFT, LAUNCH = "weft", "launch"
LAUNCHER_MODULES: Final = frozenset(
    {
        "torch.distributed.run",
        "torch.distributed.launch",
        "accelerate.commands.launch",
        "accelerate.commands.accelerate_cli",
        "deepspeed.launcher.runner",
    }
)
PREFIXES: Final = frozenset({"exec", "env", "time", "nohup", "command", "stdbuf", "nice", "then"})
BETWEEN_COMMANDS: Final = re.compile(r"&&|\|\||[;&|\n(){}]")
ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
PYTHON: Final = re.compile(r"python[0-9.]*|pypy[0-9.]*")


def digest_of_scripts(command: Sequence[str]) -> str:
    """SHA-256 over the Python files that the command names; nothing if it names none."""
    running = hashlib.sha256()
    found = False
    for word in command:
        if not word.endswith(".py"):
            continue
        with suppress(OSError):
            running.update(Path(word).read_bytes())
            found = True
    return running.hexdigest() if found else ""


def version_of(package: str) -> str:
    """The version that is installed; nothing if none is."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def starts_its_own(command: Sequence[str]) -> bool:
    """Whether it is a launcher, which starts a process for each GPU by itself."""
    return bool(launcher_in(command))


def launcher_in(command: Sequence[str]) -> str:
    """The name of the first launcher that it starts; empty if it starts none."""
    return next(filter(None, map(_launcher, _simple_commands(command))), "")


def _simple_commands(command: Sequence[str]) -> Iterator[list[str]]:
    """The command, or those in the text that a shell is given."""
    words = _bare(list(command))
    if not words or PurePath(words[0]).name not in SHELLS:
        yield words
        return
    text = next(
        (
            following
            for flag, following in pairwise(words)
            if flag.startswith("-") and not flag.startswith("--") and "c" in flag
        ),
        "",
    )
    for part in BETWEEN_COMMANDS.split(text.replace("\\\n", " ")):
        with suppress(ValueError):
            yield from _simple_commands(shlex.split(part, comments=True)) if part.strip() else ()


def _bare(words: list[str]) -> list[str]:
    """Without what may stand in front of a command."""
    while words and (words[0] in PREFIXES or ASSIGNMENT.fullmatch(words[0])):
        words = words[1:]
    return words


def _launcher(words: Sequence[str]) -> str:
    if not words:
        return ""
    name = PurePath(words[0]).name
    if name in LAUNCHERS:
        return name
    if name == WEFT and words[1:2] == [LAUNCH]:
        return f"{WEFT} {LAUNCH}"
    if not PYTHON.fullmatch(name):
        return ""
    modules = (module for flag, module in pairwise(words) if flag == "-m")
    module = next(modules, "")
    return module if module in LAUNCHER_MODULES else ""
