"""The kernel's word about a job: its own processes, the whole machine, and no names of users."""

import os
import time
from pathlib import Path

import pytest

from weft.failure.diagnosis import diagnose
from weft.failure.rulebook import shipped
from weft.local.machine import kernel_log
from weft.local.machine.kernel_log import Concern, said
from weft.model.ids import NodeId

HERE = NodeId("here")
MINE = Concern(frozenset({77}), "weft-a-1")
KILLED = "Memory cgroup out of memory: Killed process {} ({}) total-vm:9kB, anon-rss:8kB"
EVENT = "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/x,task_memcg=/x/{},task=python,pid={}"


@pytest.mark.parametrize(
    ("text", "mine"),
    [
        (KILLED.format(77, "python"), True),
        (KILLED.format(78, "python"), False),
        (EVENT.format("weft-a-1", 999), True),
        (EVENT.format("weft-b-1", 77), False),
        ("python[77]: segfault at 0 ip 0 sp 0", True),
        ("python[78]: segfault at 0 ip 0 sp 0", False),
        ("NVRM: Xid (PCI:0000:1b:00): 31, pid=78, name=python", False),
        ("EDAC MC0: 1 UE memory read error", True),
        ("nvme0n1: I/O 5 QID 2 timeout, aborting", True),
    ],
)
def test_lines_belong_to_whose_process_they_name(text: str, mine: bool) -> None:
    assert MINE.takes(text) is mine


def test_a_process_cannot_speak_for_the_kernel_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.clock_gettime(time.CLOCK_MONOTONIC)
    names = ("Kernel panic", "x) EDAC MC0: 1 UE", "mce: [Hardware Error]")
    lines = [(now, KILLED.format(77, name)) for name in names]
    lines += [(now, f"{name}[77]: segfault at 0") for name in names]
    lines += [(now, f"NVRM: Xid (PCI:0000:1b:00): 31, pid=77, name={name}") for name in names]
    monkeypatch.setattr(kernel_log, "_records", lambda _: iter(lines))
    found = said(60.0, MINE, HERE)
    assert len(found) == len(lines)
    assert diagnose(found[:3], shipped()).rule == "oom_killer"
    rules = {rule.name for line in found if (rule := shipped().match(line)) is not None}
    assert rules <= {"oom_killer", "xid_app_fault"}, rules


def test_only_the_time_of_the_run_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.clock_gettime(time.CLOCK_MONOTONIC)
    old = [(now - 100, "EDAC MC0: 1 UE old"), (now - 5, "EDAC MC0: 1 UE new")]
    monkeypatch.setattr(kernel_log, "_records", lambda _: iter(old))
    (line,) = said(60.0, MINE, HERE)
    assert line.text.endswith("new") and line.node == HERE
    assert line.at_seconds is not None and abs(line.at_seconds - (time.time() - 5)) < 2


def test_records_are_read_as_the_kernel_writes_them(tmp_path: Path) -> None:
    kmsg = tmp_path / "kmsg"
    kmsg.write_bytes(b"6,339,5140900,-;text of it\n SUBSYSTEM=acpi\n")
    ((at, text),) = kernel_log._records(kmsg)
    assert (round(at, 6), text) == (5.1409, "text of it")
    for rubbish in (b"", b";", b"6,1,x,-;a", b"\xff\xfe"):
        kmsg.write_bytes(rubbish)
        assert list(kernel_log._records(kmsg)) == []
    assert list(kernel_log._records(tmp_path / "nothing")) == []
    os.mkfifo(tmp_path / "pipe")
    assert list(kernel_log._records(tmp_path / "pipe")) == []
