"""The speed of a job under a placement: nodes and racks cost what its locality says."""

import pytest

from tests.builders import a_cluster, a_node, a_request, node_table, seats
from weft.model.ids import NodeId
from weft.model.kind import kind_of
from weft.model.placement import Placement, Seat
from weft.model.request import Locality
from weft.perf.speed import Traits

TABLE = node_table(
    a_cluster(a_node("a", 8), a_node("b", 8), a_node("c", 8, rack="r1"), a_node("d", 4))
)
LOCALITY = Locality(per_node_doubling=0.5, per_rack_doubling=0.25)


def speed(placement: Placement, locality: Locality = LOCALITY) -> float:
    kind = kind_of(a_request("job", placement.width, locality=locality))
    return TABLE.units_per_second(placement, Traits(12.0, locality=locality), kind=kind)


def test_one_node_costs_nothing() -> None:
    assert speed(seats(a=8)) == 12.0


def test_two_nodes_cost_a_doubling_where_one_would_do() -> None:
    assert speed(seats(a=4, b=4)) == pytest.approx(12.0 / 1.5)


def test_the_fewest_nodes_for_a_width_cost_nothing() -> None:
    assert speed(seats(a=8, b=8)) == 12.0


def test_two_racks_cost_on_top() -> None:
    assert speed(seats(a=4, c=4)) == pytest.approx(12.0 / 1.5 / 1.25)


def test_a_job_without_gpus_has_the_speed_one() -> None:
    on_cores = Placement((Seat(NodeId("a"), 0, cpus=4.0),))
    kind = kind_of(a_request("job", 0, cpus=4.0))
    assert TABLE.units_per_second(on_cores, Traits(12.0), kind=kind) == 1.0
