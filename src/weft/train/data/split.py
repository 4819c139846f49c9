"""Who computes which part of a step: a pure function, so nobody has to be asked.

Step `s` of a job with a global batch of `B` consists of the positions `s·B … (s+1)·B - 1` of the
sample order, however many workers there are. Each worker computes its own part from the number of
workers and its rank alone, and could compute everybody's: the parts follow each other without gap
or overlap, so each sample is used exactly once, and since the sizes are known, a gradient is
weighted by `samples / global batch` without a message. Nothing is remembered from step to step;
another number of workers merely cuts the next step, or the same step again, in another way. (A
`DistributedSampler` pads or drops samples to make its parts equal, and has to be told its epoch.)

The bitwise level needs more: floating-point sums depend on how they are grouped. There the batch is
cut into a fixed number of logical workers (EasyScale, SC'23), each one micro-batch, and only the
dealing of these pieces depends on the workers: the pieces themselves are always the same.
"""

from dataclasses import dataclass
from itertools import pairwise

from weft.model.errors import InvariantBreach, SpecError


@dataclass(frozen=True, slots=True)
class Share:
    """One micro-batch of one worker, as positions start … stop - 1 of the sample order."""

    start: int
    stop: int
    last: bool
    """Whether it is this worker's last micro-batch of the step."""

    @property
    def samples(self) -> int:
        return self.stop - self.start


def shares(  # noqa: PLR0917 - the words of a step, in the order in which they are said
    step: int,
    global_batch: int,
    workers: int,
    rank: int,
    micro: int | None = None,
    logical: int | None = None,
    together: int = 1,
) -> tuple[Share, ...]:
    """What one rank computes in one step, in order; nothing where there are too many workers.

    Ranks that hold a model together all have as many micro-batches, or would wait for each other
    in vain: one that has fewer samples than its neighbours gets shares of none.

    Args:
        step: the optimizer step, counted from 0.
        global_batch: samples of one step, over all workers.
        workers: members of the present epoch.
        rank: index of this worker among them.
        micro: the largest micro-batch; without it a worker takes its part at once.
        logical: logical workers of the bitwise level, each of them one micro-batch.
        together: neighbouring ranks that hold one model together; the first has the most samples.
    """
    _check(global_batch, micro)
    if not 0 <= rank < workers:
        raise InvariantBreach(f"rank {rank} of {workers} workers asked for its part of a step")
    if logical is None:
        start, stop = _dealt(global_batch, workers, rank)
        first, beyond = _dealt(global_batch, workers, rank // together * together)
        pieces = -(-(beyond - first) // (micro or global_batch))
    else:
        _check_logical(global_batch, micro, logical)
        first, beyond = _dealt(logical, workers, rank)
        pieces, each = beyond - first, global_batch // logical
        start, stop = first * each, beyond * each
    origin = step * global_batch + start
    cuts = [_dealt(stop - start, pieces, piece) for piece in range(pieces)]
    return tuple(
        Share(origin + first, origin + beyond, last=piece == pieces - 1)
        for piece, (first, beyond) in enumerate(cuts)
    )


def fixed_shares(  # noqa: PLR0917 - as above
    step: int, global_batch: int, workers: int, rank: int, micro: int, together: int = 1
) -> tuple[Share, ...]:
    """The same in micro-batches that do not depend on the workers: only who computes which does.

    All have `micro` samples but the last of the step, which has the rest. So a program that is
    compiled for their sizes meets two at most, at every width. Workers have as many micro-batches
    at most as with `shares`, but some are larger, and one may have a micro-batch more than another.
    """
    _check(global_batch, micro)
    if not 0 <= rank < workers:
        raise InvariantBreach(f"rank {rank} of {workers} workers asked for its part of a step")
    pieces = -(-global_batch // micro)
    first, beyond = _dealt(pieces, workers, rank)
    most = _dealt(pieces, workers, rank // together * together)
    origin, end = step * global_batch, (step + 1) * global_batch
    cuts = [min(origin + piece * micro, end) for piece in range(first, beyond + 1)]
    cuts += cuts[-1:] * (most[1] - most[0] - (beyond - first))
    return tuple(
        Share(start, stop, last=number == len(cuts) - 2)
        for number, (start, stop) in enumerate(pairwise(cuts))
    )


def _dealt(things: int, hands: int, hand: int) -> tuple[int, int]:
    """The contiguous range that one hand gets; the first hands get one more where it is uneven."""
    each, over = divmod(things, hands)
    start = hand * each + min(hand, over)
    return start, start + each + (hand < over)


def _check(global_batch: int, micro: int | None) -> None:
    if global_batch < 1:
        raise SpecError(f"a global batch of {global_batch} samples", hint="write 1 or more")
    if micro is not None and micro < 1:
        raise SpecError(f"a micro-batch of at most {micro} samples", hint="write 1 or more")


def _check_logical(global_batch: int, micro: int | None, logical: int) -> None:
    """Sums are taken over a binary tree of equal pieces, each computed at once."""
    if logical < 1 or logical & (logical - 1):
        raise SpecError(
            f"{logical} logical workers are not a power of two",
            hint="the bitwise level adds gradients in pairs: write 1, 2, 4, 8, …",
        )
    if global_batch % logical:
        raise SpecError(
            f"a global batch of {global_batch} samples is not a multiple of {logical} logical "
            "workers",
            hint="the bitwise level needs equal pieces: change one of the two",
        )
    if micro is not None and global_batch // logical > micro:
        raise SpecError(
            f"{logical} logical workers compute {global_batch // logical} samples at once, more "
            f"than the largest micro-batch of {micro}",
            hint="write more logical workers or a larger micro-batch",
        )
