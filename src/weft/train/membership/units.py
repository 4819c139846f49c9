"""What has to be sent between the same two steps, and by whom: it follows from the records alone.

A parameter and what the optimizer keeps for it is a unit: were one sent a step later than the
other, a newcomer could not keep them up to date. What belongs to no parameter is the rest.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from weft.agent.checkpoint.layout import ITEM_BYTES, TensorRecord

CHUNK_BYTES: Final = 4 * 1024 * 1024
SMALL_BYTES: Final = 64 * 1024
BUNDLE_BYTES: Final = 256 * 1024
REST: Final = ""


@dataclass(frozen=True, slots=True)
class Roles:
    """Ranks in the state group: who has the state, and who is to get it."""

    donors: tuple[int, ...]
    joiners: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """Elements of one tensor, in their order."""

    record: TensorRecord
    start: int
    stop: int

    @property
    def bytes(self) -> int:
        return (self.stop - self.start) * ITEM_BYTES[self.record.dtype]


@dataclass(frozen=True, slots=True)
class Unit:
    """What has to be sent between the same two steps."""

    name: str
    records: tuple[TensorRecord, ...]

    @property
    def bytes(self) -> int:
        return sum(record.bytes for record in self.records)

    def messages(self) -> Iterator[tuple[Run, ...]]:
        """Small tensors together, large ones in pieces."""
        small = [r for r in self.records if 0 < r.bytes <= SMALL_BYTES]
        if small:
            yield tuple(Run(record, 0, record.elements) for record in small)
        for record in self.records:
            if record.bytes > SMALL_BYTES:
                length = max(CHUNK_BYTES // ITEM_BYTES[record.dtype], 1)
                for start in range(0, record.elements, length):
                    yield (Run(record, start, min(start + length, record.elements)),)


def units(records: Iterable[TensorRecord], changing: frozenset[str]) -> list[Unit]:
    """All of the state, the rest last; the same on both ends, since it follows from the records."""

    def owner(record: TensorRecord) -> str:
        root, _, name = record.name.partition("/")
        if root == "model" and record.name not in changing and "/" not in name:
            return name
        return name.rpartition("/")[0] if root == "optimizer" else REST

    ordered = sorted(records, key=lambda record: (owner(record), record.name))
    found = [Unit(name, tuple(of_it)) for name, of_it in groupby(ordered, key=owner)]
    rest = [unit for unit in found if unit.name == REST] or [Unit(REST, ())]
    return _bundled(unit for unit in found if unit.name != REST) + rest


def _bundled(found: Iterable[Unit]) -> list[Unit]:
    """A message costs as much as many numbers: small neighbours go together."""
    bundles: list[Unit] = []
    for unit in found:
        if bundles and bundles[-1].bytes + unit.bytes <= BUNDLE_BYTES:
            last = bundles.pop()
            unit = Unit(last.name, last.records + unit.records)  # noqa: PLW2901
        bundles.append(unit)
    return bundles


def dealt(found: Sequence[Unit], roles: Roles, joiner: int) -> dict[str, int]:
    """Which donor sends which unit to a newcomer: all donors about as much, at the same time."""
    turn = roles.joiners.index(joiner)
    order = [roles.donors[(turn + n) % len(roles.donors)] for n in range(len(roles.donors))]
    loads = dict.fromkeys(order, 0)
    deal = {REST: roles.donors[0]}
    for unit in sorted(found, key=lambda one: (-one.bytes, one.name)):
        if unit.name != REST:
            donor = min(order, key=loads.__getitem__)
            loads[donor] += unit.bytes
            deal[unit.name] = donor
    return deal
