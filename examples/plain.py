"""A plain torch.distributed script: it knows nothing of Weft, and needs nothing of it.

    python examples/plain.py --checkpoint /tmp/plain.pt                         # one process
    python -m weft.agent run -n 2 examples/plain.py --checkpoint /tmp/plain.pt  # two of them

It finds its rank and peers in the environment, as torchrun would have told it, writes a checkpoint
of its own, and on SIGTERM ends at a step's border with exit code 143. Started again, at any width,
it goes on from the checkpoint. docs/plain-scripts.md tells what Weft does with such a job.
"""

import argparse
import os
import signal
import sys
import threading
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

DRAINED = 143

parser = argparse.ArgumentParser(description="A job that only knows torch.")
parser.add_argument("--steps", type=int, default=300, help="optimizer steps")
parser.add_argument("--batch", type=int, default=32, help="samples of a step, over all ranks")
parser.add_argument("--checkpoint", type=Path, help="written every so often, read at the start")
parser.add_argument("--every", type=int, default=50, help="steps between two checkpoints")
options = parser.parse_args()

rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
asked_to_stop = threading.Event()
signal.signal(signal.SIGTERM, lambda number, frame: asked_to_stop.set())


def samples(step: int) -> tuple[Tensor, Tensor]:
    """This rank's part of a step's batch."""
    chance = torch.Generator().manual_seed(step)
    x = torch.randn((options.batch, 8), generator=chance)
    return x[rank::world], x[rank::world].sum(1, keepdim=True).sin()


def stopping() -> bool:
    """Whether any rank was asked to stop: all hear of it in the same step."""
    flag = torch.tensor(int(asked_to_stop.is_set()))
    if world > 1:
        dist.all_reduce(flag, dist.ReduceOp.MAX)
    return bool(flag)


def save(step: int) -> None:
    """A checkpoint is there as a whole or not at all."""
    if rank or options.checkpoint is None:
        return
    state = {"step": step, "model": model.state_dict(), "optimizer": opt.state_dict()}
    unfinished = options.checkpoint.with_suffix(".tmp")
    torch.save(state, unfinished)
    unfinished.replace(options.checkpoint)


def load() -> int:
    """The step to begin with."""
    if options.checkpoint is None or not options.checkpoint.exists():
        return 0
    state = torch.load(options.checkpoint, weights_only=True)
    model.load_state_dict(state["model"])
    opt.load_state_dict(state["optimizer"])
    return int(state["step"])


if world > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
trained = nn.parallel.DistributedDataParallel(model) if world > 1 else model
opt = torch.optim.Adam(model.parameters(), lr=1e-2)

begun = load()
print(f"rank {rank} of {world} begins with step {begun}", flush=True)
for step in range(begun, options.steps):
    x, y = samples(step)
    loss = nn.functional.mse_loss(trained(x), y)
    loss.backward()
    opt.step()
    opt.zero_grad()
    if stopping():
        save(step + 1)
        print(f"rank {rank} of {world} stops after step {step}", flush=True)
        sys.exit(DRAINED)
    if (step + 1) % options.every == 0:
        save(step + 1)
save(options.steps)

x, y = samples(options.steps)
if rank == 0:
    print(f"loss {nn.functional.mse_loss(model(x), y):.4f}")
if world > 1:
    dist.destroy_process_group()
