"""`docs/recipes.md`, followed literally: template, comparison, mistake, message, right, tests."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guides.samples import ROOT, Sample
from weft.model.snapshot import JobColumns, Snapshot
from weft.policy.recipe import Recipe
from weft.spec.recipe_contract import KINDS, PARTS

GUIDE = ROOT / "docs" / "recipes.md"
METHOD = re.compile(r"    def __call__.*?\n\n", re.DOTALL)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def typed(words: list[str], folder: Path, *, status: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == status, f"{words}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def console(text: str) -> list[Sample]:
    """Commands behind a dollar sign, and what is said to come of each."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for part in block.split("$ ")[1:]:
            command, *printed = part.splitlines()
            found.append(Sample(GUIDE.name, command, tuple(printed)))
    return found


def shows(sample: Sample, folder: Path) -> None:
    printed = typed(["weft.cli.main", *shlex.split(sample.command)[1:]], folder)
    for line in sample.printed:
        assert " ".join(line.split()) in " ".join(printed.split()), f"{sample}\n{printed}"


def test_the_guide_from_the_first_command_to_the_tests(tmp_path: Path) -> None:
    text = GUIDE.read_text()
    new, first, again, explained, by_parameter = console(text)
    wrong, right = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    (message,) = re.findall(r"^```text\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    mine = tmp_path / "narrow.py"
    shows(new, tmp_path)
    shows(first, tmp_path)
    mine.write_text(METHOD.sub(f"{wrong}\n", mine.read_text()))
    said = typed(["weft.cli.main", *shlex.split(again.command)[1:]], tmp_path, status=2)
    assert said == message
    last = wrong.splitlines()[-1] + "\n"
    mine.write_text(mine.read_text().replace(last, right))
    for sample in (again, explained, by_parameter):
        shows(sample, tmp_path)
    assert "3 passed" in typed(["pytest", "-q", "test_narrow.py"], tmp_path)


def test_what_the_guide_says_of_the_parts_is_so() -> None:
    text = GUIDE.read_text()
    for name in re.findall(r"`jobs\.(\w+)`", text):
        assert name in JobColumns.__annotations__, name
    for name in re.findall(r"`snapshot\.(\w+)", text):
        assert hasattr(Snapshot, name) or name in Snapshot.__annotations__, name
    assert {*PARTS, *KINDS, "name"} == set(Recipe.__annotations__)
    for name in (*PARTS, *KINDS):
        assert f"`{name}`" in text, name
