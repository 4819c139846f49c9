"""Placements in short: nothing is lost, whatever the nodes are called and the seats are like."""

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kube.looks import a_job
from weft.kube.operator.status.patches import decision_patch, in_plain_form
from weft.kube.seat_runs import FEW, folded, runs_of, seats_of, unfolded
from weft.model.decision import Assignment
from weft.model.ids import NodeId
from weft.model.placement import Placement, Seat
from weft.model.state import State

LABELS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?(\.[a-z0-9]{1,4}){0,2}", fullmatch=True)
NUMBERED = st.builds(
    lambda before, number, width, after: f"{before}{number:0{width}d}{after}",
    st.sampled_from(["node-", "n", "ip-10-0-", "gpu", ""]),
    st.integers(0, 1_200),
    st.integers(1, 5),
    st.sampled_from(["", ".eu-west-1.compute.internal", "a", "-0"]),
)
NODES = st.lists(NUMBERED | LABELS, min_size=1, max_size=60)
SIZES = st.sampled_from([(8, 64.0, 476.5), (8, 0.0, 0.0), (1, 0.1, 1 / 3)])


@given(NODES)
def test_names_come_back_in_their_order(names: list[str]) -> None:
    assert unfolded(folded(names)) == names


@settings(max_examples=40)
@given(NODES, st.lists(SIZES, min_size=1, max_size=3), st.integers(0, 50))
def test_seats_come_back_as_they_were(
    names: list[str], sizes: list[tuple[int, float, float]], begin: int
) -> None:
    many = (names * (FEW + 1))[: 4 * (FEW + 1)]
    numbers = list(range(begin, begin + len(many)))
    numbers[begin % 7 :: 11] = [number + 10_000 for number in numbers[begin % 7 :: 11]]
    each = len(many) // len(sizes) + 1
    seats = [
        {"number": number, "node": node, "gpus": gpus, "cpus": cpus, "memoryGib": memory}
        for place, (number, node) in enumerate(zip(numbers, many, strict=True))
        for gpus, cpus, memory in [sizes[place // each]]
    ]
    runs = runs_of(seats)
    assert runs is not None
    assert seats_of({"runs": orjson.loads(orjson.dumps(runs))}) == seats


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["node-008", "node-009", "node-010", "node-012"], "node-[008..010,012]"),
        (["n9", "n10", "n11"], "n[9..11]"),
        (["a-3.rack", "a-3.rack", "a-7.rack"], "a-[3*2,7].rack"),
        (["k1", "k1", "k2", "k2"], "k[1..2*2]"),
        (["same"] * 3, "same[*3]"),
        (["ab", "a"], "a[b,]"),
        (["09", "1", "2"], "[09,1..2]"),
    ],
)
def test_people_can_read_it(names: list[str], text: str) -> None:
    assert folded(names) == text
    assert unfolded(text) == names


def test_few_seats_and_those_that_differ_stay_in_the_plain_form() -> None:
    seats = [a_seat(number) for number in range(FEW)]
    assert runs_of(seats) is None
    assert seats_of({"seats": seats}) == seats
    mixed = [{**a_seat(number), "cpus": float(number % 2)} for number in range(400)]
    assert runs_of(mixed) is None
    odd = [{**a_seat(number), "node": "a..1"} for number in range(400)]
    assert runs_of(odd) is None


@pytest.mark.parametrize("text", ["0..99999999999", "1*99999999", ",".join(["0..999999"] * 3)])
def test_a_list_that_would_fill_the_memory_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="more than 1,000,000 seats"):
        seats_of({"runs": [{"numbers": text, "nodes": "n[1]", "gpus": 1}]})


def test_a_wide_decision_is_small_and_survives_a_definition_that_prunes_it() -> None:
    seats = tuple(
        Seat(NodeId(f"gpu-node-{n:05d}"), 8, 64.0, 476.5, number=n) for n in range(10_000)
    )
    job, wide = a_job("wide"), Placement(seats)
    given = Assignment(wide.width, wide)
    patch = decision_patch(job, 1, given, state=State.STARTING, now=0.0, leader=1)
    assert len(orjson.dumps(patch)) < 2_000
    assert "seats" not in patch["status"]["decision"]
    kept = {"metadata": {"resourceVersion": "8"}, "status": {"decision": {"runs": [1]}}}
    assert in_plain_form(patch, kept) is None
    pruned = {"metadata": {"resourceVersion": "8"}, "status": {"decision": {"epoch": 1}}}
    again = in_plain_form(patch, pruned)
    assert again is not None
    assert again["metadata"] == {"resourceVersion": "8"}
    assert len(again["status"]["decision"]["seats"]) == 10_000


def a_seat(number: int) -> dict[str, object]:
    return {"number": number, "node": f"n{number}", "gpus": 8, "cpus": 0.0, "memoryGib": 0.0}
