"""How a worker's container begins, and hears that it has to stop: with the agent and without."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.waiting import HANG_SECONDS
from weft.kube.pod_launch import AGENT, LAUNCH, PASS_TERM_ON

SAVING = """python3 -u -c "
import signal, sys, time
def save(*_): print('saving'); time.sleep(0.2); print('saved'); sys.exit(0)
signal.signal(signal.SIGTERM, save); print('up'); time.sleep(60)" """
DEAF = "python3 -u -c \"import time; print('up'); time.sleep(60)\""


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def container() -> Iterator[Start]:
    """Runs a job's command as the first process of a PID namespace, as a container does."""
    inside = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if not shutil.which("unshare") or subprocess.run([*inside, "true"], check=False).returncode:
        pytest.skip("no PID namespaces here")
    running: list[subprocess.Popen[str]] = []

    def start(run: str, programs: Path | None = None) -> subprocess.Popen[str]:
        words = [*inside, "/bin/sh", "-c", LAUNCH, "weft", run]
        path = f"{programs}:{_without_agent()}" if programs else _without_agent()
        running.append(
            subprocess.Popen(
                words,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, "PATH": path},
            )
        )
        return running[-1]

    yield start
    for process in running:
        process.kill()


def _without_agent() -> str:
    """The path of an image that does not have it, whatever this machine has installed."""
    folders = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(each for each in folders if not (Path(each) / AGENT).exists())


def stop(container: subprocess.Popen[str]) -> str:
    """What the kubelet does: the hook, then SIGTERM to the first process; the output comes back."""
    assert container.stdout is not None
    assert container.stdout.readline() == "up\n"
    children = Path(f"/proc/{container.pid}/task/{container.pid}/children")
    first = children.read_text().split()[0]
    hook = ["nsenter", "--target", first, "--pid", "--mount", "/bin/sh", "-c", PASS_TERM_ON]
    subprocess.run(hook, check=False)
    subprocess.run(["kill", f"-{signal.SIGTERM.value}", first], check=False, capture_output=True)
    return container.communicate(timeout=HANG_SECONDS)[0]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (SAVING, "saving\nsaved\n"),
        (f"true\n{SAVING}\necho not reached", "saving\nsaved\n"),
        (f"exec {SAVING}", "saving\nsaved\n"),
        (f"{SAVING} &\nwait\necho not reached", "saving\nsaved\n"),
        (f"{SAVING} 2>&1 | cat", "saving\nsaved\n"),
        (DEAF, "Terminated\n"),
    ],
    ids=["one command", "several", "exec", "background", "piped", "without a handler"],
)
def test_a_worker_can_save_before_it_stops(container: Start, script: str, said: str) -> None:
    assert stop(container(script)) == said


def test_a_worker_that_is_not_stopped_ends_as_its_command_does(container: Start) -> None:
    process = container("echo up\nexit 3")
    assert process.communicate(timeout=HANG_SECONDS)[0] == "up\n"
    assert process.returncode == 3


FAKE_AGENT = """#!/usr/bin/python3 -u
import os, signal, subprocess, sys
def leave(*_): print('told', flush=True); child.kill(); os._exit(143)
signal.signal(signal.SIGTERM, leave)
print(os.getpid(), sys.argv[1:5], flush=True)
child = subprocess.Popen(sys.argv[3:])
sys.exit(child.wait())
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder on the path of an image that has the agent."""
    (tmp_path / AGENT).write_text(FAKE_AGENT)
    (tmp_path / AGENT).chmod(0o755)
    return tmp_path


def test_where_the_image_has_the_agent_it_is_the_first_process(
    container: Start, programs: Path
) -> None:
    process = container('echo "it\'s $WEFT_TEST up"\nexit 4', programs)
    assert (
        process.communicate(timeout=HANG_SECONDS)[0]
        == "1 ['pod', '--', '/bin/sh', '-c']\nit's  up\n"
    )
    assert process.returncode == 4


def test_an_agent_that_has_just_begun_hears_it_too(container: Start, programs: Path) -> None:
    """The first process of a container never hears a signal that came before it listened."""
    slow = FAKE_AGENT.replace(
        "signal.signal(", "print('up', flush=True); time.sleep(0.5)\nsignal.signal("
    )
    (programs / AGENT).write_text(slow.replace("import os,", "import os, time,"))
    process = container("exec sleep 60", programs)
    assert stop(process).endswith("told\n")
    assert process.returncode == 143


def test_the_agent_alone_hears_that_it_has_to_stop(container: Start, programs: Path) -> None:
    process = container("echo up; exec sleep 60", programs)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("1 ")
    assert stop(process) == "told\n"
    assert process.returncode == 143
