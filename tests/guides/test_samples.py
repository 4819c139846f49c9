"""Every command sample can be typed; what needs no world runs, and prints what is shown."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

from benchmarks.__main__ import SUITES
from tests.guides.samples import ROOT, Sample, documents, in_blocks, in_prose
from weft.agent.__main__ import main as agent
from weft.cli.root import weft

ALONE = re.compile(r"weft (compare|simulate|replay|recipes|trace|spec|why .*--run|\S+ --help)\b")
FOLLOWED_ELSEWHERE = {"first-job.md", "local.md", "recipes.md"}
PATIENCE_SECONDS = 300
ELIDED = re.compile(r"…|\.\.\. |\||\[")


def is_one_command(sample: Sample) -> bool:
    """Prose may show several in one line, or leave something out."""
    return not ELIDED.search(re.sub(r"'[^']*'|\"[^\"]*\"", "", sample.command))


def runnable(page: Path) -> list[Sample]:
    return [sample for sample in in_blocks(page) if ALONE.match(sample.command)]


SAMPLES = [one for page in documents() for find in (in_blocks, in_prose) for one in find(page)]
PAGES = [page for page in documents() if page.name not in FOLLOWED_ELSEWHERE and runnable(page)]


def test_every_sample_can_be_typed() -> None:
    found = {str(sample): fault_of(sample) for sample in filter(is_one_command, SAMPLES)}
    assert len(found) > 100
    assert not {sample: fault for sample, fault in found.items() if fault}


def fault_of(sample: Sample) -> str:
    """What is wrong with the command, if anything."""
    try:
        check_typed(sample)
    except (AssertionError, ImportError, click.ClickException) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def check_typed(sample: Sample) -> None:
    """Parse the command as far as click goes, or find the module that it names."""
    program, *words = shlex.split(re.split(r" (?:>|&&|<) ", sample.command)[0])
    if program == "weft":
        parsed_by(weft, words)
    elif program == "weft-agent" or words[:2] == ["-m", "weft.agent"]:
        parsed_by(agent, words if program == "weft-agent" else words[2:])
    else:
        module = words[1]
        assert find_spec(module) is not None, module
        if module == "benchmarks" and len(words) > 2 and words[2].islower():
            assert words[2] in SUITES


def parsed_by(command: click.Command, words: list[str]) -> None:
    """As far as click goes before it calls anything. A bare name shows a group's help."""
    try:
        context = command.make_context(command.name, list(words))
    except click.exceptions.Exit:
        return  # --help
    except click.MissingParameter:
        return  # prose may name a command without what it is given
    except click.BadParameter as error:
        assert isinstance(error.param and error.param.type, click.Path), error  # no such file here
        return
    with context:
        if isinstance(command, click.Group) and (left := [*context._protected_args, *context.args]):
            _, inner, rest = command.resolve_command(context, left)
            assert inner is not None
            parsed_by(inner, rest)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_what_needs_no_world_runs_as_shown(page: Path, tmp_path: Path) -> None:
    at_home(tmp_path)
    for sample in runnable(page):
        printed = typed(sample.command, tmp_path)
        for line in sample.printed:
            assert _words(line) in _words(printed), f"{sample}\n{printed}"


def at_home(folder: Path) -> None:
    """The checkout's examples, and a history of the reader's own."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    for name in ("jobs.csv", "my-jobs.csv"):
        shutil.copy(ROOT / "examples" / "history.csv", folder / name)


def typed(command: str, folder: Path) -> str:
    words = [sys.executable, "-m", "weft.cli.main", *shlex.split(command)[1:]]
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "110"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout + done.stderr


def _words(text: str) -> str:
    return " ".join(text.split())
