"""Everybody stands somewhere, nobody stands in each other's way, and ranks are as torchrun's."""

from hypothesis import given
from hypothesis import strategies as st

from weft.agent.workers.places import HEAD_SEAT, Place, Places, Seat, Standing

SEATS = st.lists(st.integers(1, 4), min_size=1, max_size=5)


def crew(*gpus: int) -> Places:
    """A full crew on seats of so many GPUs."""
    places = Places()
    for number, count in enumerate(gpus):
        places.open(Seat(number, count, tuple(range(count))))
    for worker in range(sum(gpus)):
        assert places.take(worker) is not None
    return places


@given(gpus=SEATS)
def test_a_crew_is_counted_as_torchrun_counts(gpus: list[int]) -> None:
    places, width = crew(*gpus), sum(gpus)
    found = [places.standing(worker, worker, width) for worker in range(width)]
    expected = [
        Standing(sum(gpus[:node]) + local, width, local, count, node, len(gpus))
        for node, count in enumerate(gpus)
        for local in range(count)
    ]
    assert found == expected


@given(
    gpus=SEATS,
    moves=st.lists(st.tuples(st.sampled_from(["take", "release", "withdraw"]), st.integers(0, 19))),
)
def test_no_place_has_two_workers_and_none_is_lost(
    gpus: list[int], moves: list[tuple[str, int]]
) -> None:
    places = Places()
    for number, count in enumerate(gpus):
        places.open(Seat(number, count, tuple(range(count))))
    for what, number in moves:
        if what == "take" and places.of(number) is None:
            free = places.room is not None and places.room - _wanted(places) > 0
            assert (places.take(number) is not None) == free
        elif what == "release":
            places.release(number)
        elif what == "withdraw":
            places.withdraw(number)
        held = [places.of(worker) for worker in places.workers]
        assert len(set(held)) == len(held)
        assert {places.of(w).seat for w in places.unwanted} & set(places.seats) == set()  # type: ignore[union-attr]


def _wanted(places: Places) -> int:
    return len(set(places.workers) - places.unwanted)


def test_the_lowest_free_device_is_taken_and_told() -> None:
    places = Places()
    places.open(Seat(HEAD_SEAT, 2, (0, 3), by_device=True))
    assert [places.take(worker) for worker in (0, 1, 2)] == [Place(0, 0, 0), Place(0, 3, 3), None]
    places.release(0)
    assert places.take(2) == Place(0, 0, 0)
    assert places.standing(1, 1, 2) == Standing(1, 2), "whoever sees one device calls it 0"


def test_who_stands_on_a_device_that_was_taken_away_is_to_leave() -> None:
    places = Places()
    places.open(Seat(HEAD_SEAT, 2, (0, 3), by_device=True))
    places.take(0)
    places.take(1)
    places.open(Seat(HEAD_SEAT, 2, (3, 4), by_device=True))
    assert places.unwanted == {0}
    assert places.take(2) == Place(0, 4, 4)
    assert places.room == 2


def test_without_bounds_there_is_always_room() -> None:
    places = Places()
    places.open(Seat(HEAD_SEAT))
    for worker in range(50):
        assert places.take(worker) == Place(0, worker)
    assert places.room is None
    assert not places.unwanted
    assert places.standing(3, 3, 50) == Standing(3, 50, 3, 50, 0, 1)


def test_who_came_unbound_leaves_when_devices_are_shared_out() -> None:
    places = Places()
    places.open(Seat(HEAD_SEAT))
    places.take(0)
    places.open(Seat(HEAD_SEAT, 1, (0,), by_device=True))
    assert places.unwanted == {0}
