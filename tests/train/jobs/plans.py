"""The language model of the examples under any plan; every step leaves lines.

With `--digest` each worker writes, before and after every step, the digest of each tensor that it
has a part in, as a whole: so what one plan ended with can be compared with what another began with.
"""

import argparse
import json
import os
import time
from pathlib import Path

import torch

import weft
from examples.plans import Block, Decoder, Windows, by_stages, by_tensors, loss_of
from tests.train.state.plan_cycle import held
from weft import crash
from weft.train.api import current

worker = os.environ.get("WEFT_WORKER", "alone")
life = int(os.environ.get("WEFT_INCARNATION", "0"))
crash._PLAN.__init__(os.environ.get(f"CRASH_{worker}", ""))  # type: ignore[misc]

parser = argparse.ArgumentParser()
parser.add_argument("--total", type=int, default=40)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--samples", type=int, default=160)
parser.add_argument("--width", type=int, default=16)
parser.add_argument("--layers", type=int, default=2)
parser.add_argument("--heads", type=int, default=4)
parser.add_argument("--context", type=int, default=16)
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument("--divided", action="store_true", help="the pause, among all workers")
parser.add_argument("--pace", nargs="*", default=[], help="PLAN:SECONDS, a step's least")
parser.add_argument("--sizes", action="store_true", help="say how large the state is")
parser.add_argument("--digest", action="store_true")
parser.add_argument("--communication", default="weft")
parser.add_argument("--fault", nargs="*", default=[], help="hang:PLAN, fail:PLAN, early:PLAN")
options = parser.parse_args()
folder = Path(os.environ.get("WEFT_TEST_OUT", "."))
paces = dict(one.rsplit(":", 1) for one in options.pace)
log = (folder / f"steps-{worker}.jsonl").open("a", buffering=1)


def write(**facts: object) -> None:
    """One line, written at once."""
    told = {"time": time.monotonic(), "worker": worker, "life": life, **facts}
    log.write(json.dumps(told) + "\n")


def misbehave(*, warmup: bool) -> None:
    """What a plan may do that does not work."""
    plan = str(current().plan)
    if f"hang:{plan}" in options.fault and not warmup:
        time.sleep(600)
    if f"{'early' if warmup else 'fail'}:{plan}" in options.fault:
        raise ValueError("this plan does not work")


def keep_pace(since: float) -> None:
    """A step takes as long as one under its plan is to take, whoever computes beside it."""
    least = float(paces.get(str(current().plan), 0.0))
    if not (folder / "hurry").exists():
        time.sleep(max(since + least - time.monotonic(), 0.0))


def first_of_its_copies() -> bool:
    session = current()
    place = session.rank % session.plan.unit
    return place // (session.plan.shard * session.plan.tensor) == place % session.plan.tensor == 0


torch.manual_seed(0)
model, opt = weft.prepare(
    Decoder(options.width, options.layers, options.heads, options.context),
    lambda parameters: torch.optim.AdamW(parameters, 1e-2),
    block=Block,
    communication=options.communication,
    plans={"tensor": by_tensors, "pipeline": by_stages},
    loss=loss_of,
)
text = Windows(bytes(range(32, 32 + 80)) * 6, options.context)
text.bytes = text.bytes[: options.samples + options.context]
loader = weft.loader(text, options.batch, seed=3)
write(began=os.getpid(), plan=str(current().plan))
if options.sizes:
    bytes_held = 3 * sum(p.numel() * p.element_size() for p in model.parameters())
    (folder / f"state-{worker}.json").write_text(json.dumps(bytes_held))
ended = time.monotonic()
for mb in weft.steps(loader, total=options.total):
    session = current()
    idle = mb.warmup or not session.share_weight or not first_of_its_copies()
    epoch, digest = session._turn_epoch, options.digest and not mb.warmup
    misbehave(warmup=mb.warmup)
    before = held(session.book) if digest else None
    loss = model(mb.x, mb.y)
    weft.backward(loss)
    if options.pause and not (folder / "hurry").exists():
        time.sleep(options.pause / (session.width if options.divided else 1))
    if paces and not mb.warmup:
        keep_pace(ended)
    took = [] if idle else [number % options.samples for number in mb.ids]
    write(took=took, of=mb.step, epoch=epoch)
    opt.step()
    opt.zero_grad()
    stepped, ended = weft.stepped() and not mb.warmup, time.monotonic()
    write(
        step=session.committed if stepped else mb.step,
        stepped=stepped,
        warmup=mb.warmup,
        epoch=epoch,
        loss=loss.item(),
        width=session.width,
        plan=str(session.plan),
        before=before,
        after=held(session.book) if digest else None,
    )
    weft.metric(loss=loss.item())
if "loss" in globals():  # one that was started again behind its loop has none
    write(final=True, loss=loss.item())
