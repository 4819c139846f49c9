"""Being spread costs: a job waits for a tighter place, but never longer than that is worth."""

import pytest

from tests.builders import (
    Scene,
    a_cluster,
    a_job,
    a_node,
    a_queue,
    given,
    is_now,
    jobs,
    runs,
    starts_on,
    waits_because,
)
from weft.model.reason import Cause, ReasonCode
from weft.model.request import Locality
from weft.model.state import State
from weft.policy.place.patience import Patience
from weft.policy.recipes import backfill

PER_NODE = Locality(0.15, 0.0)
PER_RACK = Locality(0.0, 0.10)


def two_broken_nodes(*, patience: float = 1800.0) -> Scene:
    """Three GPUs are free on each of two nodes of eight."""
    recipe = backfill(reserve=False)
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(recipe, patience=Patience(patience))
    return scene.submit(*jobs(2, "five", 5, seconds=1e6)).decide()


def test_a_gang_wider_than_a_node_waits_for_no_better_place() -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(backfill(reserve=False))
    scene.submit(a_job("gang", 16, seconds=1000.0, locality=PER_NODE)).decide()
    scene.expect("gang", is_now(State.RUNNING))


def test_a_gang_wider_than_a_rack_waits_for_no_better_place() -> None:
    recipe = backfill(reserve=False)
    scene = given(a_cluster(nodes=4, gpus=8, racks=4)).with_recipe(recipe)
    scene.submit(a_job("gang", 32, seconds=1e5, locality=Locality())).decide()
    scene.expect("gang", is_now(State.RUNNING))


def test_a_gang_waits_for_fewer_racks_and_says_how_many() -> None:
    scene = given(a_cluster(nodes=8, gpus=8, racks=4)).with_recipe(backfill(reserve=False))
    scene.submit(*jobs(8, "one", 8, seconds=1e6)).decide()
    by_node = {node: f"one{i}" for i in range(8) for node in scene.nodes(f"one{i}")}
    for node in ("n1", "n3", "n5"):
        scene.finish(by_node[node])
    scene.submit(a_job("gang", 24, seconds=1e4, locality=PER_RACK)).decide()
    told = {"nodes": 3, "racks": 3, "fewest": 3, "fewest_racks": 2}
    scene.expect("gang", waits_because(ReasonCode.LOCALITY_WAIT, **told))
    assert scene.reasons("gang")[0].numbers["slowdown"] == pytest.approx(1.158 / 1.1, abs=1e-3)
    scene.finish(by_node["n0"]).decide().expect("gang", is_now(State.RUNNING))


def test_a_job_waits_for_one_node_and_says_for_how_long() -> None:
    scene = two_broken_nodes().submit(a_job("six", 6, seconds=1000.0, locality=PER_NODE)).decide()
    scene.expect(
        "six",
        waits_because(ReasonCode.LOCALITY_WAIT, nodes=2, fewest=1, slowdown=1.15),
    )
    assert scene.reasons("six")[0].numbers["bound"] == pytest.approx(150.0)


def test_it_takes_the_tight_place_when_one_appears() -> None:
    scene = two_broken_nodes().submit(a_job("six", 6, seconds=1e4, locality=PER_NODE)).decide()
    scene.finish("five0").decide().expect("six", starts_on("n0"))


def test_it_never_waits_longer_than_the_slowdown_would_cost() -> None:
    scene = two_broken_nodes().submit(a_job("six", 6, seconds=1000.0, locality=PER_NODE)).decide()
    scene.wait(140.0).expect("six", is_now(State.QUEUED))
    scene.wait(12.0).expect("six", runs, starts_on("n0", "n1"))
    assert 0 < scene.waited("six")[Cause.LOCALITY] <= 150.0


def test_the_wait_is_capped_where_the_length_is_huge_or_unknown() -> None:
    for length in ({"seconds": 1e9}, {"seconds": 60.0, "tell_work": False}):
        job = a_job("six", 6, locality=PER_NODE, **length)  # type: ignore[arg-type]
        scene = two_broken_nodes(patience=300.0).submit(job).decide()
        scene.wait(290.0).expect("six", is_now(State.QUEUED)).wait(12.0).expect("six", runs)
        assert scene.waited("six")[Cause.LOCALITY] <= 300.0


def test_without_a_cost_it_starts_spread_at_once() -> None:
    two_broken_nodes().submit(a_job("six", 6)).decide().expect("six", starts_on("n0", "n1"))


def test_patience_of_zero_turns_the_wait_off() -> None:
    scene = two_broken_nodes(patience=0.0).submit(a_job("six", 6, locality=PER_NODE)).decide()
    scene.expect("six", runs)


def test_a_patient_job_does_not_hold_an_impatient_one_of_its_kind() -> None:
    scene = two_broken_nodes()
    scene.submit(a_job("patient", 6, seconds=1e6, locality=PER_NODE))
    scene.submit(a_job("hasty", 6, seconds=1.0, locality=PER_NODE)).decide()
    scene.expect("patient", is_now(State.QUEUED)).expect("hasty", runs)


def test_the_same_where_queues_have_guarantees() -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(backfill(reserve=False))
    scene.with_queues(a_queue("default", 16)).submit(*jobs(2, "five", 5, seconds=1e6)).decide()
    scene.submit(a_job("patient", 6, seconds=1e6, locality=PER_NODE))
    scene.submit(a_job("hasty", 6, seconds=1.0, locality=PER_NODE)).decide()
    scene.expect("patient", is_now(State.QUEUED)).expect("hasty", runs)


def test_the_wait_is_counted_once_over_several_visits() -> None:
    """Blocked by others in between, a job does not get its patience back."""
    scene = two_broken_nodes().submit(a_job("six", 6, seconds=1000.0, locality=PER_NODE)).decide()
    scene.wait(100.0).submit(*jobs(6, "filler", seconds=1e6, priority=1)).decide()
    scene.expect("six", is_now(State.QUEUED)).tick(1000.0)
    scene.finish(*(f"filler{i}" for i in range(6))).decide()
    scene.wait(60.0).expect("six", runs)
    assert scene.waited("six")[Cause.LOCALITY] <= 150.0


def test_one_rack_is_preferred_to_two() -> None:
    scene = given(a_cluster(nodes=4, gpus=8, racks=2)).submit(a_job("five", 5)).decide()
    scene.submit(a_job("gang", 16, locality=PER_RACK)).decide()
    scene.expect("gang", starts_on("n2", "n3"))


def test_a_gang_over_two_racks_waits_for_one() -> None:
    scene = given(a_cluster(nodes=4, gpus=8, racks=2)).with_recipe(backfill(reserve=False))
    scene.submit(a_job("a", 8, seconds=1e6)).decide()
    scene.submit(a_job("b", 16, seconds=1e6)).decide().expect("b", starts_on("n2", "n3"))
    scene.finish("a").decide().submit(a_job("c", 8, seconds=1e6)).decide()
    scene.finish("b").decide().submit(a_job("d", 8, seconds=1e6)).decide()
    assert scene.running() == {"c", "d"}


# --- several GPU types --------------------------------------------------------------------------

MIXED = a_cluster(
    a_node("old0", 8, type="v100"), a_node("old1", 8, type="v100"), a_node("new", 8, type="h100")
)
BOTH = [("v100", 1.0), ("h100", 3.0)]


def test_the_fastest_accepted_type_comes_first() -> None:
    given(MIXED).submit(a_job("job", 8, types=BOTH)).decide().expect("job", starts_on("new"))


def test_the_next_type_is_taken_where_the_fastest_is_full() -> None:
    scene = given(MIXED).submit(a_job("first", 8, types=BOTH)).decide()
    scene.submit(a_job("second", 8, types=BOTH)).decide().expect("second", starts_on("old0"))


@pytest.mark.parametrize("types", [BOTH, []], ids=["both accepted", "any accepted"])
def test_a_gang_never_mixes_types(types: list[tuple[str, float]]) -> None:
    scene = given(MIXED).submit(a_job("gang", 16, types=types)).decide()
    scene.expect("gang", starts_on("old0", "old1"))
    scene.submit(a_job("wide", 24, types=types)).decide()
    scene.expect("wide", waits_because(ReasonCode.CONSTRAINT_NEVER, need=24, largest=16))


def test_progress_is_made_at_the_speed_of_the_type() -> None:
    scene = given(MIXED).submit(a_job("job", 8, seconds=3000.0, types=BOTH)).decide().tick(500.0)
    slot = scene.brain.state.slot_of[next(iter(scene.brain.state.slot_of))]
    assert scene.brain.state.snapshot(500.0).job(slot).remaining_seconds == pytest.approx(1500.0)


def test_a_gang_never_spans_two_pools() -> None:
    cluster = a_cluster(a_node("a", 8, pool="east"), a_node("b", 8, pool="west"))
    scene = given(cluster).submit(a_job("gang", 16)).decide()
    scene.expect("gang", waits_because(ReasonCode.CONSTRAINT_NEVER, need=16, largest=8))


def test_racks_of_the_same_name_in_two_pools_are_two_racks() -> None:
    cluster = a_cluster(
        a_node("a0", 8, pool="east"),
        a_node("b0", 8, pool="west"),
        a_node("b1", 8, pool="west", rack="r1"),
    )
    given(cluster).submit(a_job("gang", 16)).decide().expect("gang", starts_on("b0", "b1"))
