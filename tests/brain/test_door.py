"""An event is taken in as a whole or not at all."""

from dataclasses import replace
from math import inf, nan
from unittest.mock import patch

import pytest

from tests.brain.test_copies import a_busy_scene, seen
from tests.builders import a_cluster, a_job, a_node, a_queue, a_request, given, seats
from weft.brain.brain import Brain
from weft.brain.event import (
    Event,
    Fed,
    InstructionDone,
    InstructionRefused,
    JobFailed,
    JobMeasured,
    JobReported,
    JobSubmitted,
    NodeAdded,
    Past,
    Phase,
    QueueChanged,
    Tick,
    Verb,
)
from weft.brain.instruction import Stop
from weft.brain.protocol.admission import Admission
from weft.model.errors import BadEvent, BrokenOff
from weft.model.host import HostCurve
from weft.model.ids import JobId, NodeId
from weft.model.placement import Placement, Seat
from weft.policy.host.shares import HostShares
from weft.policy.recipes import weave

JOB = JobId("job0")
N0 = NodeId("n0")
UNKNOWN_TO_US = HostCurve((1.0, 8.0), (0.0,), ((0.5,), (1.0,)))


def a_look(**what: object) -> JobReported:
    said = {"work_done": 1.0} | what
    return JobReported(5.0, JOB, phase=Phase.RUNNING, **({"epoch": 1} | said))  # type: ignore[arg-type]


IMPOSSIBLE: dict[str, Event] = {
    "no time": Tick(nan),
    "the end of time": Tick(inf),
    "a submission at no time": JobSubmitted(5.0, a_request("new", at=nan)),
    "work that is no number": a_look(work_done=nan),
    "work without end": a_look(work_done=inf),
    "an epoch before the first": a_look(epoch=-1),
    "a past that is no number": a_look(past=Past(attained_gpu_seconds=nan)),
    "failures below none": a_look(past=Past(failures=-1)),
    "losses below none": a_look(past=Past(losses=-1)),
    "failures that no column holds": a_look(past=Past(failures=2**70)),
    "a node with more GPUs than any has": NodeAdded(5.0, a_node("n9", gpus=10**12)),
    "fed below nothing": a_look(fed=Fed(cores=-1.0)),
    "a seat with cores that are no number": a_look(placement=Placement((Seat(N0, 1, nan),))),
    "a seat of fewer GPUs than none": a_look(placement=seats(n0=-1)),
    "kept work that is no number": JobFailed(5.0, JOB, 1, nan),
    "kept work below none": InstructionDone(5.0, JOB, 1, Verb.STOP, work_kept=-1.0),
    "a pause without end": InstructionDone(5.0, JOB, 1, Verb.RESIZE, paused_seconds=inf),
    "a resize before the first": InstructionRefused(5.0, JOB, 1, Verb.RESIZE, "no", serial=-1),
    "a node with cores that are no number": NodeAdded(5.0, a_node("n9", cpus=nan)),
    "a queue that is its own parent": QueueChanged(5.0, a_queue("default", parent="default")),
}


@pytest.mark.parametrize("event", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_cannot_be_is_refused_before_anything_changes(event: Event) -> None:
    brain = a_busy_scene().brain
    before = seen(brain)
    with pytest.raises(BadEvent):
        brain.handle(event)
    assert seen(brain) == before
    brain.handle(Tick(6.0))


def test_an_unknown_event_changes_nothing() -> None:
    brain = a_busy_scene().brain
    before = seen(brain)
    with pytest.raises(KeyError):
        brain.handle(a_strange_event())
    assert seen(brain) == before
    brain.handle(Tick(6.0))


def a_strange_event() -> Event:
    class Strange:
        at = 5.0

    return Strange()  # type: ignore[return-value]


def test_a_brain_that_fell_over_an_event_takes_no_other() -> None:
    brain = a_busy_scene().brain
    fault = patch.object(Admission, "freed", side_effect=ZeroDivisionError)
    with fault, pytest.raises(ZeroDivisionError):
        brain.handle(JobFailed(5.0, JOB, 1, 0.0))
    for one in (brain, brain.copied()):
        with pytest.raises(BrokenOff, match=r"JobFailed at 5\.0"):
            one.handle(Tick(6.0))


def test_a_run_without_seats_is_no_run_that_could_be_ours() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).stay_silent().submit(a_job("none", 0, cpus=1.0))
    scene.report("none", Phase.RUNNING, epoch=1, placement=Placement(()))
    assert scene.last(Stop).why == "unknown"


@pytest.mark.parametrize("speed", [nan, inf, 1.0], ids=["no number", "without end", "on no GPU"])
def test_a_claim_about_cores_that_makes_no_sense_teaches_nothing(speed: float) -> None:
    brain = Brain(replace(weave(), host=HostShares()))
    brain.handle(NodeAdded(0.0, a_node("n0", gpus=8, cpus=64.0)))
    host = {"host": UNKNOWN_TO_US, "tell_host": False, "cpus_per_gpu": 4.0}
    job = a_request("mine", 4, width=(1, 8), **host)
    brain.handle(JobSubmitted(0.0, job))
    gpus = 0 if speed == 1.0 else 4
    brain.handle(JobMeasured(1.0, job.id, 1, gpus, 1, speed, 10.0, 5.0, cpus=8.0))
    assert not brain.state.host_learnt and not brain.state.host_samples
