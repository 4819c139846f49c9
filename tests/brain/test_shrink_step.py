"""Which seats a job could leave, and which of them only together."""

from hypothesis import given
from hypothesis import strategies as st

from weft.brain.round.shrink_step import ShrinkStep, shrink_steps
from weft.model.ids import NodeId
from weft.model.placement import Placement, Seat

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
EVERYWHERE = frozenset({A, B, C})


def placed(*nodes: NodeId) -> Placement:
    """A GPU on each; the first is the head's."""
    return Placement(tuple(Seat(node, 1, 2.0, number=n) for n, node in enumerate(nodes)))


def numbers(found: list[ShrinkStep]) -> list[tuple[int, ...]]:
    return [tuple(seat.number for seat in step.seats) for step in found]


def left(placement: Placement, usable: frozenset[NodeId], *, packed: bool) -> list[ShrinkStep]:
    return list(shrink_steps(placement, usable, packed=packed))


def test_seat_by_seat_where_it_has_fewest_first() -> None:
    assert numbers(left(placed(A, A, B, B, B, C), EVERYWHERE, packed=False)) == [
        (5,),
        (1,),
        (4,),
        (3,),
        (2,),
    ]


def test_packed_it_leaves_other_nodes_as_a_whole_and_its_heads_last() -> None:
    found = left(placed(A, A, A, B, B, C), EVERYWHERE, packed=True)
    assert numbers(found) == [(5,), (4, 3), (2,), (1,)]
    assert [step.whole for step in found] == [True, True, False, False]


def test_on_a_node_that_cannot_be_used_nobody_gains_by_it() -> None:
    job = placed(A, A, B, B, C)
    assert numbers(left(job, frozenset({A, C}), packed=False)) == [(4,), (1,)]
    assert numbers(left(job, frozenset({A, C}), packed=True)) == [(4,)], "b would be left behind"
    assert numbers(left(job, frozenset({B, C}), packed=True)) == [(4,), (3, 2)]


def test_a_portion_needs_what_its_seats_need() -> None:
    step = left(placed(A, B, B), EVERYWHERE, packed=True)[0]
    assert step.as_one() == Seat(B, 2, 4.0)


@given(nodes=st.lists(st.sampled_from([A, B, C]), min_size=1, max_size=12), packed=st.booleans())
def test_whatever_goes_the_head_stays_and_packed_it_is_on_one_node_or_has_whole_ones(
    nodes: list[NodeId], packed: bool
) -> None:
    before = placed(*nodes)
    stays = set(before.numbers)
    for step in left(before, EVERYWHERE, packed=packed):
        gone = {seat.number for seat in step.seats}
        assert gone <= stays
        stays -= gone
        after = before.only(stays)
        assert 0 in after.numbers
        if packed and len(after.nodes) > 1:
            assert after.gpus_by_node.items() <= before.gpus_by_node.items()
    assert stays == {0}
