"""What is done about a trial of a gang, and where that is another thing than for any job."""

from dataclasses import replace
from typing import Any

import pytest

from tests.kube.looks import NOW, a_job, a_pod, believed, kinds
from weft.brain.event import (
    InstructionRefused,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobForgotten,
    WorkerLost,
)
from weft.failure.last_words import written
from weft.failure.observed import Output, Where
from weft.failure.rulebook import shipped
from weft.kube.operator.executor.trial_object import trial_object
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.observation.pod import ObservedPod
from weft.kube.operator.reconcile.next_step import next_step
from weft.kube.operator.reconcile.step import (
    CreatePods,
    CreateTrial,
    DeleteJob,
    DeletePods,
    Look,
    Note,
    Record,
    Rules,
    Settle,
    Step,
)
from weft.kube.operator.trials import Trials
from weft.kube.resources.training_job import TrainingJobSpec
from weft.model.ids import NodeId
from weft.model.placement import Placement, Seat
from weft.model.state import State
from weft.reconcile.belief import Belief

SEAT = Placement((Seat(NodeId("n0"), 1),))
GANG = a_job("Queued")
RULES = Rules(default_image="busybox", trial_seconds=300.0)
SYNTAX = "SyntaxError: invalid syntax"
ALONE = "RuntimeError: Connection closed by peer [10.0.0.1]:29500"


def a_trial(state: str = "", epoch: int = 0, **more: Any) -> ObservedJob:
    named = {"name": "vit.trial", "uid": "t", "placement": SEAT} | more
    return a_job(state, epoch, spec={"resources": {"gpus": 1}}, **named)


def its_pod(phase: str = "Running", **more: Any) -> ObservedPod:
    return a_pod(0, phase, job="vit.trial", owner="t", name="vit.trial-1-0", gpus=1, **more)


def belief(state: State, **more: Any) -> Belief:
    return believed(state, placement=SEAT, **more)


def done(job: ObservedJob | None, *pods: ObservedPod, **more: Any) -> Step:
    held: Belief = more.pop("belief", Belief())
    known: dict[str, Any] = {
        "note": Note(),
        "now": NOW,
        "rules": RULES,
        "lost": {},
        "gang": GANG,
    }
    return next_step(Look("lab/vit.trial", job, pods, held, **known | more))


@pytest.mark.parametrize("state", [State.QUEUED, State.ADMITTED])
def test_one_that_waits_needs_no_object(state: State) -> None:
    assert done(None, belief=belief(state)).idle


def test_its_object_is_made_when_it_is_to_start() -> None:
    assert done(None, belief=belief(State.STARTING)).actions == (CreateTrial(GANG),)
    made = done(a_trial(), belief=belief(State.STARTING))
    assert kinds(made) == [Record]
    recorded = done(a_trial("Starting", 1), belief=belief(State.STARTING))
    assert kinds(recorded) == [CreatePods]


def test_without_its_gang_it_is_called_off() -> None:
    assert kinds(done(None, belief=belief(State.STARTING), gang=None)) == [JobCancelled]
    unread = replace(GANG, spec=None)
    assert kinds(done(None, belief=belief(State.STARTING), gang=unread)) == [JobCancelled]


def test_one_that_the_api_server_will_not_have_is_refused() -> None:
    note = Note(refusal=(1, 0, "vit.trial: forbidden"))
    assert kinds(done(None, belief=belief(State.STARTING), note=note)) == [InstructionRefused]
    old = Note(refusal=(0, 0, "vit.trial: forbidden"))
    assert kinds(done(None, belief=belief(State.STARTING), note=old)) == [CreateTrial]


def test_somebody_deletes_one_that_runs() -> None:
    running = belief(State.RUNNING)
    assert kinds(done(None, its_pod(), belief=running)) == [DeletePods]
    assert kinds(done(None, belief=running)) == [JobCancelled]
    assert kinds(done(None, belief=Belief(State.CANCELLED))) == [JobForgotten]


def test_it_has_passed_when_it_has_lasted_long_enough_and_is_gone() -> None:
    job, running = a_trial("Running", 1), belief(State.RUNNING)
    first = done(job, its_pod(), belief=running)
    assert first.idle and (first.note.tried_since, first.look_at) == (NOW, NOW + 300.0)
    later = {"belief": running, "note": first.note}
    assert done(job, its_pod(), now=NOW + 299.0, **later).look_at == NOW + 300.0
    leaving = done(job, its_pod(), now=NOW + 300.0, **later)
    assert kinds(leaving) == [DeletePods] and leaving.note == first.note
    assert done(job, its_pod(deleting=True), now=NOW + 301.0, **later).idle
    assert kinds(done(job, now=NOW + 302.0, **later)) == [JobFinished]


@pytest.mark.parametrize(
    ("said", "event"), [(SYNTAX, JobFailed), (ALONE, JobFinished), ("Killed", JobFinished)]
)
def test_what_would_come_at_any_width_is_a_failure(said: str, event: type) -> None:
    words = written("worker 0 ended with 1", [Output(said, Where(rank=0))], shipped())
    pod = its_pod("Failed", exit_code=1, words=words, ended="Error", ended_at=NOW)
    ended = done(a_trial("Running", 1), pod, belief=belief(State.RUNNING))
    assert kinds(ended) == [event]


def test_an_image_that_is_not_there_is_one_too() -> None:
    pod = its_pod("Pending", stuck="ErrImagePull", message="manifest unknown")
    note = Note(stuck_since=NOW - 20.0)
    stuck = done(a_trial("Starting", 1), pod, belief=belief(State.STARTING), note=note)
    assert kinds(stuck) == [DeletePods]
    gone = done(a_trial("Starting", 1), belief=belief(State.STARTING), note=stuck.note)
    assert kinds(gone) == [JobFailed]


def test_a_lost_worker_is_no_failure_of_its() -> None:
    pod = its_pod("Failed", reason="Evicted")
    assert kinds(done(a_trial("Running", 1), pod, belief=belief(State.RUNNING))) == [WorkerLost]


def test_one_that_was_called_off_leaves_nothing_and_one_that_ended_stays() -> None:
    job = a_trial("Cancelled", 1)
    assert kinds(done(job, its_pod(), belief=Belief(State.CANCELLED))) == [DeletePods]
    assert kinds(done(job, belief=Belief(State.CANCELLED))) == [DeleteJob]
    assert kinds(done(job, belief=Belief())) == [DeleteJob]
    assert done(replace(job, deleting=True, finalizer=False), belief=Belief()).idle
    assert kinds(done(a_trial("Running", 1), belief=Belief(State.CANCELLED))) == [Settle]
    for state in ("Succeeded", "Failed"):
        assert done(a_trial(state, 1), belief=Belief()).idle


def test_one_that_passed_under_an_earlier_operator_has_passed() -> None:
    assert kinds(done(a_trial("Succeeded", 1), belief=belief(State.STARTING))) == [JobFinished]
    assert kinds(done(a_trial("Failed", 1), belief=belief(State.STARTING))) == [JobCancelled]


def test_those_of_an_earlier_term_are_called_off() -> None:
    trials = Trials()
    trials.made("t")
    assert trials.as_meant(a_trial()) == a_trial()
    stray = trials.as_meant(a_trial(uid="other"))
    assert stray is not None and stray.cancelled
    assert trials.as_meant(GANG) is GANG and trials.as_meant(None) is None


def test_its_object_asks_for_what_the_gang_does_but_for_what_only_a_gang_has() -> None:
    asked = {
        "env": {"A": "b"},
        "volumes": [{"claim": "data", "path": "/data"}],
        "checkpoint": {"path": "/ckpt"},
        "resources": {"gpus": "8..16", "cpus_per_gpu": 4},
        "nodes": 2,
        "retry": {"limit": 3},
        "duration": "2h",
        "shareable": True,
        "notify": {"on": ["failed"], "to": ["team"]},
        "model": {"parameters": 10**9, "layers": 8, "hidden": 64, "sequence": 64, "batch": 64},
        "plans": {"tensor": "python train.py --tp {tensor}"},
    }
    made = trial_object(a_job(spec=asked))
    assert made["metadata"]["name"] == "vit.trial"
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["name"], owner["uid"], owner["controller"]) == ("vit", "u", True)
    assert made["spec"] == {
        "run": "train",
        "env": {"A": "b"},
        "volumes": [{"claim": "data", "path": "/data"}],
        "resources": {"gpus": 1, "cpus_per_gpu": 4},
    }
    TrainingJobSpec.model_validate(made["spec"])
