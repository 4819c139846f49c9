"""What `make test` runs: packages that compute, and of them nothing that starts a process.

Whatever it leaves out is in `make test-all` and in `.ci/run`.
"""

import os
import re
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from tests import outside
from tools.nearest_tests import COMPUTING

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()


def fast_rooms() -> set[str]:
    return {f"tests/{name}" for name in COMPUTING}


def test_the_fast_rooms_are_those_that_ci_runs_as_computing() -> None:
    text = (ROOT / ".ci" / "run").read_text()
    listed = re.findall(r"^(?:core|computing)=\((.*)\)$", text, re.MULTILINE)
    assert len(listed) == 2
    assert {room for one in listed for room in one.split()} <= fast_rooms()
    assert all((ROOT / room).is_dir() for room in fast_rooms())


def test_every_test_is_in_the_whole_set() -> None:
    (whole,) = re.findall(r"^test-all:.*\n\t(.*\n\t.*)$", MAKEFILE, re.MULTILINE)
    assert whole.split("\n\t") == [
        "$(PYTHON) -m pytest -q -n auto --dist loadgroup --ignore=tests/testcluster",
        "$(PYTHON) -m pytest -q tests/testcluster",
    ]


def listen() -> None:
    with socket.socket(socket.AF_UNIX) as door:
        door.bind("\0weft-fast")


def test_a_fast_test_that_goes_outside_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "FAST", True)
    ways = (
        lambda: subprocess.Popen(["true"]),
        os.fork,
        lambda: threading.Thread(target=print).start(),
        listen,
    )
    for way in ways:
        with pytest.raises(pytest.skip.Exception, match="make test-all"):
            way()
