"""A job whose scaling is what it is told to be, so that four different ones fit on two cores.

A step takes `serial` seconds that no width shortens, `sample` seconds for each sample of a worker's
share, as a GPU would compute them, and `peer` seconds for each other worker, as a network would
carry their gradients. The network that is trained is small and real. Whoever is first writes a line
for each step that counts: its number, how many trained, and when it was done.
"""

import argparse
import json
import time

import torch
from torch import nn
from torch.utils.data import TensorDataset

import weft
from weft.train.api import current

BATCH = 12

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--serial", type=float, default=0.0)
parser.add_argument("--sample", type=float, default=0.0)
parser.add_argument("--peer", type=float, default=0.0)
options = parser.parse_args()
torch.set_num_threads(1)
torch.manual_seed(0)
inputs = torch.randn(96, 8)
model, opt = weft.prepare(
    nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)),
    lambda parameters: torch.optim.AdamW(parameters, 1e-2),
)
data = TensorDataset(inputs, inputs.sum(1, keepdim=True).sin())
for mb in weft.steps(weft.loader(data, BATCH), total=options.steps):
    width = current().width
    loss = nn.functional.mse_loss(model(mb.x), mb.y)
    if not mb.warmup:
        time.sleep(options.serial + options.sample * len(mb.x) + options.peer * (width - 1))
    weft.backward(loss)
    opt.step()
    opt.zero_grad()
    weft.metric(loss=loss.item())
    if weft.stepped() and not mb.warmup and weft.first():
        told = {"step": current().committed, "width": width, "at": time.time()}
        print(json.dumps(told), flush=True)
