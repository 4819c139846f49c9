"""What an incarnation started ends with it, however it hides; and it has the memory it booked."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.waiting import HANG_SECONDS, until
from weft.local.agents.cgroups import Cgroup, Cgroups, cgroups_of
from weft.local.agents.job_processes import Sign, end_incarnation, of_incarnation
from weft.local.answers.health import _bounds
from weft.view.health import Verdict

HIDES = """
import os, sys, time
if os.fork():
    time.sleep(60)
os.setsid()
if os.fork():
    os._exit(0)
os.execve(sys.executable, [sys.executable, "-c", sys.argv[1]], {})
"""
HIDDEN = "import os, time; open({!r}, 'w').write(str(os.getpid())); time.sleep(60)"


@pytest.fixture
def cgroups() -> Iterator[Cgroups]:
    found = cgroups_of(f"test-{uuid4().hex[:8]}")
    if found is None:
        pytest.skip("no cgroup v2 of our own here")
    yield found
    found.remove()


def test_whoever_hides_is_ended_all_the_same(cgroups: Cgroups, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = HIDDEN.format(str(note))
    words = [sys.executable, "-c", "import sys; sys.stdin.read();" + HIDES, script]
    process = subprocess.Popen(words, stdin=subprocess.PIPE)
    sign = Sign("test:hidden:1", os.getuid(), cgroups.of("hidden:1"))
    assert sign.cgroup is not None
    try:
        assert sign.cgroup.take_in(process.pid)
        assert process.stdin is not None
        process.stdin.close()
        hidden = int(written(note))
        assert of_incarnation(Sign(sign.text, sign.uid)) == (), "its mark does not find it"
        assert hidden in of_incarnation(sign)
        until_nobody(sign)
        assert process.wait(HANG_SECONDS) == -signal.SIGKILL
        assert not Path(f"/proc/{hidden}").exists() or is_dead(hidden)
        assert not sign.cgroup.path.exists()
    finally:
        sign.cgroup.kill()
        process.wait(HANG_SECONDS)


def test_a_cgroup_that_was_never_made_holds_nobody(tmp_path: Path) -> None:
    absent = Cgroup(tmp_path / "absent")
    absent.kill()
    absent.remove()
    absent.bound(3.0)
    assert absent.processes == ()


def a_machine(tmp_path: Path, place: str, controllers: str = "cpu memory") -> tuple[Path, Path]:
    """A tree as the kernel shows it, as far as it is read; `cgroup.kill` is only its to make."""
    tree = tmp_path / "cgroup"
    for folder in (tree, *(tree / part for part in above(place))):
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.controllers").write_text(controllers)
        (folder / "cgroup.subtree_control").write_text("cpu")
    mounts, own = tmp_path / "mounts", tmp_path / "own"
    mounts.write_text(f"proc /proc proc rw 0 0\ncgroup2 {tree} cgroup2 rw 0 0\n")
    own.write_text(f"4:memory:/elsewhere\n0::{place}\n")
    return mounts, own


def above(place: str) -> list[str]:
    parts = place.strip("/").split("/") if place != "/" else []
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def test_in_a_container_the_root_is_ours(tmp_path: Path) -> None:
    mounts, own = a_machine(tmp_path, "/")
    found = cgroups_of("d", mounts=mounts, own=own)
    assert found == Cgroups(tmp_path / "cgroup" / "weft-d", bounds_memory=False)
    assert (tmp_path / "cgroup" / "cgroup.subtree_control").read_text() == "+memory"


def test_what_systemd_does_not_delegate_is_left_alone(tmp_path: Path) -> None:
    mounts, own = a_machine(tmp_path, "/system.slice/weft.service")
    assert cgroups_of("d", mounts=mounts, own=own) is None


def test_a_leaf_of_a_delegated_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getxattr", lambda path, name: b"1", raising=False)
    mounts, own = a_machine(tmp_path, "/system.slice/weft.service/weft-daemon")
    home = tmp_path / "cgroup" / "system.slice" / "weft.service"
    root = home / "weft-d"
    root.mkdir()
    (root / "cgroup.controllers").write_text("memory")
    (root / "cgroup.subtree_control").write_text("memory")
    found = cgroups_of("d", mounts=mounts, own=own)
    assert found == Cgroups(root, bounds_memory=True)
    assert (home / "cgroup.subtree_control").read_text() == "+memory"


def test_a_delegated_service_without_a_leaf_hands_nothing_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getxattr", lambda path, name: b"1", raising=False)
    mounts, own = a_machine(tmp_path, "/system.slice/weft.service")
    home = tmp_path / "cgroup" / "system.slice" / "weft.service"
    assert cgroups_of("d", mounts=mounts, own=own) == Cgroups(home / "weft-d")
    assert (home / "cgroup.subtree_control").read_text() == "cpu"


def test_memory_is_what_was_booked(tmp_path: Path) -> None:
    cgroup = Cgroup(tmp_path)
    cgroup.bound(1.5)
    assert (tmp_path / "memory.max").read_text() == str(3 << 29)
    cgroup.bound(0.0)
    assert (tmp_path / "memory.max").read_text() == "max"


def test_the_doctor_tells_what_holds() -> None:
    assert _bounds(None).verdict is Verdict.WARN
    assert "not enforced" in _bounds(Cgroups(Path("/x"))).text
    assert _bounds(Cgroups(Path("/x"), bounds_memory=True)).verdict is Verdict.OK


def written(path: Path) -> str:
    return until(lambda: path.exists() and path.read_text(), f"a text in {path}") or ""


def until_nobody(sign: Sign) -> None:
    until(lambda: not end_incarnation(sign), f"{sign.text} to end")


def is_dead(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
