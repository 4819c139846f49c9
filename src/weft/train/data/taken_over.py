"""A script's own DataLoader, taken over: its batch is the global batch, at any width.

What it says about reading (processes, pinned memory, collating) holds as it is. Its order does not:
that has to be the same for all workers and to be cut anew at every resize, so it is drawn from the
loader's seed. A sampler of the script's own cannot be cut, and is refused.
"""

from typing import Any
from weakref import WeakKeyDictionary

from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
)

from weft.model.errors import SpecError
from weft.train.data.loader import Loader
from weft.train.data.loader_processes import ProcessOptions

_taken: WeakKeyDictionary[DataLoader[Any], Loader] = WeakKeyDictionary()


def taken_over(theirs: DataLoader[Any]) -> Loader:
    """Weft's loader of the same samples; the same one for each loop that goes through it."""
    if theirs not in _taken:
        _taken[theirs] = _made(theirs)
    return _taken[theirs]


def _made(theirs: DataLoader[Any]) -> Loader:
    if theirs.batch_size is None or type(theirs.batch_sampler) is not BatchSampler:
        raise SpecError(
            "a DataLoader with a batch sampler of its own cannot be shared out",
            hint="give it batch_size, which is the global batch",
        )
    generator = theirs.generator
    return Loader(
        theirs.dataset,
        theirs.batch_size,
        seed=generator.initial_seed() if generator is not None else 0,
        shuffle=_shuffles(theirs),
        collate=theirs.collate_fn,
        **_options(theirs),
    )


def _shuffles(theirs: DataLoader[Any]) -> bool:
    sampler = theirs.sampler
    if isinstance(theirs.dataset, IterableDataset) or type(sampler) is SequentialSampler:
        return False
    whole = isinstance(sampler, RandomSampler) and sampler.num_samples == len(sampler.data_source)
    if type(sampler) is RandomSampler and whole and not sampler.replacement:
        return True
    raise SpecError(
        f"a {type(sampler).__name__} cannot be shared out",
        hint="write shuffle=True or leave it out: Weft gives each worker its part, exactly once",
    )


def _options(theirs: DataLoader[Any]) -> ProcessOptions:
    return {
        "num_workers": theirs.num_workers,
        "pin_memory": theirs.pin_memory,
        "prefetch_factor": theirs.prefetch_factor,
        "persistent_workers": theirs.persistent_workers,
        "worker_init_fn": theirs.worker_init_fn,
        "timeout": theirs.timeout,
        "multiprocessing_context": theirs.multiprocessing_context,
    }
