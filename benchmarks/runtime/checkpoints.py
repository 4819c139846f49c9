"""Part f: damaged checkpoints are refused, and sound ones are quick.

The damage is that of the tests (`tests/agent/checkpoint`), from a flipped bit to manifests that
somebody wrote who wishes us ill. The speeds are those of one process that does nothing else:
written means durable, verified means that every byte was compared with its digest, and loading
verifies once more. Beside them torch's own files, which compare nothing.
"""

from collections.abc import Iterator
from statistics import median

from benchmarks.row import Row, exactly, told
from benchmarks.runtime.job import FULL, SHORT, outcome_of, say, scratch
from benchmarks.runtime.saving import files

SEEDS, SHORT_SEEDS = 85, 4
TIMES, SHORT_TIMES = 7, 2
LIMIT_SECONDS = 300.0
MEGABYTE = 1e6
CORRUPTED = "benchmarks.runtime.corrupted"
BESIDE = {"write": "torch.save", "verify": None, "load": "torch.load"}


def rows(*, short: bool) -> Iterator[Row]:
    """Damage, then speed."""
    say("damaged checkpoints")
    seeds = SHORT_SEEDS if short else SEEDS
    tried, refused = outcome_of(["-m", CORRUPTED, str(seeds)], LIMIT_SECONDS)
    yield exactly("f: damaged checkpoints refused, the one before found", refused, "", tried)
    with scratch() as folder:
        size, times = (SHORT, SHORT_TIMES) if short else (FULL, TIMES)
        count, seconds = files(folder, size, times, weft=True)
    speeds = {what: count / MEGABYTE / median(each) for what, each in seconds.items()}
    yield told("f: snapshot into shared memory", speeds["snapshot"], "MB/s")
    for what, peer in BESIDE.items():
        its = speeds[peer] if peer else None
        yield told(f"f: {what} a checkpoint", speeds[what], "MB/s", peer=peer, peer_value=its)
