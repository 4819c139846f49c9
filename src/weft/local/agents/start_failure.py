"""Why a process cannot start under an account: the path that the account may not use, the remedy.

Permissions are tested by a shell under that account, so groups and access control lists count as
they do for the process itself.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from weft.local.agents.account import Account
from weft.model.errors import WorldError

SHELL: Final = "/bin/sh"
MAX_LINKS: Final = 40
MAX_WORDS: Final = 400
INSTALL: Final = "ask the administrator to install Weft where all users can read it"
FOLDER: Final = "ask the administrator to choose a --folder that all users can enter"
READ_LOG: Final = "ask the administrator to look at the daemon's log"
# Prints the first of its arguments, such as x:/root, that does not hold for this account.
PROBE: Final = (
    'for step in "$@"; do test "-${step%%:*}" "${step#*:}" || { printf %s "$step"; exit 1; }; done'
)

_PATH = re.compile(r"'(/[^']*)'")
_MODULE = re.compile(r"No module named '(\w+)")


def start_failure(account: Account, said: str, needed: Sequence[Path], folder: Path) -> WorldError:
    """The error for a process that could not start and `said` this.

    `needed` are the files that every agent reads; the folders of all jobs lie in `folder`.
    """
    who = f"cannot start as {account.owner.user}"
    for target in (*_named(said), *needed):
        closed = first_closed(account, target)
        if closed is None:
            continue
        hint = FOLDER if folder in (target, *target.parents) else INSTALL
        final = Path(os.path.realpath(target))
        named = final if closed in (final, *final.parents) else target
        where = "" if closed == named else f" ({closed} is closed to {account.owner.user})"
        return WorldError(f"{who}: no permission for {named}{where}", hint=hint)
    return WorldError(f"{who}: {_last_line(said)}", hint=READ_LOG)


def first_closed(account: Account, target: Path) -> Path | None:
    """The first path on the way to `target` that the account may not use, if there is one."""
    steps = list(_steps(target))
    try:
        found = subprocess.run(
            (SHELL, "-c", PROBE, SHELL, *steps),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            check=False,
            **account.switch,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    closed = os.fsdecode(found).partition(":")[2]
    return Path(closed) if os.path.exists(closed) else None


def needed_by(interpreter: str, bootstrap: Path) -> tuple[Path, ...]:
    """What the interpreter and Weft are made of."""
    return Path(interpreter), Path(os.__file__), bootstrap


def _steps(target: Path) -> Iterator[str]:
    """Each folder to enter, symbolic links followed, and the file or folder to read."""
    for _ in range(MAX_LINKS):
        link = next((p for p in (*reversed(target.parents), target) if os.path.islink(p)), None)
        for parent in reversed((target if link is None else link).parents):
            yield f"x:{parent}"
        if link is None:
            break
        target = link.parent / link.readlink() / target.relative_to(link)
        target = Path(os.path.normpath(target)) if ".." in target.parts else target
    if os.path.isfile(target):
        yield f"r:{target}"
    if os.path.isdir(target) or os.access(target, os.X_OK):
        yield f"x:{target}"


def _named(said: str) -> Iterator[Path]:
    """Paths in an error message, and the place of a module that was not found."""
    yield from (Path(found) for found in _PATH.findall(said))
    for name in _MODULE.findall(said):
        with suppress(ImportError, ValueError):
            found = find_spec(name)
            if found is not None and found.origin is not None:
                yield Path(found.origin)


def _last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1][:MAX_WORDS] if lines else f"{Path(sys.executable).name} ended without a word"
