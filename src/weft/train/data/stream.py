"""Samples that can only be read in turn, from a stream."""

import time
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Any

from weft.model.errors import InvariantBreach, SpecError
from weft.train.data.bookmarks import MOST_SENT_BYTES, Bookmarks, Mark
from weft.train.data.split import Share

_END = object()


class Stream:
    """Samples in the order in which a dataset gives them, pass after pass.

    A step may have to be repeated, and others ask for samples at their own pace. So whole steps are
    kept, from the oldest one that may still be wanted here on: nobody is a step behind that. To go
    back further, or to where a job stands, the stream is opened again: where its own state leads
    to, by `skip`, or at its beginning.
    """

    def __init__(self, dataset: Iterable[Any], global_batch: int) -> None:
        self._dataset = dataset
        self._can_skip = hasattr(dataset, "skip")
        self.marks = Bookmarks(dataset)
        self._global_batch = global_batch
        self._oldest: int | None = None  # step that may still be wanted
        self._kept: dict[int, list[Any]] = {}
        self._stream: Iterator[Any] | None = None
        self._position = 0
        self._pass_is_empty = True
        self._pass_length: int | None = None
        self.moved_seconds = 0.0  # when a sample was read last

    def read(self, share: Share) -> tuple[tuple[int, ...], list[Any]]:
        step, first = divmod(share.start, self._global_batch)
        beyond = first + share.samples
        if beyond > self._global_batch:
            raise InvariantBreach(f"positions {share.start}–{share.stop} belong to several steps")
        self._kept = {s: kept for s, kept in self._kept.items() if s == step or self._keeps(s)}
        if self._oldest is not None:
            self.marks.forget_before(min(self._oldest, step) * self._global_batch)
        kept = self._kept.setdefault(step, [])
        if len(kept) < beyond:
            self._go_to(share.start - first + len(kept))
        while len(kept) < beyond:
            self._advance()
        return tuple(range(share.start, share.stop)), kept[first:beyond]

    def keep(self, positions: Collection[int]) -> None:
        """Called by the training thread; the reading one looks at it when it reads next."""
        self._oldest = min(positions) // self._global_batch if positions else None

    def close(self) -> None:
        """A loop is over, and the next one goes on from here."""
        self._kept.clear()

    def release(self) -> None:
        """Another worker reads it from now on."""
        self._stream = None
        self._kept.clear()

    def mark(self, start: int) -> Mark | None:
        """Where whoever may have to read next can begin, for the step of that position."""
        return self.marks.mark(start - start % self._global_batch, most=MOST_SENT_BYTES)

    def _keeps(self, step: int) -> bool:
        oldest = self._oldest
        return oldest is not None and step >= oldest

    def _go_to(self, position: int) -> None:
        """Stand where this position is read next, keeping what may be wanted on the way."""
        ahead = position - self._position
        far = ahead > max(self._position, self._global_batch) and self._can_skip
        told = self.marks.nearest(position) > self._position
        if self._stream is None or ahead < 0 or far or told:
            self._open(position)
        while self._position < position:
            self._advance()

    def _open(self, position: int) -> None:
        """Begin the stream anew, as far on as its state leads or as the dataset can skip."""
        self._stream = None
        if (marked := self.marks.nearest(position)) and (resumed := self.marks.resume(marked)):
            self._stream, self._position = resumed, marked
            self._pass_is_empty = False
            return
        if position and self._can_skip:
            self._stream = self._skipped(position)
            self._position = position
            self._pass_is_empty = False
            return
        self._stream = self.marks.begin()
        self._position = 0
        self._pass_is_empty = True

    def _skipped(self, position: int) -> Iterator[Any]:
        """The stream from a position on; its passes are taken to be equally long."""
        if self._pass_length is None:
            stream = iter(self._dataset.skip(position))  # type: ignore[attr-defined]
            sample = next(stream, _END)
            if sample is not _END:
                return chain((sample,), stream)
            self._pass_length = sum(1 for _ in self._dataset)
        if not self._pass_length:
            raise _empty_pass()
        return iter(self._dataset.skip(position % self._pass_length))  # type: ignore[attr-defined]

    def _advance(self) -> None:
        """Read one sample, and keep it if its step has been asked for."""
        sample = self._next()
        self.moved_seconds = time.monotonic()
        step, place = divmod(self._position, self._global_batch)
        self._position += 1
        assert self._stream is not None
        border = place + 1 == self._global_batch
        self.marks.read(self._stream, self._position, border=border)
        if not place and self._keeps(step):
            self._kept.setdefault(step, [])
        kept = self._kept.get(step)
        if kept is not None and len(kept) == place:
            kept.append(sample)

    def _next(self) -> Any:  # noqa: ANN401 - a sample is what it is
        """The next sample; a stream that failed is opened again when it is read next."""
        assert self._stream is not None
        stream, self._stream = self._stream, None
        while (sample := next(stream, _END)) is _END:
            if self._pass_is_empty:
                raise _empty_pass()
            stream, self._pass_is_empty = self.marks.next_pass(), True
        self._stream, self._pass_is_empty = stream, False
        return sample


def _empty_pass() -> SpecError:
    return SpecError(
        "the dataset gave no sample in a whole pass",
        hint="each iter() of it must begin a new pass that holds at least one sample",
    )
