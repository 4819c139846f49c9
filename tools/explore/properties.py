"""The property-based tests, each file in turn, with new examples from a seed of Hypothesis."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.hypothesis_profiles import VARIABLE
from tools.explore.kinds import Found

ROOT: Final = Path(__file__).parents[2]
#: The lines of pytest's output that Hypothesis writes of the smallest example.
EXAMPLE: Final = re.compile(r"^E?\s*(Falsifying example:.*?\n\s*E?\s*\))", re.MULTILINE | re.DOTALL)
FAILED: Final = re.compile(r"^FAILED (\S+)", re.MULTILINE)


class PropertyFailed(AssertionError):
    """A property does not hold for some example."""


def files() -> list[Path]:
    """Test files with properties that need no server."""
    return [
        path
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if re.search(r"^\s*@given\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]


def command(seed: int) -> list[str]:
    chosen = files()
    path = chosen[seed % len(chosen)].relative_to(ROOT)
    return ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--hypothesis-seed={seed}", str(path)]


def trial(seed: int) -> None:
    done = subprocess.run(
        [sys.executable, *command(seed), "-m", "not cluster and not realnodes and not slow"],
        cwd=ROOT,
        env={**os.environ, VARIABLE: "explore"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 1:
        names = ", ".join(FAILED.findall(done.stdout))
        examples = "\n".join(EXAMPLE.findall(done.stdout))
        raise PropertyFailed(f"{names}\n{examples or done.stdout[-3000:]}")


def reproducer(found: Found, until: float) -> str:
    words = " ".join(command(found.seed))
    text = str(found.error).replace('"""', "'''")
    return (
        f'r"""Found by `python -m tools.explore --kind properties`. Run again:\n\n'
        f"    {VARIABLE}=explore python {words}\n\n"
        f"Give the test named below an `@example` of this:\n\n{text}\n"
        '"""\n'
    )
