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

Threads, or processes. Without `num_workers` one thread reads, or several where `workers` says so:
reading files, decoding images and NumPy or torch work release the interpreter's lock. With it the
processes of torch's DataLoader read (`weft.train.data.loader_processes`), which a dataset of slow
Python needs.

A dataset is asked from one thread only, unless `workers` is 2 or more. It should draw chance
(augmentation) from a generator seeded with the index of the sample: the global generators belong
to the whole process, so that drawing from them here also changes what the training loop draws.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, TypeAlias, Unpack, cast

import torch
from torch.utils.data import Dataset, IterableDataset, default_collate
from torch.utils.data._utils.pin_memory import pin_memory

from weft.model.errors import InvariantBreach, SpecError, WorldError
from weft.train.data.batch_code import portable
from weft.train.data.bookmarks import Mark
from weft.train.data.loader_processes import (
    Collate,
    Collated,
    Indexed,
    LoaderProcesses,
    ProcessOptions,
    Read,
    checked,
    understood,
)
from weft.train.data.order import SampleOrder
from weft.train.data.split import Share, shares
from weft.train.data.stream import Stream
from weft.train.stages import Stage, Stages

Ask: TypeAlias = Callable[[Share], Read]
Moving: TypeAlias = Callable[[], AbstractContextManager[None]]
InTurn: TypeAlias = Callable[[Callable[[], Read]], Read]
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
    moving: Moving | None = None
    """Where it matters to others when it is copied to a device."""

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
        with self.moving() if self.moving else nullcontext():
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

    An iterable dataset is a stream, read by one worker for all (`weft.train.data.stream_sharing`).
    It must give the same samples in the same order whenever it is opened, because another worker
    may have to go on with it; it may not divide itself by rank, and decides itself about shuffling.
    Its own state is used where it tells one (`weft.train.data.bookmarks`), and `skip(n)` where it
    has that.

    Args:
        dataset: gives the samples; asked by index, or iterated once per pass.
        global_batch: samples of one step over all workers.
        seed: of the order in which samples are taken.
        shuffle: whether each pass has an order of its own; else as they stand.
        micro: the largest micro-batch, for whoever cuts the steps.
        fixed: whether all micro-batches have so many samples, but the last of a step.
        collate: makes one batch of a list of samples; torch's `default_collate` if not given.
        workers: threads that read the samples of a share side by side, where it has an index.
        options: of processes that read instead, and of pinned memory, as torch's DataLoader.
    """

    def __init__(  # noqa: PLR0913 - what is said of the data, by name
        self,
        dataset: Samples,
        global_batch: int,
        *,
        seed: int = 0,
        shuffle: bool = True,
        micro: int | None = None,
        collate: Collate | None = None,
        workers: int = 0,
        fixed: bool = False,
        **options: Unpack[ProcessOptions],
    ) -> None:
        shares(0, global_batch, 1, 0, micro)  # refuses what cannot be cut
        if fixed and micro is None:
            raise SpecError("fixed micro-batches of no size", hint="write micro= too")
        options = understood(options)
        _check_workers(workers, options)
        self.dataset = dataset
        self.global_batch = global_batch
        self.seed = seed
        self.micro = micro
        self.fixed = fixed
        collate = _only(collate, options.get("collate_fn")) or default_collate
        if options.get("pin_memory") and not options.get("num_workers"):
            collate = _Pinned(collate)
        self._samples: int | None = None
        self._stream: Stream | None = None
        self._reading: _Line | LoaderProcesses
        self.is_stream = _is_stream(dataset)
        if self.is_stream:
            _check_stream(options)
            self._stream = Stream(cast(Iterable[Any], dataset), global_batch)
            self._reading = _Line(self._stream, _Portable(collate))
        else:
            table = cast(Indexed, dataset)
            order = SampleOrder(len(table), seed, shuffle)
            self._samples = order.samples
            if options.get("num_workers"):
                self._reading = LoaderProcesses(table, order, collate, options)
            else:
                self._reading = _Line(_Table(table, order, workers), collate)
        self._busy_seconds = 0.0
        self._waited_seconds = 0.0

    @property
    def reach(self) -> int:
        """Of how many steps after the present one it is worth to say what will be wanted."""
        return self._reading.reach

    @property
    def samples(self) -> int:
        """Of one pass."""
        if self._samples is None:
            raise InvariantBreach("a stream was asked for its length")
        return self._samples

    @property
    def steps_per_epoch(self) -> int | None:
        """Steps until each sample was used at least once; unknown for a stream.

        A pass seldom ends with a step: the step goes on with the first samples of the next pass.
        """
        return None if self._samples is None else -(-self._samples // self.global_batch)

    def fetch(self, share: Share, *, warmup: bool = False) -> MicroBatch:
        """The samples of a share; what the dataset raised is raised here."""
        read = self._reading.take(share)
        if read.mark is not None:
            self.learn(read.mark)
        self._busy_seconds += read.busy_seconds
        self._waited_seconds += read.waited_seconds
        step = share.start // self.global_batch
        return MicroBatch(read.data, read.ids, step, share.last, warmup)

    def book(self, stages: Stages) -> None:
        """What was fetched since the last step took the processor so long, and waited for turns."""
        stages.add(Stage.CPU_PREP, self._busy_seconds)
        stages.waited_for_turns(self._waited_seconds)
        self._busy_seconds = self._waited_seconds = 0.0

    def expect(self, shares: Iterable[Share]) -> None:
        """Read these in the background, in this order, and no longer what was hinted before."""
        self._reading.expect(shares)

    def read_in_turn(self, in_turn: InTurn) -> None:
        """Let the thread that reads ahead take turns with other jobs; processes take none."""
        if isinstance(self._reading, _Line):
            self._reading.in_turn = in_turn

    def follow(self, ask: Ask | None) -> None:
        """Let another worker be asked for what is wanted of a stream, or read it here."""
        assert isinstance(self._reading, _Line)
        self._reading.follow(ask)

    def mark(self, position: int) -> Mark | None:
        """The state of a stream that tells one, where this position is read next."""
        source = self._stream
        return source.marks.mark(position) if source is not None else None

    def learn(self, mark: object) -> None:
        """Where a stream can be begun, as a checkpoint or another worker has told."""
        if self._stream is not None:
            self._stream.marks.learn(mark)

    def moved_seconds(self) -> float:
        """When a stream has last moved; whoever waits for its reader is not at fault."""
        return self._reading.moved_seconds() if isinstance(self._reading, _Line) else 0.0

    def read_for_another(self, share: Share) -> Read:
        """What another worker asks for, from any thread."""
        assert isinstance(self._reading, _Line)
        return self._reading.read_for_another(share)

    def close(self) -> None:
        """Stop reading; no thread is left. A loader that is used again starts them anew."""
        self._reading.close()


class _Line:
    """A thread that reads one share after the other, of those that are expected."""

    reach = 1

    def __init__(self, source: "_Table | Stream", collate: Collate) -> None:
        self._source, self._collate = source, collate
        self._line = _threads("weft-loader", 1)
        self._ahead: dict[tuple[int, int], Future[Read]] = {}
        self._newest: int | None = None
        self._ask: Ask | None = None
        self.in_turn: InTurn | None = None

    def follow(self, ask: Ask | None) -> None:
        """What was expected of someone else may never come."""
        self.expect(())
        self._ask = ask
        if ask is not None and isinstance(self._source, Stream):
            self._line.submit(self._source.release)

    def moved_seconds(self) -> float:
        if self._ask is not None:
            return time.monotonic()
        return self._source.moved_seconds if isinstance(self._source, Stream) else 0.0

    def read_for_another(self, share: Share) -> Read:
        try:
            return self._line.submit(_read_and_mark, self._source, share, self._collate).result()
        except (CancelledError, RuntimeError) as error:
            if isinstance(error, CancelledError) or "shutdown" in str(error):
                raise WorldError("the loop is over") from error
            raise

    def take(self, share: Share) -> Read:
        self._newest = share.start
        reading = self._ahead.pop((share.start, share.stop), None) or self._at_once(share)
        self._keep_for_later()
        return reading.result()

    def expect(self, shares: Iterable[Share]) -> None:
        hinted = {(share.start, share.stop): share for share in shares}
        for span in self._ahead.keys() - hinted.keys():
            self._ahead.pop(span).cancel()
        for span, share in hinted.items():
            if span not in self._ahead:
                self._ahead[span] = self._begin(share)
        self._keep_for_later()

    def close(self) -> None:
        self.expect(())
        self._line.shutdown(wait=True, cancel_futures=True)
        self._source.close()
        self._line = _threads("weft-loader", 1)

    def _at_once(self, share: Share) -> Future[Read]:
        """Read it before all hints of which the reading has not begun."""
        waiting = [span for span, reading in self._ahead.items() if reading.cancel()]
        reading = self._begin(share)
        for start, stop in waiting:
            self._ahead[start, stop] = self._begin(Share(start, stop, last=False))
        return reading

    def _begin(self, share: Share) -> Future[Read]:
        if self._ask is not None:
            return self._line.submit(self._ask, share)
        if self.in_turn is not None:
            read = partial(_read, self._source, share, self._collate)
            return self._line.submit(self.in_turn, read)
        return self._line.submit(_read, self._source, share, self._collate)

    def _keep_for_later(self) -> None:
        starts = {start for start, _ in self._ahead}
        if self._newest is not None:
            starts.add(self._newest)
        self._source.keep(starts)


class _Table:
    """Samples by index, in the common order."""

    def __init__(self, dataset: Indexed, order: SampleOrder, workers: int) -> None:
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

    def keep(self, positions: Collection[int]) -> None:
        """Nothing: any sample can be asked for again."""

    def close(self) -> None:
        self._hands.shutdown(wait=True, cancel_futures=True)
        self._hands = _threads("weft-loader-hand", max(self._workers, 1))

    def _some(self, ids: list[int]) -> list[Any]:
        if self._several is None:
            return [self._dataset[index] for index in ids]
        return checked(self._several(ids), ids)


@dataclass(frozen=True, slots=True)
class _Portable:
    """Batches that can be sent to another worker, at every width."""

    collate: Collate

    def __call__(self, samples: list[Any]) -> Collated:
        return portable(self.collate(samples))


@dataclass(frozen=True, slots=True)
class _Pinned:
    """Batches in memory from which an accelerator can copy while it computes."""

    collate: Collate

    def __call__(self, samples: list[Any]) -> Collated:
        return pin_memory(self.collate(samples))  # type: ignore[no-untyped-call]


def _read(source: _Table | Stream, share: Share, collate: Collate) -> Read:
    began = time.thread_time()
    ids, samples = source.read(share)
    return Read(ids, collate(samples), time.thread_time() - began)


def _read_and_mark(source: _Table | Stream, share: Share, collate: Collate) -> Read:
    """With where the stream stands at the beginning of the step, unless that is long to tell."""
    read = _read(source, share, collate)
    return read._replace(mark=source.mark(share.start)) if isinstance(source, Stream) else read


def _threads(name: str, number: int) -> ThreadPoolExecutor:
    """They start with the first work, and end with the loader or the interpreter at the latest."""
    return ThreadPoolExecutor(number, thread_name_prefix=name)


def _only(collate: Collate | None, same: Collate | None) -> Collate | None:
    if collate is not None and same is not None:
        raise SpecError("collate and collate_fn are the same", hint="write one of the two")
    return collate or same


def _check_workers(threads: int, options: ProcessOptions) -> None:
    if threads < 0:
        raise SpecError(f"{threads} workers of a loader", hint="write 0 or more")
    if threads and options.get("num_workers"):
        raise SpecError(
            "workers are threads and num_workers are processes",
            hint="write one of the two",
        )


def _check_stream(options: ProcessOptions) -> None:
    if options.get("num_workers"):
        raise SpecError(
            "processes cannot share a stream: each would read all of it",
            hint="leave num_workers out; a thread reads it ahead of the training",
        )


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
