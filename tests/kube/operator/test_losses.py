"""Workers that are lost, again and again or without an end: what the operator does about it.

A cluster in memory, with the operator's own steps and a real brain.
"""

from dataclasses import replace

import pytest

from tests.builders import a_cluster, given
from tests.builders import a_job as requested
from tests.kube.looks import a_job
from tests.kube.operator.small_world import NAMESPACE, SmallWorld
from weft.brain.event import NodeLost, Past
from weft.brain.instruction import Stop, Wake
from weft.kube.operator.losses import STOPPED, Losses
from weft.kube.operator.status.patches import Standing, standing_patch
from weft.model.ids import JobId
from weft.model.state import State


def fail_at_once(world: SmallWorld, job: str, exit_code: int) -> None:
    """Whatever of the job runs ends at once."""
    for name, pod in world.pods.items():
        if pod.job == job and pod.running:
            world._put(name, phase="Failed", exit_code=exit_code, reason="Error")


def test_a_job_that_its_surroundings_fail_at_once_is_tried_ever_more_seldom() -> None:
    world = SmallWorld({"n0": 8}, "backfill", live=False)
    world.submit("vit", "8")
    for _ in range(600):
        world.act(1.0)
        world.kubelets()
        world.act(0.0)
        fail_at_once(world, "vit", 75)
    epochs = world.observed("vit").epoch
    assert 4 <= epochs <= 10, f"{epochs} starts in ten minutes"
    assert world.brain.explain(JobId(f"{NAMESPACE}/vit"))[0].code.slug == "Backoff.Lost"


# --- workers that do not go -----------------------------------------------------------------------

CLAIM = {"volumes": [{"claim": "runs", "path": "/runs"}]}
READ_ONLY = {"volumes": [{"claim": "data", "path": "/data", "read_only": True}]}


def test_a_pod_that_does_not_end_on_a_ready_node_is_told_with_what_helps() -> None:
    world = SmallWorld({"n0": 8}, "backfill", live=False)
    world.submit("vit", "8")
    world.settle()
    world.wedged.add("n0")
    world.cancel("vit")
    world.act()
    assert not world.observed("vit").held_up
    world.settle()
    told = world.observed("vit").held_up
    for part in ("vit-1-0 on n0", "gone by", "8 GPUs", "--force"):
        assert part in told
    written = world.observed("vit").version
    world.settle()
    assert world.observed("vit").version == written, "the same is not written again"
    world.wedged.clear()
    world.settle()
    assert world.state("vit") == "Cancelled"
    assert not world.observed("vit").held_up


def lost_with(live: bool, **spec: object) -> SmallWorld:
    """A job that cannot shrink, whose node is out of reach for longer than the fence."""
    world = SmallWorld({"n0": 8, "n1": 8}, "backfill", live=live)
    world.submit("vit", "8", **spec)
    world.settle()
    assert world.state("vit") == "Running"
    world.lose(world.placement("vit").nodes[0])
    world.settle()
    return world


def test_a_job_that_may_still_write_waits_until_its_node_is_known_to_be_off() -> None:
    world = lost_with(live=False, **CLAIM)
    assert (world.state("vit"), world.observed("vit").epoch) == ("Stopping", 1)
    assert "out-of-service" in world.observed("vit").held_up
    assert not world.given_up
    world.take_out_of_service(world.placement("vit").nodes[0])
    world.settle()
    assert (world.state("vit"), world.observed("vit").epoch) == ("Running", 2)
    assert "known to be off" in world.given_up[0]


def test_a_job_whose_checkpoints_are_fenced_goes_on_elsewhere() -> None:
    world = lost_with(live=True, **CLAIM)
    assert (world.state("vit"), world.observed("vit").epoch) == ("Running", 2)
    assert "checkpoints are fenced" in world.given_up[0]


@pytest.mark.parametrize("volumes", [{}, READ_ONLY])
def test_so_does_one_that_has_nothing_to_write_to(volumes: dict[str, object]) -> None:
    world = lost_with(live=False, **volumes)
    assert (world.state("vit"), world.observed("vit").epoch) == ("Running", 2)
    assert "no volume" in world.given_up[0]


def test_a_node_that_comes_back_ends_the_wait() -> None:
    world = lost_with(live=False, **CLAIM)
    world.find(world.placement("vit").nodes[0])
    world.settle()
    assert (world.state("vit"), world.observed("vit").epoch) == ("Running", 2)
    assert not world.given_up


def test_what_is_cancelled_has_no_successor_to_be_protected_from() -> None:
    world = lost_with(live=False, **CLAIM)
    world.cancel("vit")
    world.settle()
    assert world.state("vit") == "Cancelled"
    assert "nobody comes after" in world.given_up[0]


# --- what is told of a node that was lost ---------------------------------------------------------


def test_whoever_was_on_a_lost_node_is_told_once() -> None:
    losses, job = Losses(), a_job("Running", 3)
    losses.heard([Stop(JobId(job.key), 3, "node n0 lost"), Wake(9.0)])
    losses.heard([Stop(JobId("lab/other"), 3, "cancelled")])
    waiting = losses.told(job, Standing(State.QUEUED, past=Past()))
    patch = standing_patch(job, waiting, 10.0)
    (told,) = patch["status"]["failures"]
    assert (told["class"], told["rule"], told["epoch"]) == ("node", "node_fail", 3)
    assert told["line"] == "node n0 NotReady: out of reach"
    known = replace(job, status=job.status | patch["status"])
    again = losses.told(known, Standing(State.QUEUED, past=Past()))
    assert "failures" not in standing_patch(known, again, 11.0)["status"]
    begun = a_job("Running", 4)
    assert losses.told(begun, Standing(State.RUNNING)).failure is None
    assert losses.told(job, Standing(State.QUEUED)).failure is None, "it has begun again since"
    assert losses.told(None, Standing(State.QUEUED)).failure is None


def test_the_brain_says_it_in_these_words() -> None:
    scene = given(a_cluster(nodes=1, gpus=4)).submit(requested("vit", gpus=4)).decide()
    node = scene.brain.state.node_ids[0]
    said = scene.brain.handle(NodeLost(scene.now, node))
    (stop,) = (one for one in said if isinstance(one, Stop))
    found = STOPPED.fullmatch(stop.why)
    assert found is not None and found[1] == node
