"""A script without a main guard: tells how often it runs, and what is imported late."""

import json
import os
import sys
from pathlib import Path

folder = Path(os.environ["WEFT_TEST_OUT"])
with (folder / "runs.txt").open("a") as runs:
    runs.write(os.environ["WEFT_WORKER"] + "\n")

import torch  # noqa: E402 - what counts is that the line above ran
from torch.utils.data import TensorDataset  # noqa: E402

import weft  # noqa: E402


def torch_modules() -> set[str]:
    return {name for name in list(sys.modules) if name.split(".")[0] in ("torch", "sympy")}


torch.manual_seed(0)
model, opt = weft.prepare(torch.nn.Linear(4, 1), lambda p: torch.optim.AdamW(p, 1e-2))
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
log = (folder / f"steps-{os.environ['WEFT_WORKER']}.jsonl").open("a", buffering=1)
warm: set[str] = set()
for mb in weft.steps(weft.loader(data, 8), total=int(sys.argv[1])):
    weft.backward(torch.nn.functional.mse_loss(model(mb.x), mb.y))
    opt.step()
    warm = torch_modules() if mb.warmup else warm
    late = sorted(torch_modules() - warm) if warm else []
    line = {"step": mb.step, "warmup": mb.warmup, "stepped": weft.stepped(), "late": late}
    log.write(json.dumps(line) + "\n")
    torch.set_num_threads(1)
    if not mb.warmup:
        os.sched_yield()
        __import__("time").sleep(0.02)
