"""Somebody sets the clock of a machine on which jobs run: nobody notices."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.local.daemons import Lab, a_lab, wait_until

DAY = 86_400.0
QUICK = "model total=5 step=0.02"
LONG = "model total=100000 step=0.02 save=1"


class WallClock:
    """Of a daemon, which somebody sets; what is no daemon has the right time."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set(0.0)

    def set(self, seconds: float) -> None:
        self._file.write_text(str(seconds))

    def sabotage(self) -> None:
        """Done in the daemon's own process."""
        right: Callable[[], float] = time.time
        time.time = lambda: right() + float(self._file.read_text())


@pytest.fixture
def clock(tmp_path: Path) -> WallClock:
    return WallClock(tmp_path / "clock")


def runs(lab: Lab, name: str) -> None:
    lab.submit(name, QUICK)
    lab.wait_for(name, "Succeeded")


@pytest.mark.parametrize("seconds", [-DAY, -3_600.0, 3_600.0, DAY])
def test_a_clock_that_is_set_while_a_daemon_serves(clock: WallClock, seconds: float) -> None:
    with a_lab(slots=2) as lab:
        lab.start(sabotage=clock.sabotage)
        lab.submit("long", LONG)
        wait_until(lambda: bool(lab.entry("long").progress.step), "it to train", lab.log)
        clock.set(seconds)
        runs(lab, "during")
        clock.set(0.0)
        runs(lab, "after")
        assert lab.state("long") == "Running" and lab.entry("long").epoch == 1
        lab.let_finish("long")
        lab.wait_for("long", "Succeeded")
        assert "a term ended" not in lab.log.read_text()


@pytest.mark.parametrize("seconds", [-DAY, DAY])
def test_a_clock_that_is_set_while_nobody_serves(clock: WallClock, seconds: float) -> None:
    """What is on record is of tomorrow then, or of yesterday."""
    with a_lab(slots=2) as lab:
        lab.start(sabotage=clock.sabotage)
        lab.submit("long", LONG)
        wait_until(lambda: bool(lab.entry("long").progress.step), "it to train", lab.log)
        lab.submit("waits", QUICK, gpus=2)
        wait_until(lambda: lab.state("waits") == "Queued", "it to wait", lab.log)
        lab.kill()
        clock.set(seconds)
        lab.start(sabotage=clock.sabotage)
        runs(lab, "new")
        assert lab.state("long") == "Running" and lab.entry("long").epoch == 1
        lab.let_finish("long")
        lab.wait_for("long", "Succeeded")
        lab.wait_for("waits", "Succeeded")
        assert "a term ended" not in lab.log.read_text()
