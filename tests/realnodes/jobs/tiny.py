"""A job of a few parameters whose every step leaves a line beside its checkpoints.

One line for each step that counts, from the worker that is first then: its number, how many train,
the start they belong to, and when. Whoever reads them knows whether a step was lost or done twice.
The first may die between a step and its line; the others bear witness that the step was done.
"""

import argparse
import os
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

import weft
from weft.train.api import current
from weft.train.session import Session

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--pause", type=float, default=0.1, help="Seconds of a step, at any width.")
parser.add_argument("--sample", type=float, default=0.0, help="Seconds of each sample of a share.")
parser.add_argument("--read", type=float, default=0.0, help="Seconds that a batch is read.")
parser.add_argument("--compute", type=float, default=0.0, help="Seconds that a GPU would compute.")
options = parser.parse_args()


class Samples(TensorDataset):
    """To read a batch of them takes its time."""

    def __getitems__(self, ids: list[int]) -> list[tuple[torch.Tensor, ...]]:
        time.sleep(options.read)
        return [self[one] for one in ids]


torch.set_num_threads(1)
torch.manual_seed(0)
inputs = torch.randn(256, 8)
model, opt = weft.prepare(
    nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)),
    lambda parameters: torch.optim.AdamW(parameters, 1e-2),
)
loader = weft.loader(Samples(inputs, inputs.sum(1, keepdim=True).sin()), global_batch=12)
folder = Path(os.environ["WEFT_CHECKPOINT_PATH"])
log = (folder / "steps.txt").open("a", buffering=1)
witness = (folder / f"witness-{os.uname().nodename}-{os.getpid()}.txt").open("a", buffering=1)
(folder / "gpus.txt").write_text(os.environ.get("WEFT_TEST_GPUS", ""))


def line(session: Session) -> str:
    """What is known of the step that was just done."""
    return (
        f"{session.committed} {session.width} {os.environ['WEFT_INCARNATION']} {time.time():.3f}\n"
    )


for mb in weft.steps(loader, total=options.steps):
    x, y = mb.x, mb.y
    loss = nn.functional.mse_loss(model(x), y)
    time.sleep(options.compute)
    weft.backward(loss)
    if not (folder / "hurry").exists():
        time.sleep(options.pause + options.sample * len(x))
    opt.step()
    opt.zero_grad()
    if weft.stepped() and not mb.warmup:
        weft.metric(loss=loss.item())
        if weft.first():
            log.write(line(current()))
        else:
            witness.write(line(current()))
