"""`docs/first-job.md`, followed literally: what stands there is typed, and must work."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "first-job.md"
LOSS = re.compile(r"\bloss\b.*\d")
PATIENCE_SECONDS = 240

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture
def person() -> Iterator[dict[str, str]]:
    """Somebody who has installed Weft and sits in the checkout; at home names are short."""
    with TemporaryDirectory() as folder:
        variables = _at_home(Path(folder))
        yield variables
        typed("weft local down --now", variables)


def _at_home(home: Path) -> dict[str, str]:
    programs = home / "bin"
    programs.mkdir()
    for name, words in {"weft": "-m weft.cli.main ", "python": ""}.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {words}"$@"\n')
        program.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "WEFT_LOCAL_FOLDER": str(home / "world"),
        "WEFT_LOCAL_SOCKET": str(home / "weft.sock"),
        "WEFT_CONTEXT": "local",
    }


def test_a_policy_is_tried_in_a_simulation(person: dict[str, str]) -> None:
    for command in commands("Simulated"):
        printed = typed(command, person)
        assert "completion time" in printed or "mean JCT" in printed


def test_the_first_loss_comes_in_four_commands(person: dict[str, str]) -> None:
    block = commands("Local")
    assert len(block) <= 4, "installing is one more"
    printed = [typed(command, person) for command in block]
    assert LOSS.search(printed[-1]), printed[-1][-2000:]
    assert "Succeeded" in typed("weft ls", person)


def commands(world: str) -> list[str]:
    """The first block below the heading that begins so, without what installs."""
    section = GUIDE.read_text().split(f"## {world}")[1]
    block = section.split("```")[1].strip().splitlines()
    return [line for line in block if not line.startswith("pip ")]


def typed(command: str, variables: dict[str, str]) -> str:
    """What it printed; it must end well, but for one that finds nothing to end."""
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0 or " down" in command, f"{command}: {done.stderr}"
    return done.stdout + done.stderr
