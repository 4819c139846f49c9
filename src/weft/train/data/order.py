"""Which sample stands at which position of a training run, for ever and for everybody.

A run is one long row of positions 0, 1, 2, …; every pass over the dataset takes `samples` of them
and goes through it in an order of its own. The order is a function of (seed, pass, position) and is
nowhere stored: a worker that joins, returns or takes over needs no list and no history, only the
position at which the job stands. So every sample is used exactly once per pass for any number of
workers, any plan and any number of restarts. A sampler that shuffles a list cannot do this (each
worker would have to hold and to agree on the list), nor can torch's `StatefulDataLoader`, which
keeps a state per worker that means nothing to another number of ranks.

The order is a Feistel network over the rectangle `rows × columns`, the smallest about-square one
that holds all samples (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002):
each round shifts one coordinate by a hash of the other, which can be undone and hence is a
bijection. What lands behind the last sample walks on until it lands before it. Nothing here is
secret; eight rounds make the orders of even four samples equally likely. All arithmetic stays
below 2^64, so Python integers and NumPy's give the same order on every machine.
"""

from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from math import isqrt
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from weft.model.errors import SpecError

# One or many, of uint64; NumPy's stubs take a bit operation with an int for a signed one.
Number = TypeVar("Number", int, npt.NDArray[Any])

MOST_SAMPLES = 2**62
ROUNDS = 8
_BLOCK = 8192  # positions worked on together: their intermediate values stay in the cache
_LOW_32_BITS = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class SampleOrder:
    """The order of all passes over a dataset; `shuffle=False` takes the samples as they stand."""

    samples: int
    seed: int
    shuffle: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.samples <= MOST_SAMPLES:
            raise SpecError(
                f"a dataset of {self.samples} samples cannot be ordered",
                hint="give a dataset that holds at least one sample",
            )

    def sample(self, position: int) -> int:
        """The index in the dataset of the sample at one position of the run."""
        number, place = divmod(position, self.samples)
        if not self.shuffle:
            return place
        keys = _round_keys(self.seed, number)
        place = _shifted(place, self.samples, keys)
        while place >= self.samples:
            place = _shifted(place, self.samples, keys)
        return place

    def slice(self, start: int, stop: int) -> list[int]:
        """The samples at positions start … stop - 1, in this order; they may span passes."""
        found: list[int] = []
        while start < stop:
            number, place = divmod(start, self.samples)
            end = min(place + stop - start, self.samples, place + _BLOCK)
            found += self._places(number, place, end)
            start += end - place
        return found

    def _places(self, number: int, start: int, stop: int) -> list[int]:
        """The samples at some places of one pass."""
        if not self.shuffle:
            return list(range(start, stop))
        keys = _round_keys(self.seed, number)
        places = _shifted(np.arange(start, stop, dtype=np.uint64), self.samples, keys)
        while (outside := np.flatnonzero(places >= self.samples)).size:
            places[outside] = _shifted(places[outside], self.samples, keys)
        found: list[int] = places.tolist()
        return found


@lru_cache(maxsize=64)
def _round_keys(seed: int, number: int) -> tuple[int, ...]:
    """One key of 32 bits for each round of one pass."""
    digest = blake2b(f"{seed}/{number}".encode(), digest_size=4 * ROUNDS).digest()
    return tuple(int.from_bytes(digest[at : at + 4], "little") for at in range(0, len(digest), 4))


def _shifted(place: Number, samples: int, keys: tuple[int, ...]) -> Number:
    """Once through all rounds: from the rectangle that holds all samples onto itself."""
    rows = isqrt(samples - 1) + 1
    columns = -(-samples // rows)
    row, column = place // columns, place % columns
    for by_column, by_row in zip(keys[::2], keys[1::2], strict=True):
        row = (row + _mixed(column ^ by_column)) % rows
        column = (column + _mixed(row ^ by_row)) % columns
    place = row * columns + column
    return place


def _mixed(value: Number) -> Number:
    """A hash of 32 bits (C. Wellons's `lowbias32`); each product stays below 2^64."""
    value = ((value ^ (value >> 16)) * 0x7FEB352D) & _LOW_32_BITS
    value = ((value ^ (value >> 15)) * 0x846CA68B) & _LOW_32_BITS
    value = value ^ (value >> 16)
    return value
