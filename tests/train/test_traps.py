"""Each trap that torch has laid stays avoided.

They were found by experiment with torch 2.13, are numbered as in the notes on the runtime, and are
told where the code avoids them. What torch does is not tested here; that we do not step into it is.
"""

import ast
import contextlib
import os
import signal
import socket
import stat
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from torch._C._distributed_c10d import HashStore

from tests.train.cradle import ROOT
from tests.train.driving import Driven, driven, leftovers
from tests.train.lines import Line
from tests.waiting import HANG_SECONDS
from weft.agent.checkpoint import errors
from weft.agent.messages import Ask, Envelope, Hello, encode
from weft.model.errors import WeftError
from weft.train.groups import backend as backend_module
from weft.train.groups.backend import gloo
from weft.train.groups.group import Alone, EpochGroups
from weft.train.membership.member import _close_later

SOURCES = sorted((ROOT / "src" / "weft" / "agent").glob("**/*.py"))
SOURCES += sorted((ROOT / "src" / "weft" / "train").glob("*.py"))
LISTENING = "0A"
LOOPBACK = "0100007F"

FORBIDDEN = {  # traps 1, 3, 4, 6, 8 and 9
    "torchrun and its rendezvous": ("torch.distributed.elastic", "torch.distributed.run"),
    "DDP, which broadcasts and keeps a state after errors, unless asked for": (
        "DistributedDataParallel",
    ),
    "DCP, whose metadata is pickle": ("torch.distributed.checkpoint",),
    "a store without authentication": ("TCPStore",),
    "deserialisation that runs code": ("pickle", "marshal", "shelve", "dill", "cloudpickle"),
    "torch's own files": ("torch.load", "torch.save"),
    "a child that imports __main__ again": ("multiprocessing", "torch.multiprocessing"),
    "destroying a group in the step": ("destroy_process_group",),
    "code from text": ("eval", "exec"),
}
MAY = {
    "DDP, which broadcasts and keeps a state after errors, unless asked for": ("ddp.py",),
    "destroying a group in the step": ("bandwidth.py",),  # a probe, which has no steps
}


@pytest.mark.parametrize("why", FORBIDDEN)
def test_what_is_not_used(why: str) -> None:
    words = FORBIDDEN[why]
    below = tuple(f"{word}." for word in words)
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in SOURCES
        if path.name not in MAY.get(why, ())
        for name in names_in(path)
        if name in words or name.startswith(below)
    }
    assert not found


def names_in(path: Path) -> Iterator[str]:
    """Every name that a module imports or mentions, in full as far as it is written."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute):
            yield ast.unparse(node)
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id


def test_the_search_finds_what_it_looks_for(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("import pickle\nfrom torch import load\ndist.TCPStore(x)\neval('1')")
    assert {"pickle", "torch.load", "TCPStore", "eval"} <= set(names_in(module))


def test_trap_4_closing_a_group_does_not_block_the_step() -> None:
    release = threading.Event()

    class Slow(Alone):
        def close(self) -> None:
            release.wait()

    alone = Alone()
    closing = _close_later(EpochGroups(1, (0,), 1, Slow(), alone, alone))
    assert closing.is_alive()
    release.set()
    closing.join()


def test_trap_5_every_group_has_the_limit_it_was_given() -> None:
    limit = timedelta(seconds=7)
    backend = gloo(HashStore(), 0, 1, "127.0.0.1", limit)  # type: ignore[arg-type]
    assert backend.options._timeout == limit


@pytest.mark.parametrize("name", sorted({kind.name for kind in backend_module.BY_DEVICE.values()}))
def test_trap_5_no_backend_is_made_without_a_limit(name: str) -> None:
    tree = ast.parse(Path(backend_module.__file__).read_text())
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert "options._timeout = limit" in ast.unparse(functions[name])


def test_trap_7_every_error_of_a_checkpoint_is_an_ordinary_one() -> None:
    raised = [one for one in vars(errors).values() if isinstance(one, type)]
    assert errors.CheckpointError in raised
    for one in raised:
        assert not issubclass(one, BaseException) or issubclass(one, WeftError)


# ----------------------------------------------------------------- with a job that is running


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driven]:
    """A job that has grown and saved, and trains on."""
    folder = tmp_path_factory.mktemp("watched")
    options = ("--total", "800", "--pause", "0.05", "--watch", "--norm", "--hidden", "256")
    agent = ("-n", "1", "--checkpoints", str(folder / "kept"))
    with driven(folder, "mlp.py", *options, agent=agent) as job:
        job.reached(3)
        job.order("resize 2")
        job.steady(2)
        job.order("save")
        job.until(lambda event: event["event"] == "saved")
        job.reached(job.newest_step + 3)
        yield job
        if job.process.poll() is None:
            job.signal(signal.SIGTERM)
            job.wait()
    assert not leftovers(folder)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_trap_6_a_worker_that_saves_has_no_children(running: Driven) -> None:
    for worker in (0, 1):
        tasks = Path(f"/proc/{running.pid(worker)}/task").glob("*/children")
        assert "".join(task.read_text() for task in tasks) == ""


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_trap_9_the_agent_listens_on_a_unix_socket_only(running: Driven) -> None:
    assert listeners(running.process.pid) == set()
    run = running.folder / "run"
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    assert stat.S_IMODE((run / "key").stat().st_mode) == 0o400


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_trap_9_workers_listen_on_the_loopback_only(running: Driven) -> None:
    assert listeners(running.pid(0)) == listeners(running.pid(1)) == {LOOPBACK}


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("token", ["", "0" * 64])
def test_trap_9_a_stranger_is_not_served_by_the_store(running: Driven, token: str) -> None:
    messages = (Hello("store", 0, 1, token), Ask("set", "epoch-1/votes/0", "AAAA"))
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.settimeout(HANG_SECONDS)
        stranger.connect(str(running.folder / "run" / "agent.sock"))
        with contextlib.suppress(ConnectionError):
            for seq, message in enumerate(messages, start=1):
                stranger.sendall(encode(Envelope("job", 1, seq, message)))
            assert stranger.recv(1) == b""


def listeners(pid: int) -> set[str]:
    """The addresses, as the kernel writes them, at which a process listens for TCP."""
    mine = set()
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            mine.add(os.readlink(handle))
    found = set()
    for table in ("tcp", "tcp6"):
        for row in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = row.split()
            if fields[3] == LISTENING and f"socket:[{fields[9]}]" in mine:
                found.add(fields[1].split(":")[0])
    return found


# --------------------------------------------------------------------- when it is at its end


@pytest.fixture(scope="module")
def ended(running: Driven) -> Driven:
    (running.folder / "hurry").touch()
    assert running.wait() == 0, running.logs()
    return running


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_trap_2_a_newcomer_imports_nothing_of_torch_once_it_is_ready(ended: Driven) -> None:
    (first,), (newcomer,) = (said("late", ended.lines(worker)) for worker in (0, 1))
    assert newcomer["late"] == []
    assert "torch.utils.benchmark" in first["late"], "who was not warmed up imports it in a step"


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_trap_6_a_script_without_a_main_guard_runs_once_per_worker(ended: Driven) -> None:
    began = said("began", ended.lines())
    assert sorted(line["worker"] for line in began) == ["0", "1"]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_trap_8_nothing_is_unpickled_while_a_job_grows_and_saves(ended: Driven) -> None:
    assert [line["unpickled"] for line in said("unpickled", ended.lines())] == [[], []]


def said(what: str, lines: list[Line]) -> list[Line]:
    return [line for line in lines if what in line]
