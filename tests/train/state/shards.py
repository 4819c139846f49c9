"""A worker of a sharded training (FSDP2), run as a program by the test of snapshots.

    shards.py <rank> <world> <folder> <source> <first step> <last step>

It loads `source`, says what the whole state is, trains on, takes a snapshot, and says it again: the
digest of every tensor, put together from all shards, in `<folder>/<when>-<rank>.json`.
"""

import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from weft.train.state.book import StateBook
from weft.train.state.snapshot import Snapshots, load


def a_model(seed: int) -> nn.Sequential:
    """Odd sizes, so that shards are uneven, and one that is smaller than the world."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.Linear(3, 1))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    """All workers see the same samples, so that their mean gradient is that of one worker."""
    for step in steps:
        torch.manual_seed(step)
        optimizer.zero_grad()
        model(torch.randn(8, 5)).square().mean().backward()
        optimizer.step()


def digests(book: StateBook) -> dict[str, str]:
    """Of each tensor as a whole."""
    found = {}
    for name, tensor in book._live(book._named(), book._objects()).items():
        whole: Any = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
        data = whole.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        found[name] = sha256(data).hexdigest()
    return found


def say(book: StateBook, folder: Path, when: str, rank: int) -> None:
    (folder / f"{when}-{rank}.json").write_text(json.dumps(digests(book)))


def main(rank: int, world: int, folder: Path, source: Path, steps: range) -> None:
    meeting = f"file://{folder}/meeting"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world)
    model = a_model(seed=99)
    mesh = init_device_mesh("cpu", (world,))
    for layer in model:
        if any(True for _ in layer.parameters()):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), 0.05)
    book = StateBook(model, optimizer)
    load(book, source)
    say(book, folder, "loaded", rank)
    train(model, optimizer, steps)
    snapshots = Snapshots(folder, rank, book, job="job", incarnation=1)
    snapshots.prepare()
    assert snapshots.take(steps.stop, steps.stop * 8, epoch=1) is not None
    snapshots.close()
    say(book, folder, "trained", rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    number, of, where, start, first, last = sys.argv[1:]
    main(int(number), int(of), Path(where), Path(start), range(int(first), int(last)))
