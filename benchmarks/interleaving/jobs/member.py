"""A job that shares its slot: bound by storage or by computing, and told round by round to train.

A round begins when the file `go` names it, and is so many steps. Each step leaves a line: when it
began and ended, when its turn was granted, when its worker met the others, and what asking took.

Storage is a real file, read past the page cache and throttled to the speed of a slow disk; the time
that this takes is waiting, as it would be for a disk. Computing is matrix products in one thread.
"""

import argparse
import json
import mmap
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

import weft
from weft.agent.messages import Granted, Turn
from weft.train.api import current
from weft.train.company.lease_line import LeaseLine
from weft.train.stages import Stage

READ_BYTES = 1 << 20
LOOK_SECONDS = 0.001

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--features", type=int, default=768)
parser.add_argument("--layers", type=int, default=4)
parser.add_argument("--read", type=float, default=0.0, help="seconds that storage takes for a step")
options = parser.parse_args()
worker = int(os.environ.get("WEFT_WORKER", "0"))
folder = Path(os.environ["WEFT_BENCH_OUT"])


class Samples(Dataset[Tensor]):
    """All the same; each batch of them is read from a file, if reading takes any time."""

    def __init__(self) -> None:
        self._one = torch.ones(options.features)
        self._file: int | None = None
        if options.read:
            path = folder / "samples"
            path.write_bytes(os.urandom(READ_BYTES))
            self._file = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECT", 0))
            self._buffer = memoryview(mmap.mmap(-1, READ_BYTES))  # begins on a page

    def __len__(self) -> int:
        return 1 << 20

    def __getitems__(self, ids: list[int]) -> list[Tensor]:
        if self._file is not None:
            end = time.monotonic() + options.read
            os.preadv(self._file, [self._buffer], 0)
            time.sleep(max(end - time.monotonic(), 0.0))
        return [self._one] * len(ids)


class Told:
    """What is noted of the present step."""

    def __init__(self) -> None:
        self.granted: Granted | None = None
        self.met = 0.0
        self.asking_seconds = 0.0


told = Told()
ask, give_back = LeaseLine.ask, LeaseLine.give_back


def noted_ask(
    self: LeaseLine, where: str, turn: Turn, given_up: Callable[[], bool]
) -> Granted | None:
    before = time.monotonic()
    answer = ask(self, where, turn, given_up)
    if self._part == "loop":
        told.granted = answer
        told.asking_seconds += time.monotonic() - before
    return answer


def noted_give_back(self: LeaseLine, kinds: tuple[str, ...], *, keep: bool = False) -> None:
    before = time.monotonic()
    give_back(self, kinds, keep=keep)
    if self._part == "loop":
        told.asking_seconds += time.monotonic() - before


LeaseLine.ask = noted_ask  # type: ignore[method-assign, assignment]
LeaseLine.give_back = noted_give_back  # type: ignore[method-assign]
layers = [nn.Linear(options.features, options.features) for _ in range(options.layers)]
model, opt = weft.prepare(nn.Sequential(*layers), lambda p: torch.optim.SGD(p, 1e-6))
batch = torch.ones(options.batch, options.features)
loader = weft.loader(Samples(), options.batch, collate=lambda some: batch[: len(some)])
stages = current().stages
enter = stages.enter


def noted_enter(stage: Stage) -> None:
    if stage is Stage.COMM_EXPOSED and not told.met:
        told.met = time.monotonic()
    enter(stage)


stages.enter = noted_enter  # type: ignore[method-assign]


def ordered(after: int) -> dict[str, int]:
    """The round that comes next."""
    while True:
        try:
            found: dict[str, int] = json.loads((folder / "go").read_text())
        except (OSError, ValueError):
            found = {"round": 0}
        if found["round"] > after:
            return found
        time.sleep(LOOK_SECONDS)


def main() -> None:
    global told  # noqa: PLW0603 - the step that is under way
    present, left = 0, 0
    with (folder / f"steps-{worker}.jsonl").open("a") as lines:
        for mb in weft.steps(loader, total=10**9):
            loss = model(mb.x).square().mean()
            weft.backward(loss)
            opt.step()
            if mb.warmup:
                continue
            now = time.monotonic()
            if left:
                line: dict[str, float | None] = {
                    "round": present,
                    "worker": worker,
                    "step": mb.step,
                    "ended": now,
                    "granted": told.granted.at_seconds if told.granted else None,
                    "breach": bool(told.granted and told.granted.breach),
                    "met": told.met,
                    "asking": told.asking_seconds,
                }
                lines.write(json.dumps(line) + "\n")
                lines.flush()
                left -= 1
            if not left:
                order = ordered(present)
                present, left = order["round"], order["steps"]
                begun = {"round": present, "worker": worker, "began": time.monotonic()}
                lines.write(json.dumps(begun) + "\n")
                lines.flush()
            told = Told()


main()
