"""Samples that are read by processes, which are those of torch's own DataLoader.

The DataLoader draws what it is to read from a batch sampler, some batches ahead. Here that sampler
is a plan: the shares that this worker will be asked for if nothing changes. As long as that holds,
batches come out in the order in which they are wanted. After a resize, a loss or a repeated step it
does not hold, and the DataLoader is begun anew with another plan, by the same processes. What they
had read ahead is thrown away, and read again by whoever it belongs to now: no sample is lost or
used twice, because a share is asked for by its positions, and no process has a place of its own.
What is on its way is recognised by the number of its plan and left unread, so that a change costs
each process at most the sample at which it is.

Processes are forked while the training thread waits for them, as with the plain DataLoader. They
die with the training process, also if that is killed: until then they would hold its connections
open, and others would wait for it. One that has died itself (the kernel's memory killer) is
replaced once, and its samples are read again; torch would raise an error at any line of the script.

In a process nothing else draws chance. So all generators are seeded for each sample from its place
in the run, and an augmentation comes to the same at every width.
"""

import ctypes
import random
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypedDict

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, get_worker_info

from weft.model.errors import SpecError
from weft.train.data.order import SampleOrder
from weft.train.data.split import Share

Collated: TypeAlias = Any  # whatever the collate function makes of some samples
Collate: TypeAlias = Callable[[list[Any]], Collated]

DIED: Final = "DataLoader worker (pid"  # how torch begins to tell it
PR_SET_PDEATHSIG: Final = 1


class Indexed(Protocol):
    """A dataset that gives any of its samples by index (map-style)."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...  # noqa: ANN401 - a sample is what it is


class ProcessOptions(TypedDict, total=False):
    """In the words of torch's DataLoader, with the same meaning."""

    num_workers: int
    pin_memory: bool
    prefetch_factor: int | None
    collate_fn: Collate | None
    persistent_workers: bool
    worker_init_fn: Callable[[int], None] | None
    timeout: float
    multiprocessing_context: Any


class Read(NamedTuple):
    """The samples of a share."""

    ids: tuple[int, ...]
    data: Collated
    busy_seconds: float
    mark: Any = None  # where a stream stood before, for whoever may have to read it next
    waited_seconds: float = 0.0  # for its turn, before anything was read


class _Wanted(NamedTuple):
    """One share, as a process is asked for it."""

    plan: int
    start: int
    ids: list[int]

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.start + len(self.ids)


@dataclass(slots=True, eq=False)
class _Plan:
    """What is to be read next, in order; a batch sampler that may run dry and flow again."""

    order: SampleOrder
    number: Tensor  # of the newest plan, seen by all processes
    coming: deque[tuple[int, int]] = field(default_factory=deque)
    drawn: deque[_Wanted] = field(default_factory=deque)

    def __iter__(self) -> Iterator[_Wanted]:
        return self

    def __next__(self) -> _Wanted:
        if not self.coming:
            raise StopIteration
        start, stop = self.coming.popleft()
        self.drawn.append(_Wanted(int(self.number.item()), start, self.order.slice(start, stop)))
        return self.drawn[-1]

    def replace(self, spans: Iterable[tuple[int, int]]) -> None:
        self.number += 1
        self.drawn.clear()
        self.coming = deque(spans)


class _Nothing(Dataset[Any]):
    """To try options on."""

    def __len__(self) -> int:
        return 1


class _Reader(Dataset[Any]):
    """The dataset as a process sees it: a whole share at a time, already collated."""

    def __init__(self, dataset: Indexed, collate: Collate, seed: int, newest: Tensor) -> None:
        self._dataset, self._collate = dataset, collate
        self._seed, self._newest = seed, newest
        self._several = getattr(dataset, "__getitems__", None)

    def __getitems__(self, wanted: _Wanted) -> tuple[float, Collated]:
        began = time.process_time()
        samples: list[Any] = []
        if self._several is not None and self._is_wanted(wanted):
            _seed(self._seed, wanted.start)
            samples = checked(self._several(wanted.ids), wanted.ids)
        else:
            for position, index in enumerate(wanted.ids, wanted.start):
                if not self._is_wanted(wanted):
                    return 0.0, None
                _seed(self._seed, position)
                samples.append(self._dataset[index])
        data = self._collate(samples) if self._is_wanted(wanted) else None
        return time.process_time() - began, data

    def _is_wanted(self, wanted: _Wanted) -> bool:
        return wanted.plan == self._newest.item()


@dataclass(frozen=True, slots=True)
class _Beginning:
    """What a process does first."""

    dataset: Indexed
    then: Callable[[int], None] | None

    def __call__(self, number: int) -> None:
        _die_with_the_parent()
        object.__setattr__(get_worker_info(), "dataset", self.dataset)  # the user's own
        if self.then is not None:
            self.then(number)


class LoaderProcesses:
    """Reads shares in the order in which they are expected, and any other at once."""

    def __init__(
        self,
        dataset: Indexed,
        order: SampleOrder,
        collate: Collate,
        options: ProcessOptions,
    ) -> None:
        self._plan = _Plan(order, _shared_number())
        self._reader = _Reader(dataset, collate, order.seed, self._plan.number)
        self._begin = _Beginning(dataset, options.get("worker_init_fn"))
        self._options = options
        self._batches: Iterator[Any] | None = None
        self._loader: DataLoader[Any] | None = None
        self._keeps = options.get("persistent_workers", False)
        self.reach = 1 + self._made().num_workers * (self._made().prefetch_factor or 1)

    def take(self, share: Share) -> Read:
        """The samples of a share; if processes have died of it, once more."""
        try:
            return self._taken(share)
        except RuntimeError as error:
            if not str(error).startswith(DIED):
                raise
            self._mourn(error)
            return self._taken(share)

    def expect(self, shares: Iterable[Share]) -> None:
        """These will be wanted next; what is on its way stays if it agrees with that."""
        spans = [_span(share) for share in shares]
        held = [wanted.span for wanted in self._plan.drawn]
        if held == spans[: len(held)] and (held or not spans):
            self._plan.coming = deque(spans[len(held) :])
            return
        try:
            self._start(spans)
        except RuntimeError as error:
            if not str(error).startswith(DIED):
                raise
            self._mourn(error)

    def close(self) -> None:
        """A loop is over; with persistent workers, its processes wait for the next."""
        self._plan.replace(())
        if not self._keeps:
            self._end()

    def _taken(self, share: Share) -> Read:
        drawn = self._plan.drawn
        if not drawn or drawn[0].span != _span(share):
            self._start([_span(share)])
        assert self._batches is not None
        wanted = drawn.popleft()
        busy, data = next(self._batches)
        return Read(tuple(wanted.ids), data, busy)

    def _start(self, spans: Iterable[tuple[int, int]]) -> None:
        self._plan.replace(spans)
        if self._loader is None:
            self._loader = self._made()
        self._batches = _begun(self._loader)

    def _made(self) -> DataLoader[Any]:
        """By itself it starts nothing."""
        given: dict[str, Any] = {
            **self._options,
            "collate_fn": _as_it_is,
            "worker_init_fn": self._begin,
            "persistent_workers": True,  # they stay when the plan is replaced
            "generator": torch.Generator().manual_seed(self._plan.order.seed & 0x7FFF_FFFF),
        }
        plan: Any = self._plan  # what it gives is no list, and nobody but the reader looks at it
        return DataLoader(self._reader, batch_sampler=plan, **given)

    def _mourn(self, error: RuntimeError) -> None:
        self._end()
        warnings.warn(f"{error}: what it had to read is read again", RuntimeWarning, stacklevel=2)

    def _end(self) -> None:
        """Torch ends the processes with their iterator, which a traceback may hold."""
        ending = getattr(self._batches, "_shutdown_workers", None)
        self._batches = self._loader = None
        self._plan.replace(())
        if ending is not None:
            ending()


def understood(options: ProcessOptions) -> ProcessOptions:
    """The same, without what cannot be had here; torch refuses what contradicts itself."""
    unknown = sorted(options.keys() - ProcessOptions.__annotations__.keys())
    if unknown:
        raise TypeError(f"a loader has no option {', '.join(unknown)}")
    if options.get("pin_memory") and not torch.accelerator.is_available():
        warnings.warn("pin_memory is ignored: there is no accelerator", stacklevel=4)
        options = {**options, "pin_memory": False}
    try:
        DataLoader(_Nothing(), **options)
    except ValueError as error:
        raise SpecError(str(error), hint="see torch.utils.data.DataLoader") from error
    return options


def checked(found: Iterable[Any], ids: list[int]) -> list[Any]:
    """What `__getitems__` has given."""
    samples = list(found)
    if len(samples) != len(ids):
        raise SpecError(
            f"the dataset gave {len(samples)} samples for {len(ids)} indices",
            hint="__getitems__ must return one sample for each index that it is given",
        )
    return samples


def _begun(loader: DataLoader[Any]) -> Iterator[Any]:
    """Without torch's handler, which raises an error wherever the training thread is."""
    if threading.current_thread() is not threading.main_thread():
        return iter(loader)
    before = signal.getsignal(signal.SIGCHLD)
    try:
        return iter(loader)
    finally:
        signal.signal(signal.SIGCHLD, before if before is not None else signal.SIG_DFL)


def _seed(seed: int, position: int) -> None:
    """Everything that a dataset may draw from."""
    drawn = (seed * 1_000_003 + position) * 1_000_033 & 0x7FFF_FFFF_FFFF_FFFF
    torch.default_generator.manual_seed(drawn)
    random.seed(drawn)
    np.random.seed(drawn & 0xFFFF_FFFF)  # noqa: NPY002 - the user's dataset may


def _die_with_the_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _shared_number() -> Tensor:
    number = torch.zeros(1, dtype=torch.int64)
    number.share_memory_()  # type: ignore[no-untyped-call]
    return number


def _span(share: Share) -> tuple[int, int]:
    return share.start, share.stop


def _as_it_is(data: Collated) -> Collated:
    return data
