"""What the operator sees of a job, and what the brain believes of it, as values for tests."""

from typing import Any

from weft.failure.last_words import written
from weft.failure.rulebook import shipped
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.observation.pod import ObservedPod
from weft.kube.operator.reconcile.next_step import next_step
from weft.kube.operator.reconcile.step import Look, Note, Rules, Step
from weft.kube.pod_requests import PodRequests
from weft.kube.resources.training_job import TrainingJobSpec
from weft.model.decision import Assignment
from weft.model.ids import NodeId
from weft.model.placement import Placement, Seat
from weft.model.state import State
from weft.reconcile.belief import Belief

NOW = 1000.0
RULES = Rules(default_image="busybox")
BOTH = Placement((Seat(NodeId("n0"), 8), Seat(NodeId("n1"), 8, number=1)))
TWO_SEATS = Assignment(16, BOTH)
DRAINED = written("drained", (), shipped())  # an agent's last words


def seats(*numbers: int) -> Placement:
    """Seats of one GPU, each on a node of its own."""
    return Placement(tuple(Seat(NodeId(f"n{number}"), 1, number=number) for number in numbers))


def a_job(state: str = "", epoch: int = 0, **more: Any) -> ObservedJob:
    status: dict[str, Any] = {"state": state} if state else {}
    placement: Placement = more.pop("placement", BOTH)
    if epoch:
        held = [
            {"number": seat.number, "node": seat.node, "gpus": seat.gpus}
            for seat in placement.seats
        ]
        status["decision"] = {"epoch": epoch, "seats": held} | more.pop("decision", {})
    status |= more.pop("status", {})
    asked = {"run": "train", "resources": {"gpus": 16}} | more.pop("spec", {})
    known: dict[str, Any] = {
        "uid": "u",
        "version": 1,
        "namespace": "lab",
        "name": "vit",
        "generation": 1,
        "created": 0.0,
        "deleting": False,
        "cancelled": False,
        "finalizer": True,
        "spec": TrainingJobSpec.model_validate(asked),
        "fault": "",
        "status": status,
    }
    return ObservedJob(**known | more)


def a_pod(seat: int, phase: str = "Running", epoch: int = 1, **more: Any) -> ObservedPod:
    known: dict[str, Any] = {
        "uid": f"p{epoch}-{seat}",
        "version": 1,
        "namespace": "lab",
        "name": f"vit-{epoch}-{seat}",
        "job": "vit",
        "epoch": epoch,
        "seat": seat,
        "owner": "u",
        "node": f"n{seat}",
        "phase": phase,
        "reason": "",
        "deleting": False,
        "exit_code": None,
        "stuck": "",
        "unschedulable": "",
        "takes": PodRequests(devices=(("nvidia.com/gpu", more.pop("gpus", 8)),)),
    }
    return ObservedPod(**known | more)


def believed(state: State, epoch: int = 1, **more: Any) -> Belief:
    seated = state.holds_seats or state is State.ADMITTED
    placement: Placement = more.pop("placement", BOTH)
    assignment = Assignment(placement.width, placement) if seated else None
    return Belief(state=state, epoch=epoch, assignment=assignment, **more)


def step(
    job: ObservedJob | None, *pods: ObservedPod, belief: Belief | None = None, **more: Any
) -> Step:
    known: dict[str, Any] = {"note": Note(), "now": NOW, "rules": RULES, "lost": {}}
    return next_step(Look("lab/vit", job, pods, belief or Belief(), **known | more))


def kinds(step: Step) -> list[type]:
    return [type(what) for what in (*step.events, *step.actions)]
