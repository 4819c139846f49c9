"""A small decoder-only language model that learns its own source text, byte by byte.

    python examples/lm.py                                        # one process, plain PyTorch
    python -m weft.agent run -n 2 examples/lm.py                 # two replicas
    python -m weft.agent run -n 4 --shard 2 examples/lm.py       # two replicas of two (FSDP2)

It shows what the five lines leave out: a learning-rate schedule, gradient clipping, micro-batches,
figures for whoever looks at the job, and the layer that a sharded plan gathers one at a time.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

import weft

parser = argparse.ArgumentParser(description="A language model of bytes.")
parser.add_argument("--steps", type=int, default=300, help="optimizer steps")
parser.add_argument("--batch", type=int, default=32, help="samples of a step, over all workers")
parser.add_argument("--micro", type=int, default=None, help="the most that a worker takes at once")
parser.add_argument("--context", type=int, default=64, help="bytes of a sample")
parser.add_argument("--width", type=int, default=64, help="of the model")
parser.add_argument("--layers", type=int, default=2)
parser.add_argument("--heads", type=int, default=4)
options = parser.parse_args()


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
    """Attention to what came before, then a perceptron."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.think = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.mix(self.before(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.think(self.between(x))


class Decoder(nn.Module):
    """Bytes in, scores of the next byte out."""

    def __init__(self, width: int, layers: int, heads: int, context: int) -> None:
        super().__init__()
        self.byte, self.place = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.byte(x) + self.place(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(self.norm(hidden))


def loss_of(scores: Tensor, wanted: Tensor) -> Tensor:
    return nn.functional.cross_entropy(scores.flatten(0, 1), wanted.flatten())


def pace(step: int) -> float:
    """The learning rate rises over 20 steps and falls to a tenth at the end."""
    return min((step + 1) / 20, 1 - 0.9 * step / max(options.steps, 1))


torch.manual_seed(0)
text = Windows(Path(__file__).read_bytes(), options.context)
model, opt, sched = weft.prepare(
    Decoder(options.width, options.layers, options.heads, options.context),
    lambda parameters: torch.optim.AdamW(parameters, lr=3e-3),
    lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, pace),
    block=Block,
)
loader = weft.loader(text, global_batch=options.batch, micro=options.micro)

for mb in weft.steps(loader, total=options.steps):
    loss = loss_of(model(mb.x), mb.y)
    weft.backward(loss)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    opt.zero_grad()
    sched.step()
    if weft.stepped():
        weft.metric(loss=loss.item())
        if weft.first() and mb.step % 50 == 0:
            print(f"step {mb.step}: loss {loss:.4f}", flush=True)

model.eval()
with torch.no_grad():  # by all workers: a sharded model computes only together
    some = [text[index] for index in range(0, len(text), options.context)]
    loss = loss_of(model(torch.stack([x for x, _ in some])), torch.stack([y for _, y in some]))
if weft.first():
    print(f"loss {loss:.4f}")
