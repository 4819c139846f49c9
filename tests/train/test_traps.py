"""The traps of torch that cost an experiment each, and that the runtime does not step into.

They were found with torch 2.13 and are facts about torch, not about Weft; a test holds that Weft
stays clear of each. The tenth, that writing a checkpoint slows the training on a starved machine,
is a matter of the benchmark `runtime`.
"""

import ast
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.train.driving import ROOT, driven
from weft.train import group
from weft.train.contact import Contact
from weft.train.group import Alone, EpochGroups
from weft.train.session import _close_later

LOCALHOST = "0100007F"
LISTENING = "0A"


def imports() -> Iterator[tuple[Path, str]]:
    """Every module that the training side imports, by file."""
    for room in ("train", "agent"):
        for path in sorted((ROOT / "src/weft" / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    yield from ((path, alias.name) for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module:
                    yield from ((path, f"{node.module}.{alias.name}") for alias in node.names)


@pytest.mark.parametrize(
    "module",
    [
        "torch.distributed.elastic",  # 1: its scale-up hangs by default
        "torch.distributed.run",
        "torch.nn.parallel",  # 3: DistributedDataParallel broadcasts the weights at each wrap
        "torch.distributed.checkpoint",  # 6, 7, 8: runs scripts twice, BaseException, pickle
        "torch.distributed.TCPStore",  # 9: authenticates nobody, listens everywhere
        "torch.multiprocessing",  # 6: spawn runs a script without main guard again
    ],
)
def test_what_the_training_side_does_not_use(module: str) -> None:
    found = [(path.name, name) for path, name in imports() if name.startswith(module)]
    assert not found
    assert any(name == "torch" for _, name in imports())


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_joiner_has_imported_everything_before_it_is_let_in(tmp_path: Path) -> None:
    """2: the first optimizer step imports some eight hundred modules."""
    with driven(tmp_path, "once.py", "20000", agent=("-n", "1")) as job:
        job.reached(5)
        job.order("resize 2")
        job.steady(2)
        job.reached(job.newest_step + 5)
        job.order("drain")
        assert job.wait() == 143, job.logs()
    lines = job.lines(1)
    assert lines[0]["warmup"]
    assert len(lines) > 3
    assert [line["late"] for line in lines] == [[]] * len(lines)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_script_without_a_main_guard_runs_once_per_worker(tmp_path: Path) -> None:
    """6: also when checkpoints are written."""
    checkpoints = tmp_path / "kept"
    agent = ("-n", "2", "--checkpoints", str(checkpoints), "--every", "0.3")
    with driven(tmp_path, "once.py", "100", agent=agent) as job:
        assert job.wait() == 0, job.logs()
    assert sorted((tmp_path / "runs.txt").read_text().split()) == ["0", "1"]
    assert list(checkpoints.glob("step-*"))


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_nobody_listens_to_strangers(tmp_path: Path) -> None:
    """9: the agent on a Unix socket only, the workers' groups on the loopback address only."""
    with driven(tmp_path, "once.py", "2000", agent=("-n", "2")) as job:
        job.reached(5)
        workers = [event["pid"] for event in job.named("spawned")]
        assert listening(job.process.pid) == set()
        addresses = set().union(*(listening(pid) for pid in workers))
        assert addresses == {LOCALHOST}
        job.order("drain")
        assert job.wait() == 143


def test_closing_a_group_keeps_nobody_waiting() -> None:
    """4: it takes 20 ms with gloo."""
    closed = threading.Event()

    class Slow(Alone):
        def close(self) -> None:
            closed.wait(10)

    closing = _close_later(EpochGroups(1, (0, 1), 1, Slow(), Slow(), Slow()))
    assert closing.is_alive()
    closed.set()
    closing.join()


def test_every_group_has_its_own_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5: the default is half an hour, and with gloo nothing else frees a waiting thread."""
    limits: list[timedelta] = []

    def make(store: object, rank: int, size: int, host: str, limit: timedelta) -> object:
        limits.append(limit)
        return object()

    monkeypatch.setitem(group.BACKENDS, "gloo", make)
    monkeypatch.setattr(group, "AgentStore", lambda *_: None)
    contact = Contact("", "job", 1, 1, "", tmp_path, shard=2)
    built = group.build(contact, 3, (0, 1, 2, 3), 7.0)
    assert (built.replica, built.replicas) == (0, 2)
    assert limits == [timedelta(seconds=7)] * len(limits)
    assert len(limits) == 3


def listening(pid: int) -> set[str]:
    """The IPv4 addresses that a process listens on, as the kernel writes them."""
    inodes = {
        target.name[8:-1]
        for target in (
            Path(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()
        )
        if target.name.startswith("socket:[")
    }
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    rows += [line.split() for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
    return {row[1].split(":")[0] for row in rows if row[3] == LISTENING and row[9] in inodes}
