"""The language model of the examples under any plan, in pods; every step leaves lines.

It lies beside a copy of `examples/plans.py`, called `lm.py`. What is told of a step is what
`tests.train.lines` reads: the samples that each worker took, and whether the step counted. With
`--pace` a step takes as long as one under its plan is foretold to take.
"""

import argparse
import json
import os
import time
from pathlib import Path

import torch
from lm import (  # type: ignore[import-not-found]  # beside it on the volume
    Block,
    Decoder,
    Windows,
    by_stages,
    by_tensors,
    loss_of,
)

import weft
from weft.train.api import current

CONTEXT, PAUSE_SECONDS = 16, 0.33
parser = argparse.ArgumentParser()
parser.add_argument("--samples", type=int, default=160)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--heads", type=int, default=4)
parser.add_argument("--pace", nargs="*", default=[], help="PLAN:SECONDS, a step's least")
options = parser.parse_args()
paces = dict(one.rsplit(":", 1) for one in options.pace)
folder = Path(os.environ["WEFT_CHECKPOINT_PATH"])
worker = os.environ["WEFT_WORKER"]
log = (folder / f"steps-{worker}.jsonl").open("a", buffering=1)


def write(**facts: object) -> None:
    log.write(json.dumps({"worker": worker, "time": time.time(), **facts}) + "\n")


def keep_pace(since: float) -> None:
    """As long as a step takes; without a word on that, a pause that workers share."""
    session, pause = current(), 0.0 if paces else PAUSE_SECONDS
    least = float(paces.get(str(session.plan), 0.0))
    time.sleep(max(since + least - time.monotonic(), pause / session.width))


def first_of_its_copies() -> bool:
    session = current()
    place = session.rank % session.plan.unit
    return place // (session.plan.shard * session.plan.tensor) == place % session.plan.tensor == 0


torch.set_num_threads(1)
torch.manual_seed(0)
model, opt = weft.prepare(
    Decoder(16, 2, options.heads, CONTEXT),
    lambda parameters: torch.optim.AdamW(parameters, 1e-2),
    block=Block,
    plans={"tensor": by_tensors, "pipeline": by_stages},
    loss=loss_of,
)
text = Windows(bytes(range(32, 32 + 80)) * 6, CONTEXT)
text.bytes = text.bytes[: options.samples + CONTEXT]
ended = time.monotonic()
for mb in weft.steps(weft.loader(text, options.batch, seed=3), total=20_000):
    session = current()
    idle = mb.warmup or not session.share_weight or not first_of_its_copies()
    epoch = session._turn_epoch
    loss = model(mb.x, mb.y)
    weft.backward(loss)
    keep_pace(ended)
    took = [] if idle else [number % options.samples for number in mb.ids]
    write(took=took, of=mb.step, epoch=epoch)
    opt.step()
    opt.zero_grad()
    stepped, ended = weft.stepped() and not mb.warmup, time.monotonic()
    write(
        step=session.committed if stepped else mb.step,
        stepped=stepped,
        epoch=epoch,
        width=session.width,
        plan=str(session.plan),
        life=int(os.environ["WEFT_INCARNATION"]),
    )
    weft.metric(loss=loss.item())
