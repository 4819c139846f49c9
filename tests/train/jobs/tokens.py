"""A mean over tokens of samples that differ in length; the last line tells the weights."""

import json
import os
from pathlib import Path

import torch
from torch import nn

import weft

folder = Path(os.environ.get("WEFT_TEST_OUT", "."))
worker = os.environ.get("WEFT_WORKER", "alone")
generator = torch.Generator().manual_seed(1)
x, y = (torch.randn(64, 32, 8, generator=generator) for _ in range(2))
mask = (torch.arange(32) < torch.tensor([1 + 7 * i % 29 for i in range(64)])[:, None]).float()
torch.manual_seed(0)
model, opt = weft.prepare(nn.Linear(8, 8), lambda p: torch.optim.SGD(p, lr=0.3))
loader = weft.loader(torch.utils.data.TensorDataset(x, y, mask), global_batch=9, micro=3)
for rows, wanted, counts in weft.steps(loader, total=12):
    wrong = (model(rows) - wanted).square().mean(-1)
    weft.backward((wrong * counts).sum() / counts.sum(), weight=counts.sum())
    opt.step()
    opt.zero_grad()
held = model.get_parameter("weight")
whole = held.full_tensor() if hasattr(held, "full_tensor") else held
with (folder / f"steps-{worker}.jsonl").open("a") as log:
    weights = whole.flatten().tolist()
    log.write(json.dumps({"worker": worker, "final": True, "weights": weights}) + "\n")
