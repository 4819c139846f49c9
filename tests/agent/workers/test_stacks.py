"""Where a worker stands is written down while it hangs, and nobody who does not listen is hurt."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

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
    time.sleep(60)
hangs_here()
"""
DEAF = "import time; print('ready', flush=True); time.sleep(60)"


def test_every_thread_of_a_hung_worker_is_told_and_it_lives_on(tmp_path: Path) -> None:
    log = tmp_path / "worker-3.log"
    with _worker(HANGS, tmp_path) as process:
        began = time.monotonic()
        stacks.take(process.pid, tmp_path, 3)
        assert time.monotonic() - began < stacks.WAIT_SECONDS
        told = (tmp_path / "worker-3.stacks").read_text()
        assert "hangs_here" in told and "stands_here" in told
        assert not log.exists(), "nothing is made that was not there"
        log.touch()
        stacks.take(process.pid, tmp_path, 3)
        assert len((tmp_path / "worker-3.stacks").read_text()) == 2 * len(told)
        assert log.read_text().startswith(stacks.HEADING.decode()) and told[-9:] in log.read_text()
        assert process.poll() is None


def test_below_a_shell_too(tmp_path: Path) -> None:
    shell = ["/bin/sh", "-c", f'"{sys.executable}" -c "$PROGRAM"; true']
    with _worker(HANGS, tmp_path, shell) as process:
        stacks.take(process.pid, tmp_path, 3)
        assert "hangs_here" in (tmp_path / "worker-3.stacks").read_text()
        assert process.poll() is None


def test_who_does_not_listen_is_left_alone(tmp_path: Path) -> None:
    with _worker(DEAF, tmp_path) as process:
        began = time.monotonic()
        stacks.take(process.pid, tmp_path, 3)
        assert time.monotonic() - began < stacks.WAIT_SECONDS
        assert process.poll() is None and not (tmp_path / "worker-3.stacks").exists()


def test_one_that_stands_still_is_not_waited_for_long(tmp_path: Path) -> None:
    with _worker(HANGS, tmp_path) as process:
        process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        stacks.take(process.pid, tmp_path, 3)
        assert time.monotonic() - began < 10 * stacks.WAIT_SECONDS
    stacks.take(process.pid, tmp_path, 3)  # it is gone by now


@pytest.mark.timeout(5)
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
