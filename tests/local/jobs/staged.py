"""A job that reads for so long and computes for so long in each step, and writes each step down."""

import argparse
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

import weft

parser = argparse.ArgumentParser()
parser.add_argument("--read", type=float, required=True, help="seconds that a batch is read")
parser.add_argument("--compute", type=float, required=True, help="seconds of a forward pass")
parser.add_argument("--out", type=Path, required=True, help="each step is a line here")
parser.add_argument("--until", type=Path, required=True, help="it trains until there is this file")
options = parser.parse_args()


class Samples(Dataset[Tensor]):
    """All the same; to read a batch of them takes its time."""

    def __len__(self) -> int:
        return 1 << 20

    def __getitems__(self, ids: list[int]) -> list[Tensor]:
        time.sleep(options.read)
        return [torch.ones(8)] * len(ids)


def compute() -> None:
    end = time.monotonic() + options.compute
    while time.monotonic() < end:
        pass


model, opt = weft.prepare(nn.Linear(8, 1), lambda p: torch.optim.SGD(p, 0.01))
loader = weft.loader(Samples(), 8)
with options.out.open("a") as lines:
    for mb in weft.steps(loader, total=1_000_000):
        if not mb.warmup:
            compute()
        weft.backward(model(mb.x).square().mean())
        opt.step()
        if mb.last and not mb.warmup and weft.stepped():
            lines.write(f"{mb.step} {time.monotonic():.3f}\n")
            lines.flush()
        if options.until.exists():
            break
