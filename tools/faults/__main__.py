"""`python -m tools.faults`: apply each recorded fault in turn and run tests until one notices.

A fault is a patch of one line. It is applied in a worktree of its own, where the tests of the same
package run, those first that are nearest to the changed module in the import graph. What is left
unnoticed is printed, and the exit status is 1. Use it before tests are cut and after.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.import_graph import ROOT, distances, files_by_module, importers

PATCHES = Path(__file__).parent / "patches"
CHANGED = re.compile(r"^\+\+\+ b/(src/weft/(\w+)/.*)$", re.MULTILINE)
NOTICED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
NO_TESTS = 5


@dataclass(frozen=True, slots=True)
class Fault:
    """One patch, the file that it changes and the package of that file."""

    name: str
    path: str
    package: str

    @classmethod
    def read(cls, patch: Path) -> "Fault":
        found = CHANGED.search(patch.read_text())
        if found is None:
            raise SystemExit(f"{patch} changes no file of src/weft: write it as `git diff` does")
        return cls(patch.stem, found[1], found[2])


@dataclass(frozen=True, slots=True)
class Result:
    """The test that noticed the fault, or none, and how long that took."""

    fault: str
    path: str
    noticed_by: str
    test_files: int
    seconds: float


def main(arguments: Sequence[str]) -> int:
    asked = _parser().parse_args(arguments)
    faults = [Fault.read(patch) for patch in sorted(PATCHES.glob("*.patch"))]
    chosen = [one for one in faults if not asked.only or one.name[:2] in asked.only]
    if asked.package:
        chosen = [one for one in chosen if one.package in asked.package]
    results = []
    with worktree() as tree:
        for fault in chosen:
            results.append(tried(fault, tree, asked.marks, asked.seconds))
            _say(results[-1], as_json=asked.output == "json")
    return int(any(not one.noticed_by for one in results))


def tried(fault: Fault, tree: Path, marks: str, seconds: float) -> Result:
    """Run the tests of the package with the fault, until one fails."""
    began = time.monotonic()
    patch = str(PATCHES / f"{fault.name}.patch")
    _git(tree, "apply", patch)
    try:
        ordered = tests_of(fault, tree)
        noticed = first_failure(ordered, tree, marks, seconds)
    finally:
        _git(tree, "apply", "--reverse", patch)
    return Result(fault.name, fault.path, noticed, len(ordered), round(time.monotonic() - began, 1))


def tests_of(fault: Fault, tree: Path) -> list[Path]:
    """Test files of the package, the nearest to the changed module first."""
    files = files_by_module(tree)
    module = next(name for name, path in files.items() if path == tree / fault.path)
    away = distances([module], importers(files, tree / "build" / "imports.json"))
    own = [name for name in files if name.startswith(f"tests.{fault.package}.")]
    tests = [name for name in own if name.rpartition(".")[2].startswith("test_")]
    return [files[name] for name in sorted(tests, key=lambda name: (away.get(name, 99), name))]


def first_failure(ordered: Sequence[Path], tree: Path, marks: str, seconds: float) -> str:
    """The first test that fails; empty if none does, or if the time is over."""
    if not ordered:
        return ""
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "--tb=no", "-rfE"),
        *("-p", "no:cacheprovider", "-m", marks, *(str(path) for path in ordered)),
    ]
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}:{tree}"}
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ""
    if done.returncode in (0, NO_TESTS):
        return ""
    found = NOTICED.search(done.stdout)
    return found[1] if found else f"pytest ended with {done.returncode}"


@contextmanager
def worktree() -> Iterator[Path]:
    """The present commit, checked out beside this one."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        _git(ROOT, "worktree", "add", "--quiet", "--detach", str(tree))
        try:
            yield tree
        finally:
            _git(ROOT, "worktree", "remove", "--force", str(tree))


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True)


def _say(result: Result, *, as_json: bool) -> None:
    if as_json:
        text = json.dumps(asdict(result))
    else:
        noticed = result.noticed_by or f"UNNOTICED by {result.test_files} test files"
        text = f"{result.fault:32} {result.seconds:7.1f} s  {noticed}"
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.faults", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NN", help="these faults, by number")
    parser.add_argument("--package", nargs="+", help="faults of these packages")
    parser.add_argument(
        "--marks", default="not slow and not cluster and not realnodes", help="tests to run"
    )
    parser.add_argument("--seconds", type=float, default=900.0, help="the most for one fault")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
