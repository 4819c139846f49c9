"""How many were killed for want of memory, as either kind of cgroup counts them."""

from pathlib import Path

from weft.agent.workers.memory_events import kills


def test_cgroups_of_both_kinds_are_read(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("4:cpu:/a\n3:memory:/pods/one\n0::/new/one\n")
    old = tmp_path / "memory" / "pods" / "one"
    old.mkdir(parents=True)
    (old / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert kills(own, tmp_path) == 2
    own.write_text("0::/new/one\n")
    assert kills(own, tmp_path) == 0
    new = tmp_path / "new" / "one"
    new.mkdir(parents=True)
    (new / "memory.events").write_text("low 0\noom 3\noom_kill 3\noom_group_kill 0\n")
    assert kills(own, tmp_path) == 3


def test_a_container_sees_its_own_cgroup_as_the_root(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/../../elsewhere\n")
    (tmp_path / "memory.events").write_text("oom_kill 1\n")
    assert kills(own, tmp_path) == 1


def test_what_counts_nothing_is_nothing(tmp_path: Path) -> None:
    own = tmp_path / "own"
    assert kills(own, tmp_path) == 0
    own.write_text("garbage\n1:memory\n0::/\n")
    (tmp_path / "memory.events").write_text("oom_kill many\n")
    assert kills(own, tmp_path) == 0
