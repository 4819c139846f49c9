"""Passes over the data with figures of all workers, in the loop and behind it."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

import weft
from weft.train.api import current

kind, passes, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
folder = Path(os.environ.get("WEFT_TEST_OUT", "."))
worker = os.environ.get("WEFT_WORKER", "0")
log = (folder / f"steps-{worker}.jsonl").open("a", buffering=1)

generator = torch.Generator().manual_seed(1)
table = TensorDataset(*(torch.randn(50, 4, generator=generator) for _ in range(2)))
torch.manual_seed(0)
model, opt = weft.prepare(nn.Linear(4, 4), lambda p: torch.optim.SGD(p, 1e-2))
loader = weft.loader(table, 12)


def write(**facts: object) -> None:
    log.write(json.dumps({"time": time.monotonic(), "worker": worker, **facts}) + "\n")


for epoch in range(passes):
    for mb in weft.steps(loader):
        loss = nn.functional.mse_loss(model(mb.x), mb.y)
        weft.backward(loss)
        opt.step()
        if kind == "unguarded":
            weft.mean(loss)
        if not weft.stepped() or mb.warmup:
            continue
        if kind == "one" and weft.first():
            weft.mean(loss)
        whole = float(weft.mean(loss, weight=mb.samples)) if kind == "inside" else 0.0
        write(step=current().committed, stepped=True, loss=whole, width=current().width)
        if not (folder / "hurry").exists():
            time.sleep(pause)
    if kind != "behind" or not weft.stepped():
        continue
    if epoch == 1 and worker == "0" and len(sys.argv) > 4:
        os.kill(os.getpid(), signal.SIGKILL)
    found = weft.gather(torch.full((int(worker) + 1, 120_000), float(worker)))
    write(
        evaluated=epoch,
        steps=current().step,
        sizes=[len(one) for one in found],
        values=[[one.min().item(), one.max().item()] for one in found],
        mean=weft.mean(float(worker)),
    )
write(final=True, steps=current().step, digest=current().book.digest())
