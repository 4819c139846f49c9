"""Part b: what Weft's lines cost a loop that nobody disturbs.

With one worker beside the loop that one writes in plain PyTorch, with two beside torch's own
DistributedDataParallel. The loops take turns within one process, a few steps each, so that noise
hits all of them; the overhead of a round is the ratio of its blocks' medians, and the figure is the
median over all rounds.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.row import Row, at_most, told
from benchmarks.runtime.figures import MS, only_full, spread
from benchmarks.runtime.job import FULL, JOBS, SHORT, Job, Size, say, scratch

ROUNDS, SHORT_ROUNDS = 30, 5
BLOCK = 4
OVERHEAD_BAR_PERCENT = 1.0
LIMIT_SECONDS = 600.0

WALL, PROCESSOR = 0, 1

Blocks = dict[str, list[list[tuple[float, float]]]]
"""By loop: of each round, of each step, the seconds on the wall and of the processor."""


def rows(*, short: bool) -> Iterator[Row]:
    """One worker, then two."""
    with scratch() as folder:
        if short:
            yield from _alone_rows(measure(folder / "one", SHORT, 1, SHORT_ROUNDS), judged=False)
            yield from only_full("b", "beside DistributedDataParallel")
            return
        yield from _alone_rows(measure(folder / "one", FULL, 1, ROUNDS), judged=True)
        yield from _together_rows(measure(folder / "two", FULL, 2, ROUNDS))


def measure(folder: Path, size: Size, workers: int, rounds: int) -> Blocks:
    """Seconds of each loop's steps, by round."""
    say(f"overhead with {workers} worker{'s' if workers > 1 else ''}, {rounds} rounds")
    words = ["--folder", str(folder / "run"), "--workers", str(workers)]
    script = [str(JOBS / "beside.py"), *size.words(), "--rounds", str(rounds)]
    job = Job(folder, [*words, *script, "--block", str(BLOCK)])
    try:
        job.end(LIMIT_SECONDS)
    finally:
        job.close()
    found: Blocks = json.loads((folder / "beside.json").read_text())
    return found


def _alone_rows(blocks: Blocks, *, judged: bool) -> Iterator[Row]:
    more = _more(blocks, "plain")
    name = "b: a step with Weft's lines, more than in plain PyTorch"
    plain = MS * _typical(blocks["plain"])
    peer = "plain PyTorch, ms"
    if judged:
        yield at_most(name, median(more), "%", OVERHEAD_BAR_PERCENT, peer=peer, peer_value=plain)
    else:
        yield told(name, median(more), "%", peer=peer, peer_value=plain)
    yield spread("b: … by round", more, "%")
    yield told("b: … in time", MS * (_typical(blocks["weft"]) - _typical(blocks["plain"])), "ms")
    yield told(
        "b: … more processor time, of all threads",
        median(_more(blocks, "plain", PROCESSOR)),
        "%",
        peer="plain PyTorch, ms",
        peer_value=MS * _typical(blocks["plain"], PROCESSOR),
    )
    yield told(
        "b: … more than a loop with every batch at hand",
        median(_more(blocks, "bare")),
        "%",
        peer="bare loop, ms",
        peer_value=MS * _typical(blocks["bare"]),
    )


def _together_rows(blocks: Blocks) -> Iterator[Row]:
    ours, theirs = _typical(blocks["weft"]), _typical(blocks["ddp"])
    ratio = 1 + median(_more(blocks, "ddp")) / 100
    yield told(
        "b: a step of two workers / DistributedDataParallel's",
        ratio,
        "×",
        peer="DistributedDataParallel, ms",
        peer_value=MS * theirs,
    )
    yield told("b: … which is", MS * ours, "ms")


def _more(blocks: Blocks, peer: str, of: int = WALL) -> list[float]:
    """By round: how much longer our median step is, in percent."""
    pairs = zip(blocks["weft"], blocks[peer], strict=True)
    return [100 * (_typical([ours], of) / _typical([theirs], of) - 1) for ours, theirs in pairs]


def _typical(blocks: list[list[tuple[float, float]]], of: int = WALL) -> float:
    return median(step[of] for block in blocks for step in block)
