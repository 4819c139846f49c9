"""Small models that really train on the CPU, and what they hold while they do.

Groups of processes are PyTorch's pretended ones, which answer without anybody else being there: so
one process sees what rank 0 of many would hold.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate, chain

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.checkpoint import checkpoint

from weft.model.shape import ModelShape


class Block(nn.Module):
    """Attention and an inner layer, norms before both."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        hidden, inner = shape.hidden, shape.inner
        self.of_head = hidden // shape.attention_heads
        self.first, self.second = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.q, self.k, self.v = (nn.Linear(hidden, hidden) for _ in range(3))
        self.out = nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, inner), nn.Linear(inner, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        q, k, v = (
            part(y).unflatten(-1, (-1, self.of_head)).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        out: torch.Tensor = x + self.down(functional.gelu(self.up(self.second(x))))
        return out


class Stage(nn.Module):
    """Some of the blocks, with the embedding before the first and the head behind the last."""

    def __init__(
        self,
        shape: ModelShape,
        *,
        blocks: int,
        embeds: bool = True,
        heads: bool = True,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        self.recompute = recompute
        self.embedding = nn.Embedding(shape.vocabulary, shape.hidden) if embeds else None
        self.blocks = nn.ModuleList(Block(shape) for _ in range(blocks))
        self.norm = nn.LayerNorm(shape.hidden) if heads else None
        self.head = nn.Linear(shape.hidden, shape.vocabulary, bias=False) if heads else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.embedding(x) if self.embedding is not None else x
        for block in self.blocks:
            y = checkpoint(block, y, use_reentrant=False) if self.recompute else block(y)
        if self.norm is not None and self.head is not None:
            y = self.head(self.norm(y))
        out: torch.Tensor = y
        return out


def parameters(shape: ModelShape) -> int:
    """As PyTorch counts them."""
    with torch.device("meta"):
        whole = Stage(shape, blocks=shape.layers)
    return sum(one.numel() for one in whole.parameters())


def tokens(shape: ModelShape, samples: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, shape.vocabulary, (samples, shape.sequence), generator=generator)


def loss_of(stage: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """Cross-entropy behind a head; any number elsewhere, which keeps nothing of its own."""
    outputs: torch.Tensor = stage(inputs)
    if getattr(stage, "head", None) is None:
        return outputs.sum()
    return functional.cross_entropy(outputs.flatten(0, 1), inputs.flatten())


def bytes_of(tensors: Iterator[torch.Tensor]) -> int:
    return sum(_local(one).numel() * one.element_size() for one in tensors)


def state_bytes(model: nn.Module, inputs: torch.Tensor) -> tuple[int, int, int]:
    """Weights, gradients and moments after one real step of AdamW."""
    optimizer = torch.optim.AdamW(model.parameters())
    torch.autograd.backward(loss_of(model, inputs))
    optimizer.step()
    gradients = [one.grad for one in model.parameters() if one.grad is not None]
    moments = chain.from_iterable(
        (kept["exp_avg"], kept["exp_avg_sq"]) for kept in optimizer.state.values()
    )
    return bytes_of(model.parameters()), bytes_of(iter(gradients)), bytes_of(moments)


def kept_bytes(model: nn.Module, forward: Callable[[], object]) -> int:
    """Activations that autograd holds at the end of a forward pass, each storage once."""
    own = {_local(one).untyped_storage().data_ptr() for one in model.parameters()}
    held: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = _local(tensor).untyped_storage()
        if storage.data_ptr() not in own:
            held[storage.data_ptr()] = storage
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        alive = forward()
    assert alive is not None
    return sum(storage.nbytes() for storage in held.values())


def peak_bytes(model: nn.Module, inputs: torch.Tensor) -> int:
    """The most that one step allocates besides weights, gradients and moments, all there before.

    PyTorch's profiler tells every allocation on the CPU; their running sum has its peak.
    """
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step() -> None:
        torch.autograd.backward(loss_of(model, inputs))
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    step()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step()
    assert seen.profiler is not None and seen.profiler.kineto_results is not None
    events = [one for one in seen.profiler.kineto_results.events() if one.name() == "[memory]"]
    events.sort(key=lambda one: one.start_ns())
    sizes: list[int] = [one.nbytes() for one in events]
    return max(accumulate(sizes))


@contextmanager
def pretended(world: int) -> Iterator[DeviceMesh]:
    """Rank 0 among so many that are not there."""
    dist.init_process_group("fake", rank=0, world_size=world, store=FakeStore())
    try:
        yield init_device_mesh("cpu", (world,))
    finally:
        dist.destroy_process_group()


def split(stage: Stage, mesh: DeviceMesh) -> None:
    """Tensor parallelism over the blocks."""
    columns, rows = ("q", "k", "v", "up"), ("out", "down")
    plan: dict[str, ParallelStyle] = {name: ColwiseParallel() for name in columns}
    plan.update({name: RowwiseParallel() for name in rows})
    for block in stage.blocks:
        parallelize_module(block, mesh, plan)


def _local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
