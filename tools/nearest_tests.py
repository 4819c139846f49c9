"""`python -m tools.nearest_tests`: run the computing tests nearest to an edit, nearest first.

What changed is asked of git: against the last commit, or, in a clean checkout, what that commit
changed. Test files are ordered by how many imports they are away, those of the same package first,
and run until the time is over; the number of files that were not reached is printed.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tools.import_graph import ROOT, distances, files_by_module, importers

COMPUTING = (
    *("model", "brain", "policy", "perf", "failure", "sim"),
    *("lab", "trace", "spec", "view", "cli"),
)
"""Packages whose tests compute; those that start a process or open a socket are skipped."""

FIRST_BATCH, GROWTH = 6, 2
"""Files of the first call of pytest, and how many times more the next one takes."""

NO_TESTS = 5
"""What pytest returns where everything in a file is deselected."""


def main(arguments: Sequence[str]) -> int:
    asked = _parser().parse_args(arguments)
    files = files_by_module()
    changed = changed_modules(changed_paths(asked.base), files)
    ordered = nearest_tests(changed, files)
    if not ordered:
        _say(f"no computing test imports what changed: {', '.join(changed) or 'nothing'}")
        _say("make test-all runs every test")
        return 0
    _say(f"{len(changed)} changed modules, {len(ordered)} test files within reach")
    reached, status = run_until(time.monotonic() + asked.seconds, ordered)
    _say(f"{reached} test files run, {len(ordered) - reached} left to make test-all")
    return status


def run_until(end: float, ordered: Sequence[Path]) -> tuple[int, int]:
    """Files that were run by then, and the exit status: of the first failure, or 0."""
    reached = 0
    for batch in batches(ordered):
        left = end - time.monotonic()
        status = run(batch, left) if left > 0 else None
        if status is None:
            break
        reached += len(batch)
        if status:
            return reached, status
    return reached, 0


def changed_paths(base: str | None) -> list[Path]:
    """Files that differ from the base; in a clean checkout those of the last commit."""
    listed = _git("diff", "--name-only", base or "HEAD").split()
    listed += _git("ls-files", "--others", "--exclude-standard").split()
    if not listed and base is None:
        listed = _git("diff", "--name-only", "HEAD~1", "HEAD").split()
    return [ROOT / name for name in listed if name.endswith(".py")]


def changed_modules(paths: Iterable[Path], files: dict[str, Path]) -> list[str]:
    by_path = {path: module for module, path in files.items()}
    return sorted(by_path[path] for path in paths if path in by_path)


def nearest_tests(changed: Sequence[str], files: dict[str, Path]) -> list[Path]:
    """Test files of computing packages that import what changed, the nearest first."""
    away = distances(changed, importers(files))
    mirrors = {_mirror(module) for module in changed}
    found = []
    for module, distance in away.items():
        parts = module.split(".")
        if parts[0] == "tests" and parts[-1].startswith("test_") and parts[1] in COMPUTING:
            other = not any(module.startswith(mirror) for mirror in mirrors)
            found.append((distance, other, module))
    return [files[module] for _, _, module in sorted(found)]


def batches(ordered: Sequence[Path]) -> Iterator[list[Path]]:
    """Small ones first, so that the nearest tests answer soon."""
    begin, size = 0, FIRST_BATCH
    while begin < len(ordered):
        yield list(ordered[begin : begin + size])
        begin, size = begin + size, size * GROWTH


def run(batch: Sequence[Path], seconds: float) -> int | None:
    """The exit status of pytest; None if the time was over before it ended."""
    together = ("-n", str(os.cpu_count() or 1), "--dist", "loadfile")
    command = [
        *(sys.executable, "-m", "pytest", "-q", "--no-header", "-m", "not slow and not traces"),
        *("-W", "ignore::pytest.PytestUnraisableExceptionWarning"),
        *(together if len(batch) > FIRST_BATCH else ()),
        *(str(path.relative_to(ROOT)) for path in batch),
    ]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "WEFT_FAST": "1"},
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    return 0 if done.returncode == NO_TESTS else done.returncode


def _mirror(module: str) -> str:
    """Where the tests of a module's package are: `weft.policy.order.x` has `tests.policy.`."""
    parts = module.split(".")
    return f"tests.{parts[1]}." if parts[0] == "weft" and len(parts) > 1 else f"{module}."


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.nearest_tests", description=__doc__)
    parser.add_argument("--base", help="compare with this commit instead of the last one")
    parser.add_argument("--seconds", type=float, default=55.0, help="stop after so long")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
