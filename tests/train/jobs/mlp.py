"""A small job whose every step leaves a line: which samples, which loss, which state."""

import argparse
import json
import os
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import Dataset

import weft
from weft.train.api import current

parser = argparse.ArgumentParser()
parser.add_argument("--total", type=int, default=40)
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--samples", type=int, default=160)
parser.add_argument("--hidden", type=int, default=32)
parser.add_argument("--layers", type=int, default=1)
parser.add_argument("--micro", type=int, default=None)
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument("--level", default="same_math")
parser.add_argument("--norm", action="store_true")
parser.add_argument("--dropout", type=float, default=0.0)
parser.add_argument("--digest", action="store_true")
parser.add_argument("--clip", type=float, default=0.0)
options = parser.parse_args()


class Table(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Samples that can be told apart and learnt from."""

    def __init__(self, samples: int) -> None:
        generator = torch.Generator().manual_seed(1)
        self.x = torch.randn(samples, 8, generator=generator)
        self.y = self.x.sum(1, keepdim=True).sin()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.x[index], self.y[index]


def network() -> nn.Module:
    """Deep enough to have several kinds of state."""
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Linear(8, options.hidden)]
    for _ in range(options.layers):
        layers += [nn.Tanh(), nn.Linear(options.hidden, options.hidden)]
        if options.norm:
            layers.append(nn.BatchNorm1d(options.hidden))
    return nn.Sequential(*layers, nn.Dropout(options.dropout), nn.Linear(options.hidden, 1))


model, opt, sched = weft.prepare(
    network(),
    lambda parameters: torch.optim.AdamW(parameters, 1e-2),
    lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99),
    determinism=options.level,
)
loader = weft.loader(Table(options.samples), options.batch, seed=3, micro=options.micro)
folder = Path(os.environ.get("WEFT_TEST_OUT", "."))
worker = os.environ.get("WEFT_WORKER", "alone")
log = (folder / f"steps-{worker}.jsonl").open("a", buffering=1)

for mb in weft.steps(loader, total=options.total):
    loss = nn.functional.mse_loss(model(mb.x), mb.y)
    weft.backward(loss)
    if options.clip:
        nn.utils.clip_grad_norm_(model.parameters(), options.clip)
    if options.pause:
        time.sleep(options.pause)
    opt.step()
    opt.zero_grad()
    sched.step()
    session = current()
    idle = mb.warmup or not session._share_weight
    line = {
        "time": time.monotonic(),
        "step": mb.step if not idle else session.committed,
        "ids": [] if idle else list(mb.ids),
        "warmup": mb.warmup,
        "stepped": weft.stepped(),
        "loss": loss.item(),
        "width": session.width,
        "epoch": session._groups.epoch,
    }
    if options.digest and weft.stepped():
        line["digest"] = session.book.digest()
    log.write(json.dumps(line) + "\n")
    weft.metric(loss=loss.item())

final = {"final": True, "digest": current().book.digest(), "worker": worker}
log.write(json.dumps(final) + "\n")
