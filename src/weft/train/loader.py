"""Samples for the micro-batches of one worker, read ahead of the training loop.

The loader holds no place in the data. It is asked for a `Share`, a range of positions in the order
that all workers have in common, and gives the samples that stand there. Who asks for which share is
decided elsewhere (`split`), which sample stands where as well (`order`); so each sample is used
exactly once for any world size or plan, a step can be repeated with the same samples by whoever is
left, and a restart needs a step number and nothing else. torch's `StatefulDataLoader` keeps a state
per worker process, but not across ranks: what it saved for four ranks cannot be split over three.

Reading ahead. `expect` names the shares that will probably be asked for next. They are read in the
background, each newer hint replaces the one before, and no more is held than was hinted. A wrong
hint costs work and nothing else: a share that nobody hinted is read at once, before all hints.

Threads, not processes. A training process has control threads and those of its collectives when
the first batch is read, and a fork would copy their locks in whatever state they are; a spawned
worker would import the user's script again, which runs it twice if it has no main guard. Nor can
torch's worker machinery take a hint back: it draws indices from its sampler ahead of time, and
after a change of membership they are the wrong ones. Reading files, decoding images and NumPy or
torch work release the interpreter's lock. A dataset of slow pure Python can keep processes of its
own behind `__getitems__`.

A dataset is asked from one thread only, unless `workers` is 2 or more. It should draw chance
(augmentation) from a generator seeded with the index of the sample: the global generators belong
to the whole process, so that drawing from them here also changes what the training loop draws.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

import torch
from torch.utils.data import Dataset, IterableDataset, default_collate

from weft.model.errors import InvariantBreach, SpecError
from weft.train.order import SampleOrder
from weft.train.split import Share, shares

Collated: TypeAlias = Any  # whatever the collate function makes of some samples
Collate: TypeAlias = Callable[[list[Any]], Collated]

_END = object()


class Indexed(Protocol):
    """A dataset that gives any of its samples by index (map-style)."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...  # noqa: ANN401 - a sample is what it is


Samples: TypeAlias = Dataset[Any] | Indexed | Iterable[Any]


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """What the body of the training loop sees once; it unpacks like the data in it."""

    data: Collated
    ids: tuple[int, ...]
    """Indices of its samples in the dataset; in a stream their positions."""
    step: int
    last: bool
    """Whether it is this worker's last one of the step."""
    warmup: bool = False
    """Whether it only warms the process up and no gradient of it is used."""

    @property
    def samples(self) -> int:
        return len(self.ids)

    @property
    def x(self) -> Collated:
        if isinstance(self.data, torch.Tensor):
            return self.data
        return self._part(0, "x")

    @property
    def y(self) -> Collated:
        return self._part(1, "y")

    def __getitem__(self, key: object) -> Collated:
        return self.data[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.data)

    def to(self, device: torch.device | str | int, *, non_blocking: bool = False) -> "MicroBatch":
        """The same micro-batch with everything that can move on another device."""
        return replace(self, data=_moved(self.data, device, non_blocking=non_blocking))

    def _part(self, index: int, name: str) -> Collated:
        if isinstance(self.data, Sequence) and len(self.data) > index:
            return self.data[index]
        raise SpecError(
            f"a batch of type {type(self.data).__name__} has no {name}",
            hint="take its parts with [...], or collate samples to (x, y)",
        )


class Loader:
    """Gives the samples of any share of a dataset, map-style or iterable.

    An iterable dataset is a stream that every worker reads as a whole, keeping what it is asked
    for: it must give the same samples in the same order to each of them, may not divide itself by
    rank, and decides itself about shuffling. `skip(n)` is used where it has one.

    Args:
        dataset: gives the samples; asked by index, or iterated once per pass.
        global_batch: samples of one step over all workers.
        seed: of the order in which samples are taken.
        shuffle: whether each pass has an order of its own; else as they stand.
        micro: the largest micro-batch, for whoever cuts the steps.
        collate: makes one batch of a list of samples; torch's `default_collate` if not given.
        workers: threads that read the samples of a share side by side, where it has an index.
    """

    def __init__(
        self,
        dataset: Samples,
        global_batch: int,
        *,
        seed: int = 0,
        shuffle: bool = True,
        micro: int | None = None,
        collate: Collate | None = None,
        workers: int = 0,
    ) -> None:
        shares(0, global_batch, 1, 0, micro)  # refuses what cannot be cut
        if workers < 0:
            raise SpecError(f"{workers} workers of a loader", hint="write 0 or more")
        self.dataset = dataset
        self.global_batch = global_batch
        self.seed = seed
        self.micro = micro
        self._collate = collate or default_collate
        self._source: _Table | _Stream
        if _is_stream(dataset):
            self._source = _Stream(cast(Iterable[Any], dataset), global_batch)
        else:
            table = cast(Indexed, dataset)
            self._source = _Table(table, SampleOrder(len(table), seed, shuffle), workers)
        self._line = _threads("weft-loader", 1)
        self._ahead: dict[tuple[int, int], Future[_Read]] = {}
        self._newest_step: int | None = None
        self._busy_seconds = 0.0

    @property
    def steps_per_epoch(self) -> int | None:
        """Steps until each sample was used at least once; unknown for a stream.

        A pass seldom ends with a step: the step goes on with the first samples of the next pass.
        """
        samples = self._source.samples
        return None if samples is None else -(-samples // self.global_batch)

    def fetch(self, share: Share, *, warmup: bool = False) -> MicroBatch:
        """The samples of a share; what the dataset raised is raised here."""
        step = self._newest_step = share.start // self.global_batch
        reading = self._ahead.pop((share.start, share.stop), None) or self._at_once(share)
        self._keep_for_later()
        read = reading.result()
        self._busy_seconds += read.busy_seconds
        return MicroBatch(read.data, read.ids, step, share.last, warmup)

    def take_busy_seconds(self) -> float:
        """Processor seconds of reading and collating what was fetched since this was last asked."""
        busy, self._busy_seconds = self._busy_seconds, 0.0
        return busy

    def expect(self, shares: Iterable[Share]) -> None:
        """Read these in the background, in this order, and no longer what was hinted before."""
        hinted = {(share.start, share.stop): share for share in shares}
        for span in self._ahead.keys() - hinted.keys():
            self._ahead.pop(span).cancel()
        for span, share in hinted.items():
            if span not in self._ahead:
                self._ahead[span] = self._begin(share)
        self._keep_for_later()

    def close(self) -> None:
        """Stop reading; no thread is left. A loader that is used again starts them anew."""
        self.expect(())
        self._line.shutdown(wait=True, cancel_futures=True)
        self._source.close()
        self._line = _threads("weft-loader", 1)

    def _at_once(self, share: Share) -> "Future[_Read]":
        """Read it before all hints of which the reading has not begun."""
        waiting = [span for span, reading in self._ahead.items() if reading.cancel()]
        reading = self._begin(share)
        for start, stop in waiting:
            self._ahead[start, stop] = self._begin(Share(start, stop, last=False))
        return reading

    def _begin(self, share: Share) -> "Future[_Read]":
        return self._line.submit(_read, self._source, share, self._collate)

    def _keep_for_later(self) -> None:
        steps = {start // self.global_batch for start, _ in self._ahead}
        if self._newest_step is not None:
            steps.add(self._newest_step)
        self._source.keep(frozenset(steps))


class _Read(NamedTuple):
    ids: tuple[int, ...]
    data: Collated
    busy_seconds: float


class _Table:
    """Samples by index, in the common order."""

    def __init__(self, dataset: Indexed, order: SampleOrder, workers: int) -> None:
        self.samples: int | None = order.samples
        self._dataset = dataset
        self._order = order
        self._workers = workers
        self._several = getattr(dataset, "__getitems__", None)
        self._hands = _threads("weft-loader-hand", max(workers, 1))

    def read(self, share: Share) -> tuple[tuple[int, ...], list[Any]]:
        ids = self._order.slice(share.start, share.stop)
        if self._workers <= 1 or len(ids) <= 1:
            return tuple(ids), self._some(ids)
        each = -(-len(ids) // self._workers)
        parts = [ids[at : at + each] for at in range(0, len(ids), each)]
        return tuple(ids), list(chain.from_iterable(self._hands.map(self._some, parts)))

    def keep(self, steps: frozenset[int]) -> None:
        """Nothing: any sample can be asked for again."""

    def close(self) -> None:
        self._hands.shutdown(wait=True, cancel_futures=True)
        self._hands = _threads("weft-loader-hand", max(self._workers, 1))

    def _some(self, ids: list[int]) -> list[Any]:
        if self._several is None:
            return [self._dataset[index] for index in ids]
        found = list(self._several(ids))
        if len(found) != len(ids):
            raise SpecError(
                f"the dataset gave {len(found)} samples for {len(ids)} indices",
                hint="__getitems__ must return one sample for each index that it is given",
            )
        return found


class _Stream:
    """Samples in the order in which a dataset gives them, pass after pass.

    A step may have to be repeated, and by fewer workers: each of them then needs samples that were
    another's before. So the samples of whole steps are kept, of the newest one fetched and of those
    hinted, each from its beginning. To go back further the stream is opened again.
    """

    def __init__(self, dataset: Iterable[Any], global_batch: int) -> None:
        self.samples: int | None = None
        self._dataset = dataset
        self._can_skip = hasattr(dataset, "skip")
        self._global_batch = global_batch
        self._wanted: frozenset[int] = frozenset()
        self._kept: dict[int, list[Any]] = {}
        self._stream: Iterator[Any] | None = None
        self._position = 0
        self._pass_is_empty = True
        self._pass_length: int | None = None

    def read(self, share: Share) -> tuple[tuple[int, ...], list[Any]]:
        step, first = divmod(share.start, self._global_batch)
        beyond = first + share.samples
        if beyond > self._global_batch:
            raise InvariantBreach(f"positions {share.start}–{share.stop} belong to several steps")
        self._kept = {s: kept for s, kept in self._kept.items() if s in self._wanted or s == step}
        kept = self._kept.setdefault(step, [])
        if len(kept) < beyond:
            self._go_to(share.start - first + len(kept))
        while len(kept) < beyond:
            self._advance()
        return tuple(range(share.start, share.stop)), kept[first:beyond]

    def keep(self, steps: frozenset[int]) -> None:
        """Called by the training thread; the reading one looks at it when it reads next."""
        self._wanted = steps

    def close(self) -> None:
        self._stream = None
        self._kept.clear()

    def _go_to(self, position: int) -> None:
        """Stand where this position is read next, keeping what may be wanted on the way."""
        ahead = position - self._position
        far = ahead > max(self._position, self._global_batch) and self._can_skip
        if self._stream is None or ahead < 0 or far:
            self._open(position)
        while self._position < position:
            self._advance()

    def _open(self, position: int) -> None:
        """Begin the stream anew, as far on as the dataset can skip."""
        self._stream = None
        if position and self._can_skip:
            self._stream = self._skipped(position)
            self._position = position
            self._pass_is_empty = False
            return
        self._stream = iter(self._dataset)
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
        step, place = divmod(self._position, self._global_batch)
        self._position += 1
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
            stream, self._pass_is_empty = iter(self._dataset), True
        self._stream, self._pass_is_empty = stream, False
        return sample


def _read(source: _Table | _Stream, share: Share, collate: Collate) -> _Read:
    began = time.thread_time()
    ids, samples = source.read(share)
    return _Read(ids, collate(samples), time.thread_time() - began)


def _threads(name: str, number: int) -> ThreadPoolExecutor:
    """They start with the first work, and end with the loader or the interpreter at the latest."""
    return ThreadPoolExecutor(number, thread_name_prefix=name)


def _is_stream(dataset: Samples) -> bool:
    """Whether samples can only be read in turn."""
    if isinstance(dataset, IterableDataset):
        return True
    if not hasattr(dataset, "__getitem__"):
        if isinstance(dataset, Iterator):
            raise SpecError(
                f"a {type(dataset).__name__} can be read only once",
                hint="give an object of which each iter() is a new pass over the samples",
            )
        return True
    if not hasattr(dataset, "__len__"):
        raise SpecError(
            f"a dataset of type {type(dataset).__name__} does not tell its length",
            hint="give it __len__, or make it an IterableDataset",
        )
    return False


def _empty_pass() -> SpecError:
    return SpecError(
        "the dataset gave no sample in a whole pass",
        hint="each iter() of it must begin a new pass that holds at least one sample",
    )


def _moved(data: Collated, device: torch.device | str | int, *, non_blocking: bool) -> Collated:
    if hasattr(data, "to"):
        return data.to(device, non_blocking=non_blocking)
    if isinstance(data, Mapping):
        return {
            key: _moved(value, device, non_blocking=non_blocking) for key, value in data.items()
        }
    if not isinstance(data, (tuple, list)):
        return data
    parts = [_moved(part, device, non_blocking=non_blocking) for part in data]
    return type(data)(*parts) if hasattr(data, "_fields") else type(data)(parts)
