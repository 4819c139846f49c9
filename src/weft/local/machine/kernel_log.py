"""What the kernel of this machine has said while a job ran, as far as it concerns that job.

Whoever is not root may not read it in most places, and then nothing is said. A line that names a
process concerns the job whose it is, and one that names a GPU whoever holds it; what it says of the
whole machine concerns everybody.
Names of processes are chosen by users, so they are cut off before anybody reads the line.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.failure.lines import Line, Stream, plain
from weft.local.machine.pci import addresses_in
from weft.model.ids import NodeId

KMSG: Final = Path("/dev/kmsg")
MOST_RECORDS: Final = 20_000
RECORD_BYTES: Final = 8192
MOST_LINES: Final = 200
MICRO: Final = 1e-6
GPU_DRIVER: Final = "NVRM"

_OF_A_PROCESS = re.compile(r"Kill(?:ed)? process (\d{1,10})|\bpid='?(\d{1,10})|\w\[(\d{1,10})\]:? ")
_GROUP = re.compile(r"task_memcg=([^,]{1,300})")
_NAMES = re.compile(
    r"(Kill(?:ed)? process \d{1,10}) .*"
    r"|(\boom-kill:constraint=\w{1,40}).*"
    r"|(\bpid='?\d{1,10}).*name=.*"
    r"|^.*?\[\d{1,10}\]:? (segfault|general protection|trap)"
)


@dataclass(frozen=True, slots=True)
class Concern:
    """Which lines are a job's: those of its processes, of its cgroup, of its GPUs, of the machine.

    `gpus` are addresses of those that it holds and `all_gpus` of those that there are, as far as
    they are known.
    """

    pids: frozenset[int]
    cgroup: str = ""
    gpus: frozenset[str] = frozenset()
    all_gpus: frozenset[str] = frozenset()

    def takes(self, text: str) -> bool:
        if (group := _GROUP.search(text)) is not None:
            return bool(self.cgroup) and group[1].endswith(self.cgroup)
        named = {int(number) for found in _OF_A_PROCESS.findall(text) for number in found if number}
        if named:
            return not named.isdisjoint(self.pids)
        return self._holds(text)

    def _holds(self, text: str) -> bool:
        """Whether it speaks of no GPU, or of one of the job's, or nobody knows of which."""
        addresses = set(addresses_in(text))
        about = addresses & self.all_gpus
        if about or (self.all_gpus and addresses and GPU_DRIVER in text):
            return not about.isdisjoint(self.gpus)
        return True


def said(
    since_seconds: float, concern: Concern, node: NodeId, kmsg: Path = KMSG
) -> tuple[Line, ...]:
    """Lines of the last so many seconds, with the time of day; none where they cannot be read."""
    wall, now = time.time(), time.clock_gettime(time.CLOCK_MONOTONIC)
    found = [
        Line(plain(_nameless(text)), Stream.KERNEL, wall - (now - at), node)
        for at, text in _records(kmsg)
        if at >= now - since_seconds and concern.takes(text)
    ]
    return tuple(found[-MOST_LINES:])


def _nameless(text: str) -> str:
    """Without what a user could have put there by naming a process."""
    return _NAMES.sub(lambda found: next(part for part in found.groups() if part), text)


def _records(kmsg: Path) -> Iterator[tuple[float, str]]:
    """Each read gives one record, and an error when there is none left or some were overwritten."""
    try:
        handle = os.open(kmsg, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        for _ in range(MOST_RECORDS):
            with suppress(BrokenPipeError):
                record = os.read(handle, RECORD_BYTES)
                if not record:
                    return
                yield from _parsed(record)
    except OSError:
        return
    finally:
        os.close(handle)


def _parsed(record: bytes) -> Iterator[tuple[float, str]]:
    """`6,339,5140900,-;text` and lines of properties that begin with a space."""
    head, _, text = record.decode(errors="replace").partition(";")
    fields = head.split(",")
    if len(fields) > 2 and fields[2].isdecimal():  # noqa: PLR2004 - level, number, time
        yield int(fields[2]) * MICRO, text.partition("\n")[0]
