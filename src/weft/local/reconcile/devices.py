"""Which devices a seat gets: bound here, because only this world can see them.

The free list is worked out from the record whenever somebody asks, never counted up and down. It is
also a guard of its own: whatever the brain believes, a device that is on record for one job is not
given to another, but to those who are to take turns with it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from weft.local.record.entry import Entry
from weft.model.errors import WorldError
from weft.model.ids import JobId
from weft.model.placement import Seat


def free_devices(slots: Sequence[int], entries: Iterable[Entry]) -> list[int]:
    """Those that no entry holds, the lowest first."""
    taken = {device for entry in entries for device in entry.devices}
    return [slot for slot in slots if slot not in taken]


def shared_devices(entries: Iterable[Entry], company: Collection[JobId]) -> list[int]:
    """Those of the jobs that another one joins; none as long as none of them has any."""
    return sorted({device for entry in entries if entry.id in company for device in entry.devices})


def bind(seats: Iterable[Seat], free: Sequence[int]) -> tuple[Seat, ...]:
    """Each seat with as many of the free devices as it has GPUs; those that have some keep them."""
    left = list(free)
    bound = []
    for seat in seats:
        missing = seat.gpus - len(seat.devices)
        if missing > len(left):
            raise WorldError(
                f"seat {seat.number} needs {missing} devices and {len(left)} are free",
                hint="somebody still holds what the decision was made about",
            )
        got, left = left[:missing], left[missing:]
        bound.append(replace(seat, devices=(*seat.devices, *got)))
    return tuple(bound)


def rebind(seats: Iterable[Seat], present: Iterable[Seat], free: Sequence[int]) -> tuple[Seat, ...]:
    """Seats that were there before keep their devices, and new ones get free ones."""
    known = {seat.number: seat.devices for seat in present}
    return bind((replace(seat, devices=known.get(seat.number, ())) for seat in seats), free)


def on_devices(seats: Sequence[Seat], used: Collection[int]) -> tuple[Seat, ...]:
    """The same seats on devices that are in use: their own where they are, else another's."""
    if not used:
        return tuple(seats)
    kept = [
        replace(seat, devices=tuple(device for device in seat.devices if device in used))
        for seat in seats
    ]
    spoken_for = {device for seat in kept for device in seat.devices}
    return bind(kept, sorted(set(used) - spoken_for))
