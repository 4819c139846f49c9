"""Which of torch's backends carries what: chosen here, by the device, and nowhere else.

Votes, control and the state on its way go between processors, by gloo, whatever the model lies on:
who waits there can be freed, and has no stream to wait for. Gradients go where they lie: by NCCL
between GPUs. The two kinds differ in what matters when somebody is lost:

    gloo    a wait is a wait of this thread; it ends with the connections
    nccl    `wait` only lets a stream wait, so a sum is there when its event says so; connections
            are made by the first operation, so one is made while the group is built; what is under
            way ends by `abort`
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeAlias

import torch
import torch.distributed as dist

from weft.model.errors import SpecError
from weft.train.groups.agent_store import AgentStore

Backend: TypeAlias = Any  # one of torch's; they are alike in what is used here
Make = Callable[[AgentStore, int, int, str, timedelta], Backend]


@dataclass(frozen=True, slots=True)
class Kind:
    """How groups of one backend are made, waited for and ended."""

    name: str
    make: Make
    streams: bool  # whether a wait returns before the result is there, and `abort` ends it


def gloo(store: AgentStore, rank: int, size: int, host: str, limit: timedelta) -> Backend:
    """A group over TCP between the members' processors."""
    options = dist.ProcessGroupGloo._Options()  # type: ignore[attr-defined]
    options._devices = [dist.ProcessGroupGloo.create_device(hostname=host)]
    options._timeout = limit
    options._threads = 2
    return dist.ProcessGroupGloo(store, rank, size, options)


def nccl(store: AgentStore, rank: int, size: int, host: str, limit: timedelta) -> Backend:
    """A group between GPUs. Only a machine that has them can show that this works."""
    options = dist.ProcessGroupNCCL.Options()
    options._timeout = limit
    return dist.ProcessGroupNCCL(store, rank, size, options)


GLOO: Final = Kind("gloo", gloo, streams=False)
NCCL: Final = Kind("nccl", nccl, streams=True)
CONTROL: Final = GLOO
BY_DEVICE: Final[dict[str, Kind]] = {"cpu": GLOO, "cuda": NCCL}


def for_data(device: torch.device) -> Kind:
    """What gradients on that device are summed by."""
    kind = BY_DEVICE.get(device.type)
    if kind is None:
        raise SpecError(
            f"there is no way to sum gradients on {device.type!r}",
            hint="let the model be on the processor or on a CUDA device",
        )
    return kind


def inside(device: torch.device) -> str:
    """The backend, by torch's name for it, of the group inside a sharded replica."""
    data = for_data(device)
    return data.name if data is CONTROL else f"cpu:{CONTROL.name},{device.type}:{data.name}"
