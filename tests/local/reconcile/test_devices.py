"""Devices are bound from the record: never one to two jobs, whatever the brain believes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.local.builders import a_seat, a_started, an_entry, seats
from weft.local.reconcile.devices import bind, free_devices, on_devices, rebind
from weft.local.record.entry import End
from weft.model.errors import WorldError
from weft.model.placement import Seat
from weft.model.state import State

WANTED = st.lists(st.integers(0, 3), max_size=5)


@given(st.integers(0, 8), WANTED)
def test_each_seat_gets_its_own_devices_or_nobody_does(slots: int, gpus: list[int]) -> None:
    asked = [Seat("n", count, number=number) for number, count in enumerate(gpus)]  # type: ignore[arg-type]
    if sum(gpus) > slots:
        with pytest.raises(WorldError):
            bind(asked, range(slots))
        return
    bound = bind(asked, range(slots))
    given_out = [device for seat in bound for device in seat.devices]
    assert len(set(given_out)) == len(given_out) == sum(gpus)
    assert [len(seat.devices) for seat in bound] == gpus


def test_what_is_on_record_is_not_free() -> None:
    holding = a_started(State.RUNNING, 0, 2)
    assert free_devices(range(4), [holding, an_entry()]) == [1, 3]


def test_both_sides_of_a_resize_are_held_until_it_is_over() -> None:
    growing = a_started(State.RUNNING, 0, target=seats(0, 1), target_serial=1)
    shrinking = a_started(State.RUNNING, 2, 3, target=(a_seat(0, 2),), target_serial=1)
    assert free_devices(range(4), [growing, shrinking]) == []


@pytest.mark.parametrize("over", [{"end": End("drained", 143, "")}, {"state": State.FAILED}])
def test_what_has_ended_on_record_is_free(over: dict[str, object]) -> None:
    assert free_devices(range(2), [a_started(State.RUNNING, 0, 1).with_changes(**over)]) == [0, 1]


def test_seats_that_stay_keep_their_devices() -> None:
    present = (a_seat(0, 3), a_seat(1, 1))
    wanted = (Seat("n", 1, number=0), Seat("n", 1, number=2))  # type: ignore[arg-type]
    assert [seat.devices for seat in rebind(wanted, present, [0, 2])] == [(3,), (0,)]


@given(st.permutations(range(4)), st.integers(1, 4))
def test_seats_follow_the_devices_that_are_in_use(order: list[int], count: int) -> None:
    used = set(order[:count])
    moved = on_devices(seats(*range(count)), used)
    assert {device for seat in moved for device in seat.devices} == used
    for seat in moved:
        if seat.number in used:
            assert seat.devices == (seat.number,)
