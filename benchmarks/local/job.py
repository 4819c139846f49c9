"""A small network on data that comes slowly: how fast it trains follows from its width alone.

Each sample takes `latency` seconds to read, so a step takes what the worker's share of the batch
does; computing is next to nothing. Each worker tells when its first and its last step were done,
and at the end the loss over all samples.
"""

import argparse
import json
import time

import torch
from torch import nn
from torch.utils.data import Dataset

import weft

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--batch", type=int, default=12)
parser.add_argument("--latency", type=float, default=0.0)
options = parser.parse_args()
torch.set_num_threads(1)


class Slow(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Samples that can be learnt from, each a moment away."""

    def __init__(self, samples: int = 96) -> None:
        generator = torch.Generator().manual_seed(options.seed)
        self.x = torch.randn(samples, 8, generator=generator)
        self.y = self.x.sum(1, keepdim=True).sin()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(options.latency)
        return self.x[index], self.y[index]


torch.manual_seed(options.seed)
network = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
model, opt = weft.prepare(network, lambda parameters: torch.optim.AdamW(parameters, 1e-2))
data = Slow()
times: list[float] = []
for mb in weft.steps(weft.loader(data, options.batch, seed=options.seed), total=options.steps):
    loss = nn.functional.mse_loss(model(mb.x), mb.y)
    weft.backward(loss)
    opt.step()
    opt.zero_grad()
    weft.metric(loss=loss.item())
    if weft.stepped() and not mb.warmup:
        times = [times[0] if times else time.time(), time.time()]

if times:
    print(json.dumps({"first": times[0], "last": times[1]}), flush=True)
model.eval()
with torch.no_grad():
    loss = nn.functional.mse_loss(model(data.x), data.y)
print(json.dumps({"final": loss.item()}), flush=True)
