"""What is free while a round hands it out."""

import numpy as np
import pytest

from weft.model.ids import NodeId
from weft.model.placement import Seat
from weft.policy.place.room import Room


@pytest.mark.parametrize(
    ("gpus", "cpus", "memory_gib", "held"),
    [(2, 4.0, 16.0, True), (3, 0.0, 0.0, False), (1, 5.0, 0.0, False), (1, 0.0, 17.0, False)],
)
def test_a_seat_needs_all_that_it_has(
    gpus: int, cpus: float, memory_gib: float, held: bool
) -> None:
    """A seat with memory that another was given meanwhile cannot be taken back."""
    room = Room(np.array([2]), np.array([4.0]), np.array([16.0]))
    assert room.holds(0, Seat(NodeId("n0"), gpus, cpus, memory_gib)) is held
