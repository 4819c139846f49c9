"""Runtime: real training processes that grow, shrink, save, lose a peer, and lose nothing else.

Each part measures beside what it is to replace, in the same run on the same cores: a join beside a
stop and restart (a), the library beside a plain loop (b), a snapshot beside `torch.save` (c), the
loss of a worker and a drain (d), ten rescales beside a run that nobody disturbed (e), damaged
checkpoints (f), and two writers beside one (g). One torch thread per worker, gloo, no GPU. Two
cores are enough, but they must be idle: every figure here is a wait, and a neighbour on the machine
makes each of them longer.

The short form takes a small model and few repetitions. Its times are told; only what must hold at
any size is held to a bar.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path

from benchmarks.row import Row, broken
from weft.model.errors import WeftError

PARTS = {
    "a": "benchmarks.runtime.joining",
    "b": "benchmarks.runtime.overhead",
    "c": "benchmarks.runtime.saving",
    "d": "benchmarks.runtime.losing",
    "e": "benchmarks.runtime.exactness",
    "f": "benchmarks.runtime.checkpoints",
    "g": "benchmarks.runtime.writing",
}


def rows(
    traces: Path | None = None, *, short: bool = False, only: tuple[str, ...] = ()
) -> Iterator[Row]:
    """One part after the other; one that breaks does not keep the others from being measured."""
    for part in only or tuple(PARTS):
        try:
            yield from importlib.import_module(PARTS[part]).rows(short=short)
        except (WeftError, OSError) as error:
            yield broken(f"part {part}", str(error))
