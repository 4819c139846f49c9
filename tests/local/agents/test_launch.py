"""An incarnation begins once: however often it is started, and never after it was declared void."""

import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.local.builders import a_machine, a_started, seats
from tests.local.daemons import wait_until
from tests.waiting import HANG_SECONDS
from weft.agent.outcome import Outcome
from weft.api.backend import Origin
from weft.failure.interval import Advice
from weft.local.agents.account import Account
from weft.local.agents.bootstrap import EXISTS_STATUS, FAILED_STATUS
from weft.local.agents.job_processes import end_incarnation, find_agent, of_incarnation
from weft.local.agents.launch import Launcher, command_of
from weft.local.folders import Folders, folder_of, read_file
from weft.local.reconcile.observation import read_last_words
from weft.local.record.entry import Entry, Owner
from weft.model.state import State
from weft.spec.job_file import JobSpec

ME = Owner("me", os.getuid(), os.getgid())


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    with tempfile.TemporaryDirectory(prefix="wl-") as folder:
        folders = Folders(Path(folder))
        folders.open(for_all=False)
        paths = tuple(path for path in sys.path if os.path.isabs(path))
        yield Launcher(folders, a_machine(gpus=False), "test", "tests.local.model_agent", paths)


@pytest.fixture
def entry(launcher: Launcher) -> Iterator[Entry]:
    found = a_started(
        State.STARTING,
        0,
        owner=ME,
        uid=f"u{os.getpid()}",
        spec={"run": "model total=100000 step=1000", "resources": {"gpus": 1}},
        origin=Origin("/", {}),
    )
    launcher.folders.make_job(found.uid, ME)
    yield found
    while end_incarnation(launcher.sign(found)):
        pass


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("python train.py --lr=3e-4 --name a@b:c", ("python", "train.py", "--lr=3e-4")),
        ("exec /opt/bin/python3.12 /srv/train.py\n", ("/opt/bin/python3.12", "/srv/train.py")),
    ],
)
def test_a_python_script_needs_no_shell(run: str, words: tuple[str, ...]) -> None:
    assert command_of(run)[: len(words)] == words


@pytest.mark.parametrize(
    "run",
    [
        "python",
        "python -m train",
        "./train.sh x.py",
        "cd /srv && python train.py",
        "python train.py | tee log",
        "python train.py $HOME",
        "python train.py 'a b'",
        "python train.py *.txt",
        "python train.py ~/data",
        "python train.py > log",
        "LR=3 python train.py",
        "python train.py\npython eval.py",
        "python train.py # twice",
        "torchrun train.py",
        "",
    ],
)
def test_what_a_shell_would_read_is_left_to_it(run: str) -> None:
    assert command_of(run) == ("/bin/sh", "-c", run)


MODEL = {"parameters": 10**9, "layers": 24, "hidden": 2048, "sequence": 2048, "batch": 64}


@pytest.mark.parametrize(
    ("plan", "line", "told"),
    [
        ("", "python train.py", False),
        ("data=2,tensor=2", "python train.py --tp 2 --dp 2", False),
        ("data=4", "python train.py --tp 1 --dp 4", False),
        ("data=4,sharding=optimizer", "python train.py", False),
        ("tensor=2", "python train.py", True),
    ],
)
def test_the_command_is_that_of_the_plan(
    launcher: Launcher, entry: Entry, plan: str, line: str, told: bool
) -> None:
    """One that none of the commands carries is left to the job's own."""
    spec = {
        "run": "python train.py",
        "model": MODEL,
        "plans": {"tensor": "python train.py --tp {tensor} --dp {data}"},
    }
    given = replace(entry, spec=spec, plan=plan, seats=seats(0, 1, 2, 3))
    found = launcher._arguments(given, JobSpec.model_validate(spec), Path("/x"), "/ckpt")
    assert " ".join(found).endswith(f"-- {line}")
    assert any(word.startswith("--plan=") for word in found) == told


@pytest.mark.parametrize(
    ("checkpoint", "told"),
    [
        ({}, "--save-advice=100000000:1800"),
        ({"checkpoint": {"path": "/ckpt"}}, "--save-advice=100000000:1800"),
        ({"checkpoint": {"every": "10m"}}, "--every=600"),
    ],
)
def test_how_often_to_save_is_advised_where_its_owner_does_not_say(
    launcher: Launcher, entry: Entry, checkpoint: dict[str, object], told: str
) -> None:
    spec = JobSpec.model_validate({**entry.spec, **checkpoint})
    order = launcher._order(entry, spec, Account.of(ME), Advice(1e8))
    said = [word for word in order["arguments"] if word.startswith(("--save", "--every"))]
    assert said == [told]


def test_of_two_starts_one_ends_at_once(launcher: Launcher, entry: Entry) -> None:
    births = [launcher.start(entry) for _ in range(3)]
    wait_until(lambda: sum(b.poll() is not None for b in births) == 2, "two to end")
    assert sorted(b.poll() or 0 for b in births) == [0, EXISTS_STATUS, EXISTS_STATUS]
    agent = next(b for b in births if b.poll() is None)
    found = find_agent(launcher.sign(entry))
    assert found is not None
    assert found.pid == agent.pid
    agent.kill()
    agent.wait()


def test_what_is_void_never_begins(launcher: Launcher, entry: Entry) -> None:
    assert launcher.void(entry)
    assert launcher.start(entry).wait(HANG_SECONDS) == EXISTS_STATUS
    assert of_incarnation(launcher.sign(entry)) == ()


def test_what_has_begun_cannot_be_declared_void(launcher: Launcher, entry: Entry) -> None:
    agent = launcher.start(entry)
    token = launcher.folders.epoch(entry) / "started"
    wait_until(token.exists, "it to begin")
    assert not launcher.void(entry)
    agent.kill()
    agent.wait()


def test_what_a_job_needs_and_does_not_find_is_its_last_word(
    launcher: Launcher, entry: Entry
) -> None:
    spec = {"run": "model", "volumes": [{"claim": "pvc", "path": "/no/such/folder"}]}
    assert launcher.start(entry.with_changes(spec=spec)).wait(HANG_SECONDS) == FAILED_STATUS
    with folder_of(launcher.folders.job(entry.uid), "epoch-1") as folder:
        words = read_last_words(read_file(folder, "outcome.json", ME))
    assert (words.outcome, words.retryable) == ("user error", False)
    assert words.why == "/no/such/folder: No such file or directory"


def test_nothing_of_ours_is_handed_on(
    launcher: Launcher, entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET", "of the daemon's")
    reading, writing = os.pipe()
    agent = launcher.start(entry)
    wait_until((launcher.folders.epoch(entry) / "agent.sock").exists, "it to open its door")
    variables = Path(f"/proc/{agent.pid}/environ").read_bytes()
    assert b"A_SECRET" not in variables
    handed = {os.readlink(path) for path in Path(f"/proc/{agent.pid}/fd").iterdir()}
    assert f"pipe:[{os.stat(reading).st_ino}]" not in handed
    assert os.getsid(agent.pid) == agent.pid
    command = Path(f"/proc/{agent.pid}/cmdline").read_bytes()
    assert b"total=100000" not in command  # every user of the machine can read it
    for handle in (reading, writing):
        os.close(handle)
    agent.kill()
    agent.wait()


def test_an_agent_that_fails_leaves_its_words(
    launcher: Launcher, entry: Entry, tmp_path: Path
) -> None:
    (tmp_path / "agent_that_fails.py").write_text("def main():\n    open('/nowhere/slots')\n")
    broken = replace(launcher, agent="agent_that_fails", paths=(str(tmp_path),))
    assert broken.start(entry).wait(HANG_SECONDS) == 1
    with folder_of(launcher.folders.epoch(entry)) as folder:
        words = read_last_words(read_file(folder, "outcome.json", ME))
        log = read_file(folder, "agent.log", ME).decode()
    said = "the agent has failed: [Errno 2] No such file or directory: '/nowhere/slots'"
    assert (words.outcome, words.retryable, words.why) == (Outcome.INFRASTRUCTURE, True, said)
    assert "Traceback" in log
