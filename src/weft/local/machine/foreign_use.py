"""GPUs that somebody uses outside of Weft: seen, booked as taken, and said.

A process on a GPU is ours if it or one of its parents carries this daemon's mark, or if it belongs
to the owner of the job that holds that GPU. All others are foreign. A free GPU with a foreign
process on it is given to nobody until that process has left; a job that holds one trains on.
"""

import asyncio
import logging
import pwd
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from weft.local.agents import job_processes as processes
from weft.local.machine import nvml
from weft.local.machine.machine import Machine
from weft.local.record.entry import Entry
from weft.model.errors import WorldError
from weft.view.jobs import ReasonLine

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 5.0
BLIND: Final = (
    "GPUs that are used outside of Weft are not seen: NVML is missing (pip install nvidia-ml-py)"
)


@dataclass(frozen=True, slots=True, order=True)
class Foreign:
    """A process that is no job's, on a GPU."""

    device: int
    pid: int
    user: str = "somebody"

    def __str__(self) -> str:
        return f"GPU {self.device} by process {self.pid} of {self.user}"


def foreign_in(
    seen: Mapping[int, tuple[int, ...]],
    entries: Iterable[Entry],
    is_ours: Callable[[int], bool],
    account_of: Callable[[int], int | None],
) -> tuple[Foreign, ...]:
    """Of the processes that were seen, those that are nobody's here; the gone are left out."""
    owners = {device: entry.owner.uid for entry in entries for device in entry.devices}
    found = []
    for device, pids in seen.items():
        for pid in pids:
            account = account_of(pid)
            if account is not None and account != owners.get(device) and not is_ours(pid):
                found.append(Foreign(device, pid, _name(account)))
    return tuple(sorted(found))


class ForeignWatch:
    """Looks at the GPUs from time to time; `told` hears when others use other GPUs than before."""

    def __init__(
        self, machine: Machine, mark: str, entries: Iterable[Entry], told: Callable[[], None]
    ) -> None:
        library = nvml.find() if machine.has_gpus else None
        self._eyes = None if library is None else nvml.GpuProcesses(library, machine.slots)
        self._mark = mark
        self._entries = entries
        self._told = told
        self.found: tuple[Foreign, ...] = ()
        self.note = BLIND if machine.has_gpus and library is None else ""
        if self.note:
            log.warning("%s", self.note)

    @property
    def devices(self) -> frozenset[int]:
        return frozenset(one.device for one in self.found)

    def free(self) -> frozenset[int]:
        """Foreign ones among the GPUs that no job holds: these cannot be given."""
        return self.devices - {device for entry in self._entries for device in entry.devices}

    async def run(self) -> None:
        if self._eyes is None:
            await asyncio.Event().wait()
            return
        booked: frozenset[int] = frozenset()
        while True:
            await self.look(self._eyes)
            if self.free() != booked:
                booked = self.free()
                self._told()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self, eyes: nvml.GpuProcesses) -> None:
        """A driver that does not answer shows nothing new."""
        try:
            seen = await asyncio.to_thread(eyes.look)
        except WorldError as error:
            if self.note != str(error):
                log.warning("%s", error)
            self.note = str(error)
            return
        self.note = ""
        before = self.found
        self.found = foreign_in(seen, self._entries, self._is_ours, processes.account_of)
        for one in set(self.found) - set(before):
            log.warning("%s is used outside of Weft", one)

    def _is_ours(self, pid: int) -> bool:
        return processes.is_marked(pid, self._mark)


def reason_of(found: tuple[Foreign, ...], slots: int) -> ReasonLine:
    """For whoever waits while others use GPUs past the queue."""
    devices = len({one.device for one in found})
    named = "; ".join(map(str, found[:3]))
    return ReasonLine(
        "Capacity.Foreign",
        "capacity",
        f"{devices} of {slots} GPUs are used outside of Weft: {named}.",
        "ask them to submit a job instead, or have the administrator end the process",
        "local.md#gpus-that-are-used-outside-of-weft",
    )


def _name(account: int) -> str:
    try:
        return pwd.getpwuid(account).pw_name
    except KeyError:
        return str(account)
