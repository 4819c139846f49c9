"""`docs/notebook.md` as a notebook: a kernel runs its cells in order, and each shows something."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guides.samples import ROOT

GUIDE = ROOT / "docs" / "notebook.md"
EXECUTE = """
import sys, nbclient, nbformat
book = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
nbformat.write(book, sys.argv[1])
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def cells() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)


def executed(sources: list[str], folder: Path) -> list[dict[str, str]]:
    """What each cell shows, by type, after a kernel has run them one after the other."""
    path = folder / "guide.ipynb"
    path.write_text(
        json.dumps(
            {
                "cells": [
                    {
                        "cell_type": "code",
                        "id": f"cell-{number}",
                        "metadata": {},
                        "source": source,
                        "outputs": [],
                        "execution_count": None,
                    }
                    for number, source in enumerate(sources)
                ],
                "metadata": {},
                "nbformat": 4,
                "nbformat_minor": 5,
            }
        )
    )
    done = subprocess.run(
        [sys.executable, "-c", EXECUTE, path],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "IPYTHONDIR": str(folder / "ipython"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(path.read_text())["cells"]
    return [_shown(cell["outputs"]) for cell in found]


def _shown(outputs: list[dict[str, dict[str, list[str] | str]]]) -> dict[str, str]:
    results = [one["data"] for one in outputs if one.get("data")]
    return {kind: "".join(text) for kind, text in results[-1].items()} if results else {}


def test_every_cell_runs_and_shows_something(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "history.csv").write_bytes(
        (ROOT / "examples" / "history.csv").read_bytes()
    )
    shown = executed(cells(), tmp_path)
    assert all("text/html" in one for one in shown)
    frame, run, why, both, apart, job = (one["text/html"] for one in shown)
    assert "jct_seconds" in frame and "<table" in frame
    assert "fifo on 2x4" in run and "<svg" in run
    assert "why " in why
    assert "against fifo" in both and "±" not in frame
    assert "mean_jct_seconds" in apart
    assert "job b" in job


def test_the_first_cell_is_five_lines_from_a_workload_to_a_frame() -> None:
    first = [line for line in cells()[0].splitlines() if line]
    assert len(first) <= 5
    assert first[-1].endswith(".frame()")
