"""Every command against the world of one machine: the same views, statuses and JSON."""

import io
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from tests.api.memory import (
    NOON,
    MemoryWorld,
    a_failed_job,
    a_running_job,
    a_waiting_job,
)
from tests.api.served import Served, serving
from tests.cli.called import SNAPSHOTS, Weft, expect_snapshot, shape, trimmed
from tests.waiting import HANG_SECONDS, until
from weft.api.backend import CARRIED, Identity, JobKey
from weft.model.errors import WorldError
from weft.view.health import Finding, Verdict
from weft.view.jobs import JobPicture

LLAMA, BERT, VIT, THEIRS = (
    JobKey("root", "llama"),
    JobKey("root", "bert"),
    JobKey("root", "vit"),
    JobKey("alice", "eval"),
)
SCREENS = {
    "ls": ("ls",),
    "ls-wide": ("ls", "-A", "-o", "wide"),
    "show": ("show", "llama"),
    "why": ("why", "bert"),
    "queues": ("queues",),
    "nodes": ("nodes",),
    "top": ("top",),
    "doctor": ("doctor",),
}
TWINS = {
    "ls": ("ls",),
    "show": ("show", "llama"),
    "why": ("why", "bert"),
    "queues": ("queues",),
    "nodes": ("nodes",),
    "top": ("top",),
    "doctor": ("doctor",),
}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weft: Weft) -> Iterator[Served]:
    """At noon: a job of root's runs, one waits, one has failed, and one of alice's waits."""
    with serving(tmp_path / "weft.sock") as served:
        for picture in (a_running_job(LLAMA), a_waiting_job(BERT), a_failed_job(VIT)):
            served.do(served.world.put(picture))
        served.do(served.world.put(a_waiting_job(THEIRS)))
        monkeypatch.setenv("WEFT_LOCAL_SOCKET", str(served.socket))
        monkeypatch.setenv("WEFT_CONTEXT", "local")
        for module in ("weft.api.peer", "weft.cli.worlds.machine"):  # whoever runs the tests
            monkeypatch.setattr(f"{module}.user_name", lambda _uid: "root")
        for command in ("jobs.ls", "jobs.show", "overview.top", "jobs.why_world"):
            monkeypatch.setattr(f"weft.cli.{command}.now", lambda: NOON)
        yield served


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "new.yaml"
    path.write_text("run: python train.py\nresources: {gpus: 1..4}\n")
    return path


def keys(value: object) -> object:
    """The fields of a JSON value, at every depth."""
    if isinstance(value, dict):
        return {key: keys(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [keys(value[0])] if value else []
    return None


@pytest.mark.parametrize("name", SCREENS)
def test_a_table(weft: Weft, machine: Served, name: str) -> None:
    called = weft(*SCREENS[name])
    assert called.status == 0
    expect_snapshot(f"machine-{name}.txt", trimmed(called.out))


@pytest.mark.parametrize("name", TWINS)
def test_its_json_twin_has_the_cluster_s_fields(weft: Weft, machine: Served, name: str) -> None:
    called = weft(*TWINS[name], "-o", "json")
    assert called.status == 0
    cluster = orjson.loads((SNAPSHOTS / f"cluster-{name}.json").read_bytes())
    ours = keys(shape(called.json))
    assert isinstance(ours, dict)
    if name == "show":  # what a job file, its work and its past hold is the job's own
        for free in ("spec", "work", "metrics", "past", "conditions"):
            ours.pop(free), cluster.pop(free)
    assert ours == keys(cluster)


def test_a_job_goes_in_as_its_owner_wrote_it(
    weft: Weft, machine: Served, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in CARRIED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/venv/bin:/usr/bin")
    monkeypatch.setenv("SECRET", "x")
    monkeypatch.chdir(file.parent)
    called = weft("submit", file)
    assert (called.status, called.out) == (0, "root/new\n")
    expect_snapshot("machine-submit.txt", trimmed(called.err))
    origin = machine.world.origins[0]
    assert (origin.workdir, origin.environment) == (
        str(file.parent),
        {"PATH": "/venv/bin:/usr/bin"},
    )
    twin = weft("submit", file, "--name", "other", "-o", "json").json
    assert twin["schema"] == "weft-submitted/1"
    assert set(twin) == {"schema", "namespace", "name", "uid", "spec", "notes"}


def test_a_job_is_tried_again(weft: Weft, machine: Served) -> None:
    called = weft("retry", VIT.name)
    assert (called.status, called.out) == (0, f"{VIT}\n")
    assert weft("show", VIT.name, "-o", "json").json["state"] == "Queued"
    assert weft("retry", VIT.name, "-o", "json").json["jobs"] == [str(VIT)]


def test_a_dry_run_prints_the_job_file(weft: Weft, machine: Served, file: Path) -> None:
    called = weft("submit", file, "--dry-run")
    assert called.out == "name: new\nrun: python train.py\nresources:\n  gpus: 1..4\n"
    assert "nothing was created" in called.err
    assert len(machine.world.pictures) == 4


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("--name", "llama"), 5, "there is a job root/llama already"),
        (("--set", "queue=vision"), 2, "there is no queue 'vision'"),
        (("-n", "alice"), 2, "you cannot submit a job of alice's"),
    ],
)
def test_a_job_that_is_refused(
    weft: Weft, machine: Served, file: Path, *, words: tuple[str, ...], status: int, message: str
) -> None:
    called = weft("submit", file, *words)
    assert called.status == status
    assert f"error: {message}" in called.err
    assert "hint: " in called.err


def test_jobs_of_others(weft: Weft, machine: Served) -> None:
    assert [job["name"] for job in weft("ls", "-n", "alice", "-o", "json").json["jobs"]] == ["eval"]
    assert len(weft("ls", "-A", "-o", "json").json["jobs"]) == 4
    assert weft("ls", "-n", "bob").err == "no jobs of user 'bob'\n"
    assert weft("ls", "-A", "--queue", "none").err == "no such jobs of any user\n"
    assert "alice/eval: Queued" in weft("why", "alice/eval").out
    assert "write NAME or USER/NAME" in weft("why", "a/b/c").err


def test_ls_selects(weft: Weft, machine: Served) -> None:
    listed = weft("ls", "--state", "waiting", "-o", "json").json
    assert [job["name"] for job in listed["jobs"]] == ["bert"]
    some = weft("ls", "-A", "--limit", "1")
    assert "about 3 more jobs were not read" in some.err


def test_ls_says_why_jobs_cannot_start_at_all(weft: Weft, machine: Served) -> None:
    """By waiting they would wait for ever, so their owner has to do something."""
    assert "cannot start" not in weft("ls").err
    refused = {"state": "Queued", "reason": "Backoff.Refused"}
    machine.do(machine.world.change(BERT, message="Cannot start as root: no disk.", **refused))
    assert weft("ls").err == "note: bert: Cannot start as root: no disk.\n"
    machine.do(machine.world.change(LLAMA, message="Cannot start as root: no disk.", **refused))
    assert "no disk. (1 more job cannot start)" in weft("ls").err


@pytest.mark.parametrize("command", ["show", "why", "wait", "logs", "cancel"])
def test_a_missing_job_is_an_error_at_once(weft: Weft, machine: Served, command: str) -> None:
    called = weft(command, "llam")
    assert called.status == 2
    assert called.err == "error: no job 'llam' of 'root'\nhint: did you mean llama?\n"


def test_cancel(weft: Weft, machine: Served) -> None:
    called = weft("cancel", "llama", "alice/eval", "vit")
    assert called.out == "root/llama\nalice/eval\n"
    assert "root/vit has ended already: Failed" in called.err
    assert machine.world.pictures[THEIRS].detail.line.ending
    twin = weft("cancel", "bert", "--dry-run", "-o", "json").json
    assert twin == {"schema": "weft-cancelled/1", "jobs": ["root/bert"], "dry_run": True}
    assert not machine.world.pictures[BERT].detail.line.ending


def test_logs(weft: Weft, machine: Served) -> None:
    for rank, text in ((0, b"one"), (1, b"\x1b[31m"), (0, b"two")):
        machine.do(machine.world.print(LLAMA, text, rank=rank))
    assert weft("logs", "llama").out == "one\ntwo\n"
    assert weft("logs", "llama", "--tail", "1").out == "two\n"
    assert weft("logs", "llama", "--all").out.splitlines()[0] == "[0] one"
    none = weft("logs", "llama", "--rank", "7")
    assert (none.status, none.out) == (0, "")
    assert "there is no rank 7: llama has" in none.err
    waiting = weft("logs", "bert")
    assert waiting.status == 2
    assert "'bert' has no workers: it is Queued" in waiting.err
    assert (weft("logs", "vit").status, weft("logs", "vit").out) == (0, "")


def once_asked(machine: Served, question: str, work: Callable[[], None], times: int = 1) -> None:
    """As soon as the world has been asked that, this happens."""

    def wait_and_do() -> None:
        until(
            lambda: [asked for asked, _ in machine.world.asked].count(question) >= times,
            f"the world to be asked {question}",
        )
        work()

    threading.Thread(target=wait_and_do, daemon=True).start()


def interrupt() -> None:
    """Ctrl-C that does not end the wait of the main thread by itself, for this thread gets it."""
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)


@pytest.mark.parametrize(("state", "status"), [("Succeeded", 0), ("Failed", 1), ("Cancelled", 3)])
def test_followed_logs_end_with_the_job(
    weft: Weft, machine: Served, state: str, status: int
) -> None:
    def ends() -> None:
        machine.do(machine.world.print(LLAMA, b"late", epoch=2))
        machine.do(machine.world.change(LLAMA, state=state, message="so it is"))

    machine.do(machine.world.print(LLAMA, b"early"))
    once_asked(machine, "logs", ends)
    called = weft("logs", "-f", "llama")
    assert (called.status, called.out) == (status, "early\nlate\n")
    assert called.err == (f"rank 0 was placed anew: epoch 2, bench\nllama {state}: so it is\n")


def test_followed_logs_of_a_job_that_is_deleted(weft: Weft, machine: Served) -> None:
    once_asked(machine, "logs", lambda: machine.do(machine.world.delete(LLAMA)))
    called = weft("logs", "-f", "llama")
    assert (called.status, called.err) == (3, "llama was deleted\n")


@pytest.mark.parametrize(("state", "status"), [("Succeeded", 0), ("Failed", 1), ("Cancelled", 3)])
def test_wait(weft: Weft, machine: Served, state: str, status: int) -> None:
    once_asked(machine, "changes", lambda: machine.do(machine.world.change(LLAMA, state=state)))
    called = weft("wait", "llama", "-o", "json")
    assert called.status == status
    assert called.json == {
        "schema": "weft-waited/1",
        "job": "root/llama",
        "state": state,
        "status": status,
    }


def test_wait_for_a_job_that_is_deleted_or_takes_too_long(weft: Weft, machine: Served) -> None:
    assert weft("wait", "llama", "--for", "running").status == 0
    once_asked(machine, "changes", lambda: machine.do(machine.world.delete(LLAMA)), times=2)
    assert weft("wait", "llama").status == 3
    called = weft("wait", "bert", "--timeout", "1s")
    assert called.status == 4
    assert "time is up: root/bert is Queued" in called.err


@pytest.fixture
def restarting(
    weft: Weft, machine: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[..., None]]:
    """A daemon with these jobs that gives way to another one as soon as it is asked this."""
    monkeypatch.setattr("weft.cli.worlds.machine.AGAIN_SECONDS", 0.02)
    path = tmp_path / "other.sock"
    monkeypatch.setenv("WEFT_LOCAL_SOCKET", str(path))
    finished = threading.Event()

    def make(question: str, before: JobPicture, *after: JobPicture, printed: bytes = b"") -> None:
        def restart() -> None:
            first.__exit__(None, None, None)
            with serving(path, *after) as again:
                for line in printed.splitlines():
                    again.do(again.world.print(LLAMA, line))
                for picture in after:
                    again.do(again.world.put(a_failed_job(key_of(picture))))
                finished.wait(HANG_SECONDS)

        first = serving(path, before)
        served = first.__enter__()
        for line in printed.splitlines()[:-1]:
            served.do(served.world.print(LLAMA, line))
        once_asked(served, question, restart)

    yield make
    finished.set()


def key_of(picture: JobPicture) -> JobKey:
    return JobKey(picture.detail.line.namespace, picture.detail.line.name)


def test_a_wait_outlives_the_daemon(weft: Weft, restarting: Callable[..., None]) -> None:
    restarting("changes", a_waiting_job(BERT), a_waiting_job(BERT))
    called = weft("wait", "bert")
    assert (called.status, called.out) == (1, "root/bert Failed\n")


def test_a_followed_log_outlives_the_daemon(weft: Weft, restarting: Callable[..., None]) -> None:
    """Each line comes once, though the second daemon tells all of them again."""
    job = a_running_job(LLAMA)
    restarting("logs", job, job, printed=b"one\ntwo\nthree\n")
    called = weft("logs", "-f", "llama")
    assert (called.status, called.out) == (1, "one\ntwo\nthree\n")


def test_a_job_that_is_gone_after_a_restart_was_deleted(
    weft: Weft, restarting: Callable[..., None]
) -> None:
    restarting("changes", a_waiting_job(BERT))
    called = weft("wait", "bert")
    assert (called.status, called.out) == (3, "root/bert Deleted\n")


def test_a_log_that_is_gone_after_a_restart_was_deleted(
    weft: Weft, restarting: Callable[..., None]
) -> None:
    restarting("logs", a_running_job(LLAMA))
    assert weft("logs", "-f", "llama").status == 3


def test_nobody_waits_for_a_daemon_that_was_never_there(
    weft: Weft, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WEFT_LOCAL_SOCKET", str(tmp_path / "none"))
    for words in (("ls",), ("wait", "x"), ("logs", "-f", "x"), ("top", "-w"), ("doctor",)):
        called = weft(*words, "--context", "local")
        assert called.status == 5
        assert "nobody answers at" in called.err
        assert "hint: weft local up starts a world on this machine" in called.err


@pytest.mark.parametrize("command", ["ls", "queues", "top"])
@pytest.mark.parametrize("output", ["table", "json"])
def test_watching_draws_again_until_it_is_left(
    weft: Weft, machine: Served, monkeypatch: pytest.MonkeyPatch, command: str, output: str
) -> None:
    monkeypatch.setattr("weft.cli.terminal.watching.LEAST_SECONDS", 0.0)

    question = command.replace("ls", "jobs")
    change = machine.world.change(BERT, gpus=1)
    once_asked(machine, question, lambda: machine.do(change))
    once_asked(machine, question, interrupt, times=3)
    once_asked(machine, question, lambda: machine.do(machine.world.change(BERT, gpus=2)), times=2)
    called = weft(command, "--watch", "-o", output)
    assert called.status == 130
    assert "detached: " in called.err
    if output == "json":
        lines = [orjson.loads(line) for line in called.out.splitlines()]
        assert len(lines) >= 2
        assert all("schema" in line for line in lines)


def test_a_command_that_hangs_can_be_left(
    weft: Weft, machine: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C is heard while an answer is waited for."""

    async def never(world: MemoryWorld, who: Identity) -> object:
        world.asked.append(("nodes", who))
        await machine.stop.wait()
        raise WorldError("too late")

    monkeypatch.setattr(MemoryWorld, "nodes", never)
    once_asked(machine, "nodes", interrupt)
    assert weft("nodes").status == 130


def test_the_world_is_told_on_a_terminal_and_on_demand(
    weft: Weft, machine: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    title = f"local · {machine.socket}\n"
    assert weft("ls", "-o", "json").err == ""
    assert weft("-v", "ls", "-o", "json").err == title
    monkeypatch.delenv("WEFT_VERBOSE")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    told = weft("ls", "-o", "json")
    assert title.strip() in told.err
    assert told.json["schema"] == "weft-jobs/1"


def test_the_doctor_s_verdict_is_the_status(
    weft: Weft, machine: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ill(*_: object) -> tuple[Finding, ...]:
        return (Finding("store", Verdict.FAIL, "the disk is full", "empty it"),)

    monkeypatch.setattr(MemoryWorld, "health", ill)
    called = weft("doctor", "--operator-namespace", "x")
    assert called.status == 1
    assert "remedy: empty it" in called.out
    assert "--operator-namespace is for a cluster" in called.err
