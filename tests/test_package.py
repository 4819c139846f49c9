"""Promises of the package as a whole, whatever room one enters by."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import weft

OWN_DATA = ("rules.toml",)
"""Data files of the package that were written for it."""

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


def test_attribution_is_shipped_and_names_files_that_exist() -> None:
    root = Path(__file__).parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert "ATTRIBUTION.md" in project["license-files"]
    text = (root / "ATTRIBUTION.md").read_text()
    named = re.findall(r"`((?:src|benchmarks|tools)/[^`]+)`", text)
    assert len(named) >= 6
    assert [name for name in named if not (root / name).exists()] == []


def test_every_data_file_of_the_package_is_attributed_or_its_own() -> None:
    root = Path(__file__).parents[1]
    text = (root / "ATTRIBUTION.md").read_text()
    data = {path for path in (root / "src").rglob("*.toml") if path.name not in OWN_DATA}
    assert [str(path) for path in data if str(path.relative_to(root)) not in text] == []
