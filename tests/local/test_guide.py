"""`docs/local.md`, followed literally: the first block is typed, and must work."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.local.users import ROOT

GUIDE = ROOT / "docs" / "local.md"
MOST_COMMANDS = 5
PATIENCE_SECONDS = 90


@pytest.fixture
def home() -> Iterator[Path]:
    with TemporaryDirectory(prefix="wl-") as folder:
        program = Path(folder) / "weft"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m weft.cli.main "$@"\n')
        program.chmod(0o755)
        yield Path(folder)
        typed(f"{program} local down --now", Path(folder), must=False)


@pytest.mark.slow
def test_the_first_job_comes_in_five_commands(home: Path) -> None:
    block = GUIDE.read_text().split("## Your first job")[1].split("```")[1].strip().splitlines()
    assert len(block) <= MOST_COMMANDS
    printed = [typed(line, home) for line in block if not line.startswith("pip ")]
    assert sorted(re.findall(r"hello from rank (\d)", printed[-1])) == ["0", "1"]


@pytest.mark.slow
def test_a_command_runs_without_a_file(home: Path) -> None:
    block = GUIDE.read_text().split("## A command without a file")[1].split("```")[1].strip()
    typed("weft local up --slots 2", home)
    one, sweep = (typed(line, home) for line in block.splitlines())
    assert one == "trained\n"
    assert re.findall(r"(1e-\d) +(echo-lr-1e-\d) +Succeeded", sweep) == [
        ("1e-3", "echo-lr-1e-3"),
        ("1e-4", "echo-lr-1e-4"),
    ]


def typed(command: str, home: Path, *, must: bool = True) -> str:
    variables = {
        **os.environ,
        "PATH": f"{home}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "WEFT_LOCAL_FOLDER": str(home / "world"),
        "WEFT_LOCAL_SOCKET": str(home / "weft.sock"),
        "WEFT_CONTEXT": "local",
    }
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=home,
        env=variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0 or not must, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
