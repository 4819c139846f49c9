"""Several users on one machine: each job runs as its owner, and nobody else can get at it."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.local.daemons import Lab, a_lab, wait_until
from tests.local.users import ALICE, BOB, AsUser, as_user, needs_root
from tests.waiting import HANG_SECONDS
from weft.agent.run_folder import SHARED_MEMORY
from weft.api.backend import Farewell, Origin, Selection
from weft.local.agents.job_processes import MARK
from weft.local.record.entry import Entry
from weft.model.state import State
from weft.view.logs import Which

LONG = "model total=100000 step=0.02"
SECRET = "what only root may read"


@pytest.fixture
def lab() -> Iterator[Lab]:
    needs_root()
    with a_lab(for_all=True) as lab:
        os.environ["WEFT_TEST_SECRET"] = SECRET
        try:
            lab.start()
        finally:
            del os.environ["WEFT_TEST_SECRET"]
        yield lab


def test_a_job_runs_as_its_owner_in_a_clean_environment(lab: Lab) -> None:
    entry = started(lab, "mine", LONG)
    assert (entry.owner.uid, entry.owner.user) == (ALICE, str(ALICE))
    agent = entry.agent
    assert agent is not None
    status = dict(
        line.split(":\t", 1)
        for line in Path(f"/proc/{agent.pid}/status").read_text().splitlines()
        if ":\t" in line
    )
    assert status["Uid"].split() == [str(ALICE)] * 4
    assert status["Gid"].split() == [str(ALICE)] * 4
    assert status["Groups"].split() in ([], [str(ALICE)])
    environment = Path(f"/proc/{agent.pid}/environ").read_bytes()
    assert SECRET.encode() not in environment
    assert f"USER={ALICE}".encode() in environment.split(b"\0")


def test_nobody_else_can_look_at_a_job_or_end_it(lab: Lab) -> None:
    started(lab, "mine", LONG)
    client, owner = lab.client, str(ALICE)
    forbidden = {
        "cancel": lambda: client.cancel("mine", owner=owner).name,
        "show": lambda: client.job("mine", owner=owner).detail.line.name,
        "why": lambda: client.why("mine", owner=owner).detail.line.name,
        "logs": lambda: read_logs(lab, "mine", owner),
        "changes": lambda: first_change(lab, "mine", owner),
        "down": lambda: client.stop(Farewell.KEEP) or "",  # type: ignore[func-returns-value]
    }
    for question, ask in forbidden.items():
        with pytest.raises(AsUser, match="Forbidden"):
            print(question, as_user(BOB, ask))  # noqa: T201 - what it gave away
    listed = as_user(
        BOB, lambda: [f"{j.namespace}/{j.name}" for j in client.jobs(Selection()).jobs]
    )
    assert listed == [f"{owner}/mine"]
    assert read_logs(lab, "mine", owner)  # root may
    as_user(ALICE, lambda: client.cancel("mine").name)
    wait_until(lambda: lab.entry("mine", owner).state is State.CANCELLED, "it to end")


def test_nobody_else_can_enter_its_folder_or_speak_to_its_agent(lab: Lab) -> None:
    entry = started(lab, "mine", LONG)
    folder = lab.folders().epoch(entry)
    for path in (folder / "key", folder / "logs", folder / "agent.json"):
        with pytest.raises(AsUser, match="PermissionError"):
            as_user(BOB, lambda: str(path.stat()))  # noqa: B023 - asked at once
    with pytest.raises(AsUser, match="PermissionError"):
        as_user(BOB, lambda: os.listdir(lab.folders().jobs))
    with pytest.raises(AsUser, match="PermissionError"):
        as_user(BOB, lambda: str(connect(folder / "agent.sock")))
    with pytest.raises(AsUser, match="PermissionError"):
        as_user(BOB, lambda: str((lab.folder / "weft.db").open("rb")))
    assert (folder / "key").stat().st_mode & 0o777 == 0o400
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_key_that_leads_elsewhere_is_not_sent_anywhere(lab: Lab, tmp_path: Path) -> None:
    """The owner swaps the key for a link to a secret of root's and listens in the agent's place."""
    secret = tmp_path / "shadow"
    secret.write_text(SECRET)
    entry = started(lab, "mine", LONG)
    folder = lab.folders().epoch(entry)
    assert entry.agent is not None
    pid, key, door = entry.agent.pid, folder / "key", folder / "agent.sock"
    heard = received_until_cancelled(
        lab,
        ALICE,
        lambda over: eavesdrop(folder, secret, pid, over),
        lambda: key.is_symlink() and door.exists(),
    )
    assert SECRET not in heard


def test_a_door_that_leads_to_somebody_else_is_not_spoken_at(lab: Lab) -> None:
    """The owner points the agent's socket to another user, who waits for the job's key."""
    entry = started(lab, "mine", LONG)
    folder, agent = lab.folders().epoch(entry), entry.agent
    assert agent is not None
    trap = lab.folder / "trap"
    trap.mkdir()
    os.chown(trap, BOB, BOB)

    def lead_away() -> str:
        os.kill(agent.pid, signal.SIGSTOP)
        (folder / "agent.sock").unlink()
        (folder / "agent.sock").symlink_to(trap / "sock")
        return (folder / "key").read_text()

    key = as_user(ALICE, lead_away)
    heard = received_until_cancelled(
        lab, BOB, lambda over: listen_at(trap / "sock", over), (trap / "sock").exists
    )
    assert key not in heard


def test_links_in_the_place_of_logs_lead_nowhere(lab: Lab, tmp_path: Path) -> None:
    secret = tmp_path / "shadow"
    secret.write_text(SECRET + "\n")
    entry = started(lab, "mine", LONG)
    logs = lab.folders().epoch(entry) / "logs"

    def lay_traps() -> str:
        (logs / "worker-1.log").symlink_to(secret)
        os.mkfifo(logs / "worker-2.log")
        shutil.rmtree(logs.parent.parent / "epoch-7", ignore_errors=True)
        (logs.parent.parent / "epoch-7").symlink_to(secret.parent)
        return ""

    as_user(ALICE, lay_traps)
    everything = Which(ranks=None)
    read = as_user(
        ALICE, lambda: [line.text.decode() for line in lab.client.logs("mine", everything)]
    )
    assert read
    assert SECRET not in read


def test_last_words_that_lead_elsewhere_are_none(lab: Lab, tmp_path: Path) -> None:
    secret = tmp_path / "outcome.json"
    secret.write_text(json.dumps({"outcome": "finished", "exit_code": 0, "why": SECRET}))
    entry = started(lab, "mine", LONG, retry={"limit": 0})
    folder, agent = lab.folders().epoch(entry), entry.agent
    assert agent is not None

    def cheat() -> str:
        (folder / "outcome.json").symlink_to(secret)
        os.kill(agent.pid, signal.SIGKILL)
        return ""

    as_user(ALICE, cheat)
    wait_until(lambda: lab.entry("mine", str(ALICE)).state.final, "it to end", lab.log)
    assert lab.entry("mine", str(ALICE)).state is State.FAILED


def test_processes_of_others_are_safe_whatever_they_are_called(lab: Lab) -> None:
    """A mark in the environment is worth nothing without the owner's number."""
    entry = started(lab, "mine", LONG)
    agent = entry.agent
    assert agent is not None
    variables = Path(f"/proc/{agent.pid}/environ").read_bytes().split(b"\0")
    mark = next(v for v in variables if v.startswith(MARK.encode())).decode().partition("=")[2]
    bystander = subprocess.Popen(
        ["sleep", "60"], env={MARK: mark}, user=BOB, group=BOB, start_new_session=True
    )
    accomplice = subprocess.Popen(
        ["sleep", "60"], env={MARK: mark}, user=ALICE, group=ALICE, start_new_session=True
    )
    try:
        as_user(ALICE, lambda: lab.client.cancel("mine").name)
        wait_until(lambda: lab.entry("mine", str(ALICE)).state.final, "it to end", lab.log)
        assert accomplice.wait(HANG_SECONDS) == -signal.SIGKILL
        assert bystander.poll() is None
    finally:
        for process in (bystander, accomplice):
            process.kill()
            process.wait()


def test_shared_memory_of_others_is_safe(lab: Lab) -> None:
    others = Path(tempfile.mkdtemp(prefix="weft-", dir=SHARED_MEMORY))
    os.chown(others, BOB, BOB)
    entry = started(lab, "mine", LONG)
    folder, agent = lab.folders().epoch(entry), entry.agent
    assert agent is not None

    def claim() -> str:
        card = json.loads((folder / "agent.json").read_text())
        (folder / "agent.json").write_text(json.dumps({**card, "also": str(others)}))
        os.kill(agent.pid, signal.SIGKILL)
        return ""

    try:
        as_user(ALICE, claim)
        wait_until(lambda: lab.entry("mine", str(ALICE)).epoch > 1, "it to begin anew", lab.log)
        assert others.is_dir()
    finally:
        shutil.rmtree(others)


def test_a_folder_that_cannot_be_entered_is_told(lab: Lab) -> None:
    closed = lab.folder / "closed"
    closed.mkdir(mode=0o700)
    as_user(ALICE, lambda: submit(lab, "astray", LONG, workdir=str(closed)))
    wait_until(lambda: lab.entry("astray", str(ALICE)).state.final, "it to fail", lab.log)
    entry = lab.entry("astray", str(ALICE))
    assert (entry.state, entry.epoch) == (State.FAILED, 1)
    assert f"{closed}: Permission denied; another try would end the same way" in entry.message


def test_a_job_that_cannot_start_says_why_and_leaves_its_slot_to_others() -> None:
    """The interpreter lies in a folder of root's; once that is open, the job starts by itself."""
    needs_root()
    with a_lab(for_all=True, slots=1) as lab:
        closed = lab.folder / "closed"
        closed.mkdir(mode=0o700)
        (closed / "python").symlink_to(sys.executable)
        lab.start(sabotage=lambda: setattr(sys, "executable", str(closed / "python")))
        as_user(ALICE, lambda: submit(lab, "waits", "model total=3"))
        wait_until(lambda: reason_of(lab, "waits")[:1] == ["Backoff.Refused"], "a reason", lab.log)
        told = reason_of(lab, "waits")[1]
        assert f"Cannot start as {ALICE}: no permission for {closed}/python" in told
        assert "Ask the administrator to install Weft where all users can read it." in told
        lab.submit("mine", "model total=3")
        lab.wait_for("mine", "Succeeded")
        assert lab.entry("waits", str(ALICE)).progress.step is None
        closed.chmod(0o755)
        wait_until(lambda: lab.entry("waits", str(ALICE)).state.final, "it to end", lab.log)
        assert lab.entry("waits", str(ALICE)).state is State.SUCCEEDED


def test_names_are_each_users_own(lab: Lab) -> None:
    for uid in (ALICE, BOB):
        as_user(uid, lambda: submit(lab, "same", "model total=3"))
    for uid in (ALICE, BOB):
        wait_until(lambda: lab.entry("same", str(uid)).state.final, "both", lab.log)  # noqa: B023
        assert lab.entry("same", str(uid)).state is State.SUCCEEDED


def started(lab: Lab, name: str, run: str, **spec: Any) -> Entry:
    """A job of Alice's that trains."""
    as_user(ALICE, lambda: submit(lab, name, run, **spec))
    owner = str(ALICE)
    wait_until(lambda: lab.entry(name, owner).state is State.RUNNING, "it to run", lab.log)
    wait_until(lambda: bool(lab.entry(name, owner).progress.step), "it to train", lab.log)
    return lab.entry(name, owner)


def submit(lab: Lab, name: str, run: str, **spec: Any) -> str:
    asked = {"run": run, "resources": {"gpus": 1}, **spec}
    return lab.client.submit(asked, name, origin=Origin("/")).uid


def reason_of(lab: Lab, name: str) -> list[str]:
    """Why a job of Alice's waits: the code and the sentence of its first reason."""
    reasons = lab.client.why(name, owner=str(ALICE)).detail.reasons
    return [reasons[0].code, reasons[0].text] if reasons else []


def read_logs(lab: Lab, name: str, owner: str) -> list[str]:
    with closing(lab.client.logs(name, Which(), owner=owner)) as lines:
        return [line.text.decode() for line in lines]


def first_change(lab: Lab, name: str, owner: str) -> str:
    with closing(lab.client.changes(name, owner=owner)) as changes:
        return str(next(iter(changes)))


def connect(path: Path) -> int:
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(str(path))
        return door.fileno()


def received_until_cancelled(
    lab: Lab, user: int, listen: Callable[[Path], str], listens: Callable[[], bool]
) -> str:
    """What a user receives until Alice's job, which is cancelled meanwhile, has ended."""
    over = lab.folder / "over"
    with ThreadPoolExecutor() as threads:
        received = threads.submit(as_user, user, lambda: listen(over))
        try:
            wait_until(listens, "a listening user", lab.log)
            as_user(ALICE, lambda: lab.client.cancel("mine").name)
            wait_until(lambda: lab.entry("mine", str(ALICE)).state.final, "its end", lab.log)
        finally:
            over.touch()
        return received.result(HANG_SECONDS)


def eavesdrop(folder: Path, secret: Path, agent: int, over: Path) -> str:
    """Stop the real agent, stand at its door with another key, and write down what comes."""
    os.kill(agent, signal.SIGSTOP)
    (folder / "agent.sock").unlink()
    (folder / "key").unlink()
    (folder / "key").symlink_to(secret)
    return listen_at(folder / "agent.sock", over)


def listen_at(path: Path, over: Path) -> str:
    """What comes in until there is the file `over`."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen()
        door.settimeout(0.2)
        return _heard_at(door, over)


def _heard_at(door: socket.socket, over: Path) -> str:
    heard = b""
    while not over.exists():
        try:
            line, _ = door.accept()
        except TimeoutError:
            continue
        line.settimeout(1.0)
        try:
            heard += line.recv(4096)
        except TimeoutError:
            continue
    return heard.decode(errors="replace")
