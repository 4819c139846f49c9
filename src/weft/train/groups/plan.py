"""Execution plans as they are applied to a model inside a replica.

A replica is one worker, or `shard` workers that hold one model together (FSDP2). Its inside is
fixed for its life: the members of a replica start together, form torch's default process group, and
leave together. Between replicas everything is as elastic as between single workers.
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

from weft.train.groups.agent_store import AgentStore
from weft.train.groups.backend import inside
from weft.train.membership.contact import Contact

INSIDE_SECONDS = 120.0


def sharded(model: nn.Module, contact: Contact, block: type[nn.Module] | None) -> nn.Module:
    """The model, held together by the members of this worker's replica."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    device = next(model.parameters()).device
    _meet(contact, device)
    mesh = init_device_mesh(device.type, (contact.shard,))
    for layer in [m for m in model.modules() if block is not None and isinstance(m, block)]:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def _meet(contact: Contact, device: torch.device) -> None:
    """Torch's default group is the inside of a replica, and nothing else."""
    unit, place = divmod(contact.worker, contact.shard)
    store = AgentStore(contact, f"replica-{unit}/", timedelta(seconds=INSIDE_SECONDS))
    dist.init_process_group(
        inside(device),
        store=store,
        rank=place,
        world_size=contact.shard,
        timeout=timedelta(seconds=INSIDE_SECONDS),
    )
