"""The kernel's word about a job: its own processes, the whole machine, and no names of users."""

import os
import time
from pathlib import Path

import pytest

from weft.failure.diagnosis import diagnose
from weft.failure.rulebook import shipped
from weft.local.machine import kernel_log
from weft.local.machine.kernel_log import Concern, said
from weft.local.machine.pci import addresses_in
from weft.model.ids import NodeId

HERE = NodeId("here")
MINE = Concern(frozenset({77}), "weft-a-1")
KILLED = "Memory cgroup out of memory: Killed process {} ({}) total-vm:9kB, anon-rss:8kB"
EVENT = "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/x,task_memcg=/x/{},task=python,pid={}"
#: The wall clock and the monotonic clock are read one after the other.
CLOCKS_APART_SECONDS = 0.01


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


GPUS = frozenset({"0000:4b:00", "0000:4c:00"})
HOLDER = Concern(frozenset({77}), gpus=frozenset({"0000:4b:00"}), all_gpus=GPUS)
OF_4B = "NVRM: Xid (PCI:0000:4b:00): 79, GPU has fallen off the bus."
OF_4C = "NVRM: Xid (PCI:0000:4c:00): 79, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("text", "holds", "knows_nothing"),
    [
        (OF_4B, True, True),
        (OF_4C, False, True),
        ("NVRM: GPU at 0000:4C:00.0 has fallen off the bus.", False, True),
        ("nvidia 0000:4c:00.0: AER: Uncorrected (Fatal) error received", False, True),
        ("NVRM: Xid (PCI:0000:9f:00): 48, DBE", False, True),  # one that nobody is given
        ("NVRM: Xid (PCI:0000:4c:00): 31, pid=77, name=python", True, True),  # its own process
        ("NVRM: Xid (PCI:0000:4b:00): 31, pid=78, name=python", False, False),
        ("pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received", True, True),
        ("NVRM: loading failed", True, True),
        ("EDAC MC0: 1 UE memory read error", True, True),
        ("NVRM: Xid (PCI:0000:4b:00 and PCI:0000:4c:00): 74, NVLink", True, True),
    ],
)
def test_a_line_about_a_gpu_concerns_who_holds_it(
    text: str, holds: bool, knows_nothing: bool
) -> None:
    assert HOLDER.takes(text) is holds
    assert Concern(frozenset({77})).takes(text) is knows_nothing


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("00000000:4B:00.0", ["0000:4b:00"]),
        ("PCI:0000:4b:00", ["0000:4b:00"]),
        ("00010000:01:00.0", ["10000:01:00"]),
        ("12:30:00 and aa:bb:cc:dd:ee:ff and 2026-01-01T10:00:00", []),
        ("0000:4b:00:11", []),
    ],
)
def test_addresses_are_read_however_they_are_written(text: str, found: list[str]) -> None:
    assert list(addresses_in(text)) == found


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
    before, now = time.time(), time.clock_gettime(time.CLOCK_MONOTONIC)
    old = [(now - 100, "EDAC MC0: 1 UE old"), (now - 5, "EDAC MC0: 1 UE new")]
    monkeypatch.setattr(kernel_log, "_records", lambda _: iter(old))
    (line,) = said(60.0, MINE, HERE)
    assert line.text.endswith("new") and line.node == HERE
    assert line.at_seconds is not None
    assert before - 5 <= line.at_seconds + CLOCKS_APART_SECONDS
    assert line.at_seconds - CLOCKS_APART_SECONDS <= time.time() - 5


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
