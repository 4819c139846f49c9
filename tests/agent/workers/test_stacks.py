"""Where a worker stands is written down while it hangs, and nobody who does not listen is hurt."""

import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import until
from weft.agent.workers import stacks

ROOT = Path(__file__).parents[3]
HANGS = """
import sys, threading, time
from weft.agent.workers import stacks
stacks.listen()
stacks.listen()
lock = threading.Lock()
lock.acquire()
def stands_here(): lock.acquire()
threading.Thread(target=stands_here, daemon=True).start()
def hangs_here():
    print("ready", flush=True)
    time.sleep(600)
hangs_here()
"""
DEAF = "import time; print('ready', flush=True); time.sleep(600)"


class Clock:
    """Stands in for the module `time`: each rest ends when `looks` is done, and counts."""

    def __init__(self, looks: Callable[[], object] = lambda: None) -> None:
        self.now, self._looks = 0.0, looks

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self._looks()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is given up, and no dump is looked at before it is whole."""

    def is_whole() -> bool:
        path = tmp_path / "worker-3.stacks"
        text = path.read_text() if path.exists() else ""
        return not text or text.endswith("in <module>\n")

    monkeypatch.setattr(stacks, "WAIT_SECONDS", math.inf)
    monkeypatch.setattr(stacks, "time", Clock(lambda: until(is_whole, "a whole dump")))


@pytest.mark.usefixtures("patient")
def test_every_thread_of_a_hung_worker_is_told_and_it_lives_on(tmp_path: Path) -> None:
    log = tmp_path / "worker-3.log"
    with _worker(HANGS, tmp_path) as process:
        stacks.take(process.pid, tmp_path, 3)
        told = (tmp_path / "worker-3.stacks").read_text()
        assert "hangs_here" in told and "stands_here" in told
        assert not log.exists(), "nothing is made that was not there"
        log.touch()
        stacks.take(process.pid, tmp_path, 3)
        assert len((tmp_path / "worker-3.stacks").read_text()) == 2 * len(told)
        assert log.read_text().startswith(stacks.HEADING.decode()) and told[-9:] in log.read_text()
        assert process.poll() is None


@pytest.mark.usefixtures("patient")
def test_below_a_shell_too(tmp_path: Path) -> None:
    shell = ["/bin/sh", "-c", f'"{sys.executable}" -c "$PROGRAM"; true']
    with _worker(HANGS, tmp_path, shell) as process:
        stacks.take(process.pid, tmp_path, 3)
        assert "hangs_here" in (tmp_path / "worker-3.stacks").read_text()
        assert process.poll() is None


def test_who_does_not_listen_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(stacks, "time", clock)
    with _worker(DEAF, tmp_path) as process:
        stacks.take(process.pid, tmp_path, 3)
        assert clock.now == 0.0, "nothing is waited for"
        assert process.poll() is None and not (tmp_path / "worker-3.stacks").exists()


def test_one_that_stands_still_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(stacks, "time", clock)
    with _worker(HANGS, tmp_path) as process:
        process.send_signal(signal.SIGSTOP)
        stacks.take(process.pid, tmp_path, 3)
        assert clock.now == pytest.approx(stacks.WAIT_SECONDS, abs=2 * stacks.LOOK_SECONDS)
    stacks.take(process.pid, tmp_path, 3)  # it is gone by now


def test_nccl_is_asked_for_its_record_by_its_pipe(tmp_path: Path) -> None:
    name = f"{stacks.collectives_file(3)}0.pipe"
    os.mkfifo(tmp_path / name)
    reading = os.open(tmp_path / name, os.O_RDONLY | os.O_NONBLOCK)
    os.mkfifo(tmp_path / f"{stacks.collectives_file(3)}1.pipe")  # nobody reads this one
    stacks.take(os.getpid(), tmp_path, 3)
    assert os.read(reading, 9) == b"1"
    os.close(reading)
    told = stacks.variables(tmp_path, 3)
    assert told["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] + "0.pipe" == str(tmp_path / name)


def test_what_the_owner_has_set_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_NCCL_DUMP_ON_TIMEOUT", "0")
    assert "TORCH_NCCL_DUMP_ON_TIMEOUT" not in stacks.variables(tmp_path, 3)


@contextmanager
def _worker(
    program: str, logs: Path, command: list[str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    given = {stacks.VARIABLE: str(logs / stacks.stacks_file(3)), "PROGRAM": program}
    with subprocess.Popen(
        command or [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **given},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
