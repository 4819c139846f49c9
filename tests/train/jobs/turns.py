"""A job that tells when it computes, waits for its turn and meets its peers, on one clock."""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

import weft
from weft.agent.messages import Granted, Turn
from weft.train.api import current
from weft.train.company.lease_line import LeaseLine
from weft.train.stages import Stage

parser = argparse.ArgumentParser()
parser.add_argument("--total", type=int, default=40)
parser.add_argument("--compute", type=float, default=0.004, help="seconds of each forward pass")
parser.add_argument("--micro", type=int, default=None)
parser.add_argument("--until", default="", help="go on until there is such a file")
parser.add_argument("--move", action="store_true", help="copy each batch to the device")
options = parser.parse_args()

worker = os.environ.get("WEFT_WORKER", "alone")
out = Path(os.environ.get("WEFT_TEST_OUT", "."))
torch.manual_seed(1)
model, opt = weft.prepare(nn.Linear(8, 1), lambda p: torch.optim.SGD(p, 0.01))
loader = weft.loader(TensorDataset(torch.ones(64, 8)), 8, micro=options.micro)
session = current()
entered: list[tuple[str, float]] = []
granted: list[Granted] = []
enter, ask = session.stages.enter, LeaseLine.ask


def enter_and_tell(stage: Stage) -> None:
    """A turn is had from behind the border where it is asked for to before that of its end."""
    before = time.monotonic()
    enter(stage)
    began = stage in (Stage.FORWARD, Stage.H2D)
    entered.append((stage.value, time.monotonic() if began else before))


def ask_and_tell(
    self: LeaseLine, folder: str, turn: Turn, given_up: Callable[[], bool]
) -> Granted | None:
    answer = ask(self, folder, turn, given_up)
    if answer is not None and self._part == "loop":
        granted.append(answer)
    return answer


session.stages.enter = enter_and_tell  # type: ignore[method-assign]
LeaseLine.ask = ask_and_tell  # type: ignore[method-assign]


def compute() -> None:
    end = time.monotonic() + options.compute
    while time.monotonic() < end:
        pass


with (out / f"steps-{worker}.jsonl").open("a") as lines:
    for mb in weft.steps(loader, total=options.total):
        (x,) = mb.to("cpu") if options.move else mb
        if not mb.warmup:
            compute()
        weft.backward(model(x).square().mean())
        opt.step()
        if mb.last and not mb.warmup:
            told = {
                "worker": int(worker) if worker.isdigit() else worker,
                "step": mb.step,
                "epoch": session._groups.epoch,
                "stepped": weft.stepped(),
                "entered": entered,
                "granted": [one.at_seconds for one in granted],
                "breached": sum(one.breach for one in granted),
            }
            lines.write(json.dumps(told) + "\n")
            lines.flush()
            entered, granted = [], []
            if options.until and Path(options.until).exists():
                break
