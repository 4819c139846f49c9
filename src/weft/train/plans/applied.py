"""A plan applied to a freshly built model, by torch's own parts and the program's functions.

The order is that of torchtitan: stages first, then the tensors of a stage, then its shards. Names
of parameters stay those of the whole model, so that state fits under every plan.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from weft.agent.plan import Plan
from weft.model.errors import SpecError
from weft.train.groups.agent_store import AgentStore
from weft.train.groups.backend import inside
from weft.train.membership.contact import Contact
from weft.train.plans.computed import Pipelined, WithLoss
from weft.train.plans.hooks import Hooks
from weft.train.state.local_tensors import clean

INSIDE_SECONDS = 120.0
_STORES: list[AgentStore] = []  # torch keeps its own half alone, and asks it again for a mesh


@dataclass(frozen=True, slots=True)
class Applied:
    """The model as this worker holds it, and the names of what others hold alone."""

    model: nn.Module
    elsewhere: frozenset[str] = frozenset()


def applied(model: nn.Module, plan: Plan, hooks: Hooks) -> Applied:
    """Cut the model as the plan says; the members of the unit have met as torch's default group."""
    hooks.check(plan)
    if plan.unit == 1:
        return Applied(WithLoss(model, hooks.loss) if hooks.loss else model)
    names, device = _names(model), _device(model)
    mesh = _mesh(plan, device)
    if plan.pipeline > 1:
        model = _cut(hooks.pipeline, model, mesh["pipeline"])
    if plan.tensor > 1:
        model = _cut(hooks.tensor, model, mesh["tensor"])
    if plan.shard > 1:
        _shard(model, mesh["shard"], hooks.block)
    elsewhere = names - _names(model)
    if plan.pipeline > 1:
        assert hooks.loss is not None
        made = Pipelined(model, mesh["pipeline"], hooks.loss, plan.micro_batches, device)
        return Applied(made, elsewhere)
    return Applied(WithLoss(model, hooks.loss) if hooks.loss else model, elsewhere)


def meet(contact: Contact, device: torch.device) -> None:
    """Torch's default group is the inside of a unit, and nothing else."""
    place = contact.worker % contact.shard
    first = contact.worker - place
    store = AgentStore(contact, f"unit-{first}/", timedelta(seconds=INSIDE_SECONDS))
    _STORES.append(store)
    dist.init_process_group(
        inside(device),
        store=store,
        rank=place,
        world_size=contact.shard,
        timeout=timedelta(seconds=INSIDE_SECONDS),
    )


def _mesh(plan: Plan, device: torch.device) -> Any:  # noqa: ANN401 - of torch, loaded here
    from torch.distributed.device_mesh import init_device_mesh

    degrees = {"pipeline": plan.pipeline, "shard": plan.shard, "tensor": plan.tensor}
    used = {name: degree for name, degree in degrees.items() if degree > 1}
    return init_device_mesh(device.type, tuple(used.values()), mesh_dim_names=tuple(used))


def _cut(cut: Any, model: nn.Module, mesh: Any) -> nn.Module:  # noqa: ANN401 - as above
    """A function may change the model in place, and then has nothing to give back."""
    made = cut(model, mesh)
    if made is None:
        return model
    if not isinstance(made, nn.Module):
        raise SpecError(
            f"a function of plans={{...}} gave a {type(made).__name__}",
            hint="let it return the module, or change it in place and return nothing",
        )
    return made


def _shard(model: nn.Module, mesh: Any, block: type[nn.Module] | None) -> None:  # noqa: ANN401
    from torch.distributed.fsdp import fully_shard

    for layer in [m for m in model.modules() if block is not None and isinstance(m, block)]:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


def _names(model: nn.Module) -> frozenset[str]:
    """Of all that has a name of its own, whoever holds it."""
    found = [*model.named_parameters(), *model.named_buffers()]
    return frozenset(clean(name) for name, _ in found)


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
