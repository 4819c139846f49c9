"""What can be said of a training program from outside, without running or importing it."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


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
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
