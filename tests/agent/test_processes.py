"""Real processes: their places, their children, their ends."""

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from weft.agent.processes import (
    Launch,
    Place,
    Processes,
    adopt_orphans,
    children,
    end_orphans,
    environment,
    program_of,
)

pytestmark = pytest.mark.timeout(60)


def launch(folder: Path, *command: str) -> Launch:
    return Launch(
        command=command,
        job="lab/vit",
        incarnation=2,
        socket=folder / "s",
        key_file=folder / "key",
        slots=folder,
        logs=folder,
    )


def ends(folder: Path, *command: str, order: int | None = None) -> int:
    """Start it, send it a signal once it has written a line, and see how it ends."""

    async def act() -> int:
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        processes = Processes(launch(folder, *command), lambda _, code: ended.set_result(code))
        processes.start(0, Place(0, 1))
        if order is not None:
            while not (folder / "worker-0.log").read_text():
                await asyncio.sleep(0.01)
            processes.signal(0, order)
        code = await asyncio.wait_for(ended, 30)
        assert processes.running == ()
        processes.signal(0, signal.SIGKILL)
        return code

    return asyncio.run(act())


@pytest.mark.parametrize("code", [0, 3, 75, 143])
def test_exit_codes_come_through(tmp_path: Path, code: int) -> None:
    assert ends(tmp_path, "/bin/sh", "-c", f"exit {code}") == code


def test_a_signal_reaches_the_children_too(tmp_path: Path) -> None:
    script = "sleep 1000 & echo $! ; wait"
    assert ends(tmp_path, "/bin/sh", "-c", script, order=signal.SIGTERM) == -signal.SIGTERM
    child = int((tmp_path / "worker-0.log").read_text())
    assert _goes(child)


def test_what_a_worker_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    assert ends(tmp_path, "/bin/sh", "-c", "sleep 1000 & echo $!") == 0
    child = int((tmp_path / "worker-0.log").read_text())
    assert _goes(child)


def test_orphans_that_fled_their_session_are_adopted_and_ended() -> None:
    code = f"""
import os, subprocess, sys, time
sys.path[:0] = {sys.path!r}
from weft.agent.processes import adopt_orphans, children, end_orphans
adopt_orphans()
subprocess.run(["/bin/sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & exit 0"])
deadline = time.monotonic() + 10
while not children() and time.monotonic() < deadline:
    time.sleep(0.01)
print(end_orphans(), children())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.split() == ["1", "()"]


def test_a_script_finds_its_place_as_torchrun_and_kubeflow_tell_it(tmp_path: Path) -> None:
    found = environment(launch(tmp_path, "x"), 7, Place(1, 4))
    assert (found["RANK"], found["WORLD_SIZE"], found["LOCAL_RANK"]) == ("1", "4", "1")
    assert (found["PET_NPROC_PER_NODE"], found["PET_NODE_RANK"]) == ("4", "0")
    assert (found["WEFT_WORKER"], found["WEFT_INCARNATION"]) == ("7", "2")
    assert found["TORCHELASTIC_RUN_ID"] == "lab/vit"


def test_a_bare_script_is_given_to_this_interpreter() -> None:
    assert program_of(("train.py", "--x"), {}) == (sys.executable, "train.py", "--x")
    assert program_of(("bash", "-c", "true"), {}) == ("bash", "-c", "true")


def test_adopting_twice_is_adopting_once() -> None:
    code = f"""
import sys
sys.path[:0] = {sys.path!r}
from weft.agent.processes import adopt_orphans, children, end_orphans
adopt_orphans(); adopt_orphans()
assert end_orphans() == 0 and children() == ()
"""
    subprocess.run([sys.executable, "-c", code], timeout=30, check=True)
    assert callable(adopt_orphans) and callable(children) and callable(end_orphans)


def _goes(pid: int) -> bool:
    """Whether it is gone, or a zombie, a moment after it was killed."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False
