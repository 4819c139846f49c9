"""A small language model that can be replicated, sharded, split by tensors and cut into stages.

    python examples/plans.py                                                # one process
    python -m weft.agent run -n 2 --folder /tmp/try examples/plans.py       # two replicas
    python -m weft.agent tell /tmp/try plan tensor=2                        # and while they train:
    python -m weft.agent tell /tmp/try plan shard=2
    python -m weft.agent tell /tmp/try plan pipeline=2,micro_batches=2
    python -m weft.agent tell /tmp/try plan replicated

Two functions say where this model can be cut, and torch's own parts cut it. All else is as in
`lm.py`.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.utils.data import Dataset

import weft


class Windows(Dataset[tuple[Tensor, Tensor]]):
    """Every window of a text, and the same window one byte further."""

    def __init__(self, text: bytes, length: int) -> None:
        self.bytes = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
        self.length = length

    def __len__(self) -> int:
        return len(self.bytes) - self.length

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        window = self.bytes[index : index + self.length + 1]
        return window[:-1], window[1:]


class Block(nn.Module):
    """Attention to what came before, then a perceptron; heads are counted by their size."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.size = width // heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        seen = self.before(x)
        query, key, value = (
            part(seen).unflatten(-1, (-1, self.size)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        heads = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(heads.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.between(x))))


class Decoder(nn.Module):
    """Bytes in, scores of the next byte out; a stage has only some of its parts."""

    def __init__(self, width: int, layers: int, heads: int, context: int) -> None:
        super().__init__()
        self.byte: nn.Module | None = nn.Embedding(256, width)
        self.place: nn.Module | None = nn.Embedding(context, width)
        self.blocks = nn.ModuleDict({str(n): Block(width, heads) for n in range(layers)})
        self.norm: nn.Module | None = nn.LayerNorm(width)
        self.head: nn.Module | None = nn.Linear(width, 256)

    def forward(self, x: Tensor) -> Tensor:
        if self.byte is not None and self.place is not None:
            x = self.byte(x) + self.place(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks.values():
            x = block(x)
        return self.head(self.norm(x)) if self.head is not None and self.norm is not None else x


def by_tensors(model: Decoder, mesh: DeviceMesh) -> None:
    """Heads and the inner layer are dealt out; what comes of them is summed."""
    apart = {name: ColwiseParallel() for name in ("query", "key", "value", "up")}
    summed = {name: RowwiseParallel() for name in ("out", "down")}
    for block in model.blocks.values():
        parallelize_module(block, mesh, {**apart, **summed})


def by_stages(model: Decoder, mesh: DeviceMesh) -> None:
    """An equal part of the layers; the first stage reads bytes, and the last one scores."""
    stage, stages = mesh.get_local_rank(), mesh.size()
    for number in range(count := len(model.blocks)):
        if number * stages // count != stage:
            del model.blocks[str(number)]
    if stage > 0:
        model.byte = model.place = None
    if stage < stages - 1:
        model.norm = model.head = None


def loss_of(scores: Tensor, wanted: Tensor) -> Tensor:
    return nn.functional.cross_entropy(scores.flatten(0, 1), wanted.flatten())


def main() -> None:
    parser = argparse.ArgumentParser(description="A language model of bytes, under any plan.")
    parser.add_argument("--steps", type=int, default=300, help="optimizer steps")
    parser.add_argument("--batch", type=int, default=32, help="samples of a step, over all workers")
    parser.add_argument("--context", type=int, default=64, help="bytes of a sample")
    parser.add_argument("--width", type=int, default=64, help="of the model")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=4)
    options = parser.parse_args()

    torch.manual_seed(0)
    model, opt = weft.prepare(
        Decoder(options.width, options.layers, options.heads, options.context),
        lambda parameters: torch.optim.AdamW(parameters, lr=3e-3),
        block=Block,
        plans={"tensor": by_tensors, "pipeline": by_stages},
        loss=loss_of,
    )
    text = Windows(Path(__file__).read_bytes(), options.context)
    loader = weft.loader(text, global_batch=options.batch)

    for x, y in weft.steps(loader, total=options.steps):
        loss = model(x, y)
        weft.backward(loss)
        opt.step()
        opt.zero_grad()
        if weft.stepped():
            weft.metric(loss=loss.item())
    if weft.first():
        print(f"loss {loss:.4f}")


if __name__ == "__main__":
    main()
