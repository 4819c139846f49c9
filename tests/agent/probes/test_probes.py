"""Probes find what is broken, end in time, and leave nothing behind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import HANG_SECONDS, until
from weft.agent.probes import loopback, pair, suite
from weft.agent.probes.cpu import Cpu
from weft.agent.probes.dcgm import Dcgm
from weft.agent.probes.disk import Disk
from weft.agent.probes.loopback import Loopback
from weft.agent.probes.memory import Memory
from weft.agent.probes.pair import Pair
from weft.agent.probes.probe import Probe, Result
from weft.agent.probes.prober import Prober
from weft.agent.probes.suite import probes_of, ran, run_apart
from weft.agent.probes.watch import watch

pytestmark = pytest.mark.enable_socket
ROOT = Path(__file__).parents[3]


def test_a_machine_that_is_well_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow it is at this moment."""
    monkeypatch.setattr(loopback, "LIMIT_SECONDS", HANG_SECONDS)
    small: list[Probe] = [
        Disk(tmp_path, 2, least_mb_per_second=0.0),
        Memory(4, least_gb_per_second=0.0),
        Cpu(least_share=0.0),
        Loopback(4, least_gb_per_second=0.0),
    ]
    found = [ran(probe) for probe in small]
    assert all(one.passed and one.value > one.least for one in found), found
    assert [one.probe for one in found] == list(suite.QUICK)
    assert list(tmp_path.iterdir()) == []


def test_what_is_too_slow_fails_and_says_how_slow(tmp_path: Path) -> None:
    found = ran(Disk(tmp_path, 1, least_mb_per_second=1e9))
    assert not found.passed and "are expected at least" in found.words


def test_a_disk_that_takes_nothing_is_a_finding() -> None:
    found = ran(Disk(Path("/proc")))
    assert not found.passed and "Error" in found.text


def test_one_that_hangs_is_ended_and_the_others_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is passed on to the process; here it is over as soon as the disk hangs."""
    hangs, limits = tmp_path / "hangs", []
    program = (
        "import time\nfrom pathlib import Path\nfrom weft.agent.probes import suite\n"
        "class Hangs:\n    name = 'disk'\n    def run(self):\n"
        f"        Path({str(hangs)!r}).touch()\n        time.sleep(600)\n"
        "suite.Disk = lambda folder: Hangs()\n"
        "from weft.agent.probes.__main__ import main\nmain()\n"
    )
    (tmp_path / "hanging.py").write_text(program)

    class Process(subprocess.Popen[str]):
        def communicate(
            self, given: str | None = None, timeout: float | None = None
        ) -> tuple[str, str]:
            if timeout is not None:
                limits.append(timeout)
                until(hangs.exists, "the probe of the disk to begin")
                timeout = 0.0
            return super().communicate(given, timeout)

    monkeypatch.setattr(suite, "MODULE", "hanging")
    monkeypatch.setattr(subprocess, "Popen", Process)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = run_apart(("memory", "disk", "cpu"), tmp_path, 3.0)
    assert limits == [3.0]
    assert [(one.probe, one.passed) for one in found] == [
        ("memory", True),
        ("disk", False),
        ("cpu", False),
    ]
    assert "did not end within" in found[1].words


def test_as_a_program_it_says_so_by_its_status(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "weft.agent.probes", "--folder", "/proc", "disk", "cpu"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(words, capture_output=True, text=True, env=env, check=False)
    told = [Result(**json.loads(line)) for line in done.stdout.splitlines()]
    assert done.returncode == 1 and [one.passed for one in told] == [False, True]


def test_nvidias_own_diagnostics_are_asked_where_there_are_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not Dcgm.is_here() and probes_of(["dcgm"], tmp_path) == []
    program = tmp_path / "dcgmi"
    program.write_text("#!/bin/sh\necho '|  PCIe   |  Fail - GPU 3 |'\n")
    program.chmod(0o755)
    (probe,) = probes_of(["dcgm"], tmp_path)
    found = ran(probe)
    assert not found.passed and "Fail - GPU 3" in found.words
    program.write_text("#!/bin/sh\necho '|  PCIe   |  Pass |'\n")
    assert ran(probe).passed


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_two_ranks_sum_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair, "LIMIT_SECONDS", 2 * HANG_SECONDS)
    found = ran(Pair(least_gb_per_second=0.0))
    assert found.passed and found.value > found.least, found


def test_a_file_says_that_all_is_well_until_a_probe_fails(tmp_path: Path) -> None:
    well, words = tmp_path / "well", tmp_path / "words"
    good, bad = Result(probe="disk", passed=True), Result(probe="disk", passed=False, text="dead")
    answers = iter([[good], [good], [good, bad, bad]])
    seen: list[bool] = []
    rests = [0.0]
    well.touch()  # as one that was killed leaves it

    def probing() -> list[Result]:
        seen.append(well.exists())
        return next(answers)

    prober = Prober(probing, clock=lambda: sum(rests))
    status = watch(prober, well, 7.0, last_words=words, rest=rests.append)
    assert (status, seen) == (1, [False, True, True])
    assert not well.exists()
    assert words.read_text() == "disk: dead; disk: dead"


def test_probes_go_on_in_a_process_of_their_own(tmp_path: Path) -> None:
    well = tmp_path / "well"
    command = [sys.executable, "-m", "weft.agent.probes", "--every=60", f"--well={well}", "memory"]
    process = subprocess.Popen([*command, f"--folder={tmp_path}"])
    try:
        until(lambda: well.exists() or process.poll() is not None, "the file or its end")
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
