"""The language model of the examples under any plan, in pods; every step leaves lines.

It lies beside a copy of `examples/plans.py`, called `lm.py`. What is told of a step is what
`tests.train.lines` reads: the samples that each worker took, and whether the step counted.
"""

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

SAMPLES, CONTEXT, BATCH, PAUSE_SECONDS = 160, 16, 8, 0.33
folder = Path(os.environ["WEFT_CHECKPOINT_PATH"])
worker = os.environ["WEFT_WORKER"]
log = (folder / f"steps-{worker}.jsonl").open("a", buffering=1)


def write(**facts: object) -> None:
    log.write(json.dumps({"worker": worker, "time": time.time(), **facts}) + "\n")


def first_of_its_copies() -> bool:
    session = current()
    place = session.rank % session.plan.unit
    return place // (session.plan.shard * session.plan.tensor) == place % session.plan.tensor == 0


torch.set_num_threads(1)
torch.manual_seed(0)
model, opt = weft.prepare(
    Decoder(16, 2, 4, CONTEXT),
    lambda parameters: torch.optim.AdamW(parameters, 1e-2),
    block=Block,
    plans={"tensor": by_tensors, "pipeline": by_stages},
    loss=loss_of,
)
text = Windows(bytes(range(32, 32 + 80)) * 6, CONTEXT)
text.bytes = text.bytes[: SAMPLES + CONTEXT]
for mb in weft.steps(weft.loader(text, BATCH, seed=3), total=20_000):
    session = current()
    idle = mb.warmup or not session.share_weight or not first_of_its_copies()
    epoch = session._turn_epoch
    loss = model(mb.x, mb.y)
    weft.backward(loss)
    time.sleep(PAUSE_SECONDS / session.width)
    took = [] if idle else [number % SAMPLES for number in mb.ids]
    write(took=took, of=mb.step, epoch=epoch)
    opt.step()
    opt.zero_grad()
    stepped = weft.stepped() and not mb.warmup
    write(
        step=session.committed if stepped else mb.step,
        stepped=stepped,
        epoch=epoch,
        width=session.width,
        plan=str(session.plan),
        life=int(os.environ["WEFT_INCARNATION"]),
    )
    weft.metric(loss=loss.item())
