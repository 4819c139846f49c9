"""Several loops in one script, with something between them, and something behind the last."""

import argparse
import json
import os
import signal
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

import weft
from weft.train.api import current

parser = argparse.ArgumentParser()
parser.add_argument("--loops", type=int, default=3)
parser.add_argument("--steps", type=int, default=8, help="of each loop")
parser.add_argument("--pause", type=float, default=0.0, help="in each step")
parser.add_argument("--between", type=float, default=0.0, help="seconds behind each loop")
parser.add_argument("--other", action="store_true", help="a loader of its own for each loop")
parser.add_argument("--leave", type=int, default=None, help="each loop before this step of it")
parser.add_argument("--hold", type=int, default=None, help="this step until there is a file `go`")
parser.add_argument("--late", action="store_true", help="leave behind opt.step(), not before it")
parser.add_argument("--kill", default="", help="first or second worker, once, behind the last loop")
parser.add_argument("--fail", action="store_true", help="by an error, once, where it would leave")
parser.add_argument("--export", type=float, default=0.0, help="seconds of what comes at the end")
options = parser.parse_args()
folder = Path(os.environ.get("WEFT_TEST_OUT", "."))
worker = os.environ.get("WEFT_WORKER", "alone")
log = (folder / f"steps-{worker}.jsonl").open("a", buffering=1)


def write(**facts: object) -> None:
    log.write(json.dumps({"time": time.monotonic(), "worker": worker, **facts}) + "\n")


def once(name: str) -> bool:
    """Whether nobody has done this before."""
    try:
        (folder / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def may_go() -> bool:
    return any((folder / name).exists() for name in ("go", "hurry"))


def pause(seconds: float) -> None:
    if not (folder / "hurry").exists():
        time.sleep(seconds)


generator = torch.Generator().manual_seed(1)
table = TensorDataset(*(torch.randn(160, 4, generator=generator) for _ in range(2)))
torch.manual_seed(0)
network = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
model, opt = weft.prepare(
    network, lambda p: torch.optim.AdamW(p, 1e-2), determinism="bitwise", logical=4
)
loader = weft.loader(table, 16, seed=3)


def leaves(step: int, number: int) -> bool:
    here = options.leave is not None and step - done >= options.leave
    if here and options.fail and number == options.loops - 1 and once("failed"):
        raise SystemExit(3)
    return here


def one_loop(number: int) -> None:
    """As a function of an own: what is left by `return` is left."""
    mine = weft.loader(table, 16, seed=number) if options.other else loader
    for mb in weft.steps(mine, total=done + options.steps):
        session = current()
        if not options.late and leaves(mb.step, number):
            return
        weft.backward(nn.functional.mse_loss(model(mb.x), mb.y))
        while mb.step == options.hold and not may_go():
            time.sleep(0.01)
        pause(options.pause)
        took = [] if mb.warmup or not session.share_weight else list(mb.ids)
        write(took=took, of=mb.step, epoch=session._turn_epoch)
        opt.step()
        opt.zero_grad()
        real = weft.stepped() and not mb.warmup
        step = session.committed if real else mb.step
        write(step=step, stepped=real, epoch=session._turn_epoch, loop=number, width=session.width)
        if options.late and real and leaves(step + 1, number):
            return


done = 0
for each in range(options.loops):
    one_loop(each)
    done += options.steps if options.leave is None else options.leave
    write(behind=each, stepped_there=weft.stepped(), committed=current().committed)
    pause(options.between)
if options.kill and worker == options.kill and once("killed"):
    os.kill(os.getpid(), signal.SIGKILL)
pause(options.export)
write(final=True, digest=current().book.digest(), steps=current().step)
