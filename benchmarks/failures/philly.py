"""Trials like Philly's failed ones: a reason by its share, a time to failure, and a log."""

import json
import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from weft.failure.lines import Line, Stream, lines_of
from weft.trace.philly_failures import philly_ends

WORDS: Final = ("encoder", "imagenet", "bert", "wiki", "resnet", "head", "shard", "warmup")
DETERMINISTIC: Final = frozenset(
    (
        *("cpu_out_of_memory", "incorrect_inputs", "semantic_error", "syntax_error"),
        *("gpu_out_of_memory", "permission_error", "import_error", "cuda_version_mismatch"),
    )
)
TRANSIENT: Final = frozenset(
    (
        *("model_ckpt_error", "mpi_error", "mpi_runtime_failure", "job_preempted"),
        *("cuda_init_failed", "gpu_ecc_error"),
    )
)
NOTICED: Final = (
    "[rank0]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE)",
    "[rank0]: RuntimeError: NCCL communicator was aborted on rank 0.",
    "[rank0]: Connection closed by peer [10.0.0.2]:4711",
)
WORD: Final = re.compile(r"\{w\}")
HOST: Final = re.compile(r"\{h\}")
NUMBER: Final = re.compile(r"\{n\}")
LAUNCHER: Final = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"


@dataclass(frozen=True, slots=True)
class Trial:
    """One failed trial; when it fails again it ends in the same words, and other numbers."""

    reason: str
    minutes: float
    gpus: int
    end: list[str]
    again: float  # the chance that the next attempt fails too, by trials per job

    def log(self, chance: random.Random) -> list[Line]:
        """What is left of it: progress, the end, and what others say of it where there are any."""
        steps = [f"step {n} loss {4.0 / (n + 1):.4f} lr 3e-4" for n in range(chance.randrange(20))]
        lines = list(lines_of("\n".join(steps), Line("", rank=0)))
        rank = chance.randrange(self.gpus)
        end = [line for text in self.end for line in _said(_numbered(text, chance), rank)]
        others = [line for text in self._others(chance) for line in _said(text, None)]
        return lines + (others + end if _coin(chance) else end + others)

    def _others(self, chance: random.Random) -> list[str]:
        if self.gpus == 1:
            return []
        noticed = [chance.choice(NOTICED)] if _coin(chance) else []
        return [*noticed, LAUNCHER] if _coin(chance) else noticed


class Philly:
    """The table, to draw from."""

    def __init__(self, traces: Path) -> None:
        models = json.loads((traces / "jobs" / "failure_models.json").read_text())
        self.table: list[dict[str, Any]] = models["philly"]["rows"]

    def drawn(self, count: int, chance: random.Random) -> list[Trial]:
        weights = [row["trials"] for row in self.table]
        rows = chance.choices(self.table, weights, k=count)
        return [_trial(row, chance) for row in rows]


def _trial(row: dict[str, Any], chance: random.Random) -> Trial:
    sizes = (row["trials_1gpu"], row["trials_2_4gpu"], row["trials_gt4gpu"])
    gpus = chance.choices((1, 4, 16), sizes)[0]
    marks = (row["rtf_p50_min"], row["rtf_p90_min"], row["rtf_p95_min"])
    return Trial(
        reason=row["reason"],
        minutes=_minutes(marks, chance.random()),
        gpus=gpus,
        end=[_worded(text, chance) for text in chance.choice(philly_ends()[row["reason"]])],
        again=1.0 - row["jobs"] / row["trials"],
    )


def _minutes(marks: Sequence[float], share: float) -> float:
    """Between the percentiles that are known, on a logarithmic scale."""
    p50, p90, p95 = marks
    points = ((0.0, p50 / 10), (0.5, p50), (0.9, p90), (0.95, p95), (1.0, 2 * p95))
    for (low, a), (high, b) in pairwise(points):
        if share <= high:
            part = (share - low) / (high - low)
            return math.exp(math.log(a) + part * (math.log(b) - math.log(a)))
    return 2 * p95


def _said(text: str, rank: int | None) -> list[Line]:
    for stream in (Stream.KERNEL, Stream.PLATFORM):
        if text.startswith(f"{stream}: "):
            return list(lines_of(text.removeprefix(f"{stream}: "), Line("", stream, rank=rank)))
    return list(lines_of(text, Line("", rank=rank)))


def _worded(text: str, chance: random.Random) -> str:
    """With its words and hosts drawn."""
    text = WORD.sub(lambda _: chance.choice(WORDS), text)
    return HOST.sub(lambda _: f"node-{chance.randrange(99)}", text)


def _numbered(text: str, chance: random.Random) -> str:
    return NUMBER.sub(lambda _: str(chance.randrange(1, 64)), text)


def _coin(chance: random.Random) -> bool:
    return bool(chance.getrandbits(1))
