"""Decision: what one choice of groups costs, on one core, in processor time.

Muri's own matcher took 51 s for 256 candidates on such a machine (1.0 s for 64, 6.0 s for 128).
"""

from collections.abc import Iterator
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.interleaving.stages import Measured, drawn, measured, no_two_alike
from benchmarks.row import Row, at_most, clocked
from weft.policy.share.blossom import Blossom
from weft.policy.share.candidates import Candidates
from weft.policy.share.grouping import Choice
from weft.policy.share.guards import Limits
from weft.policy.share.types import ByTypes

MURI_SECONDS = 51.0
CALLS, SHORT_CALLS = 9, 3
GPUS_PER_CANDIDATE = 4


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """Three sizes, and the same where no two jobs are alike."""
    yield from (clocked(row, short=short) for row in _measured(traces, short=short))


def _measured(traces: Path, *, short: bool) -> Iterator[Row]:
    table = measured(traces)
    alone = [row for row in table if row.gpus == 1]
    calls = SHORT_CALLS if short else CALLS
    for what, choice in (("types", ByTypes()), ("blossom", Blossom())):
        spent = worst(choice, [drawn(alone, 256, _chance(n)) for n in range(calls)])
        name = f"{what}, 256 candidates of 8 types"
        yield at_most(name, spent, "s", 0.25, peer="Muri", peer_value=MURI_SECONDS)
    spent = worst(ByTypes(), [no_two_alike(alone, 256, _chance(n)) for n in range(calls)])
    yield at_most("types, 256 candidates, no two alike", spent, "s", 0.25)
    spent = worst(ByTypes(), [drawn(alone, 1_000, _chance(n)) for n in range(calls)])
    yield at_most("types, 1,000 candidates of 8 types", spent, "s", 1.0)
    spent = worst(ByTypes(), [no_two_alike(alone, 1_000, _chance(n)) for n in range(calls)])
    yield at_most("types, 1,000 candidates, no two alike", spent, "s", 1.0)
    forty = _of_widths(table, 40)
    spent = worst(ByTypes(), [drawn(forty, 10_000, _chance(n)) for n in range(calls)])
    yield at_most("types, 10,000 candidates of 40 types", spent, "s", 2.0)


def worst(choice: Choice, cases: list[Candidates]) -> float:
    """The longest of these calls; a first one loads the solvers."""
    choice(cases[0], cases[0].demand_gpus // GPUS_PER_CANDIDATE, Limits())
    return max(_seconds(choice, jobs) for jobs in cases)


def _seconds(choice: Choice, jobs: Candidates) -> float:
    begin = process_time()
    choice(jobs, jobs.demand_gpus // GPUS_PER_CANDIDATE, Limits())
    return process_time() - begin


def _of_widths(table: list[Measured], types: int) -> list[Measured]:
    return sorted(table, key=lambda row: row.gpus)[:types]


def _chance(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)
