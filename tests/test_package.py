"""Promises of the package as a whole, whatever room one enters by."""

import subprocess
import sys
from pathlib import Path

import weft

LOADED_BY_WEFT = """
import sys
before = set(sys.modules)
import weft
print(sorted(set(sys.modules) - before))
"""


def test_importing_the_package_loads_nothing_else() -> None:
    run = subprocess.run(
        [sys.executable, "-c", LOADED_BY_WEFT],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(Path(weft.__file__).parents[1])},
    )
    assert run.stdout.strip() == "['weft']"
