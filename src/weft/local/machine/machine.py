"""This machine as the brain's one node: its GPUs, or slots that stand for them, CPUs and memory.

GPUs are found without any library: `nvidia-smi` where it is installed, else the device files that
the driver makes. On a machine without GPUs a slot is a share of its CPUs. Each slot has a number:
a GPU's own, or one from 0 on.
"""

import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from weft.agent.workers.gpus import told_by_driver
from weft.local.machine.pci import addresses_in
from weft.model.cluster import Gpu, Node
from weft.model.errors import SpecError
from weft.model.ids import ANY_GPU, GpuType, NodeId
from weft.spec.gpu_names import short_name

MIB_PER_GIB: Final = 1024
KIB_PER_GIB: Final = 1024**2
QUESTION: Final = (
    "--query-gpu=index,name,memory.total,pci.bus_id",
    "--format=csv,noheader,nounits",
)
DEVICE_FILE: Final = re.compile(r"nvidia(\d+)")
LEAST_FIELDS: Final = 3


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU that was found."""

    number: int
    type: str = ANY_GPU
    memory_gib: float | None = None
    pci: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What jobs can be given here. `slots` are numbers of GPUs where `has_gpus`.

    `pci` are addresses of GPUs by number, those that no job is given among them, where the driver
    tells them.
    """

    name: str
    slots: tuple[int, ...]
    has_gpus: bool
    gpu_type: str = ANY_GPU
    gpu_memory_gib: float | None = None
    cpus: tuple[int, ...] = ()
    memory_gib: float | None = None
    pci: Mapping[int, str] = field(default_factory=dict)

    @property
    def node(self) -> Node:
        """As the brain knows it."""
        return self.node_without(frozenset())

    def node_without(self, foreign: frozenset[int]) -> Node:
        """The same while others use these slots."""
        return Node(
            id=NodeId(self.name),
            gpus=len(set(self.slots) - foreign),
            gpu=Gpu(GpuType(self.gpu_type), self.gpu_memory_gib),
            cpus=float(len(self.cpus)) if self.cpus else None,
            memory_gib=self.memory_gib,
        )

    def cpus_of(self, slots: Sequence[int]) -> tuple[int, ...]:
        """The CPUs that belong to these slots; none where there are fewer CPUs than slots."""
        each = len(self.cpus) // len(self.slots) if self.slots else 0
        indices = [self.slots.index(slot) for slot in slots if slot in self.slots]
        return tuple(cpu for at in indices for cpu in self.cpus[at * each : (at + 1) * each])


def this_machine(slots: int | None = None) -> Machine:
    """What is here; `slots` says how many GPUs to use, or how many slots to make without any."""
    found = _devices()
    devices = _wanted(found, os.environ.get("CUDA_VISIBLE_DEVICES"))
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    chosen = _first(devices, slots)
    first = chosen[0] if chosen else Device(0)
    numbers = [device.number for device in chosen]
    return Machine(
        name=_node_name(socket.gethostname()),
        slots=tuple(numbers) if chosen else tuple(range(slots or len(cpus))),
        has_gpus=bool(chosen),
        gpu_type=first.type,
        gpu_memory_gib=first.memory_gib,
        cpus=cpus,
        memory_gib=_memory_gib(Path("/proc/meminfo").read_text()),
        pci={device.number: device.pci for device in found if device.pci},
    )


def parse_devices(text: str) -> tuple[Device, ...]:
    """What `nvidia-smi` answered: a line for each GPU."""
    found = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) >= LEAST_FIELDS and fields[0].isdigit():
            memory = float(fields[2]) / MIB_PER_GIB if fields[2].isdigit() else None
            pci = next(addresses_in(" ".join(fields[LEAST_FIELDS:])), "")
            found.append(Device(int(fields[0]), short_name(fields[1]), memory, pci))
    return tuple(found)


def _devices() -> tuple[Device, ...]:
    without = "--slots N works without GPUs once it is out of the PATH"
    told = told_by_driver(QUESTION, without=without)
    return _device_files(Path("/dev")) if told is None else parse_devices(told)


def _device_files(folder: Path) -> tuple[Device, ...]:
    names = (DEVICE_FILE.fullmatch(path.name) for path in folder.glob("nvidia*"))
    return tuple(Device(number) for number in sorted(int(name[1]) for name in names if name))


def _wanted(devices: tuple[Device, ...], visible: str | None) -> tuple[Device, ...]:
    """Whoever starts the daemon may keep GPUs from it, as from any CUDA program."""
    words = [word.strip() for word in (visible or "").split(",") if word.strip()]
    if visible is None or not all(word.isdigit() for word in words):
        return devices
    return tuple(device for device in devices if str(device.number) in words)


def _first(devices: tuple[Device, ...], slots: int | None) -> tuple[Device, ...]:
    if slots is not None and slots < 1:
        raise SpecError(f"{slots} slots", hint="write --slots 1 or more")
    if slots is not None and len(devices) and slots > len(devices):
        raise SpecError(
            f"{slots} slots, but this machine has {len(devices)} GPUs",
            hint="a slot is a whole GPU: ask for no more than there are",
        )
    return devices[:slots]


def _memory_gib(meminfo: str) -> float | None:
    fields: Mapping[str, str] = dict(
        line.split(":", 1) for line in meminfo.splitlines() if ":" in line
    )
    words = fields.get("MemTotal", "").split()
    return int(words[0]) / KIB_PER_GIB if words else None


def _node_name(host: str) -> str:
    return host.partition(".")[0].lower() or "localhost"
