"""The nodes of a gang are probed before it starts: who is asked, who waits, who is refused."""

from typing import Any

import pytest

from tests.kube.looks import NOW, RULES, a_job, a_pod, believed, kinds, seats, step
from weft.brain.event import InstructionRefused, WorkerLost
from weft.kube.operator.reconcile.step import (
    AskProbes,
    DeletePods,
    NodeProbe,
    Record,
    RecordSeats,
    RecordWait,
    Rules,
    Step,
)
from weft.model.ids import NodeId
from weft.model.placement import Placement, Seat
from weft.model.reason import ReasonCode
from weft.model.state import State
from weft.reconcile.belief import Resizing

ASKING = Rules(default_image="busybox", gang_probe_gpus=8)
WELL, SILENT = NodeProbe(NOW, answered=NOW), NodeProbe(NOW)
ILL = NodeProbe(NOW, answered=NOW, unfit="disk: dead")


def begun(after: float = 0.0, rules: Rules = ASKING, **more: Any) -> Step:
    job = a_job(status=more.pop("status", {}))
    placement = {"placement": more.pop("placement")} if "placement" in more else {}
    held = believed(State.STARTING, **placement)
    return step(job, belief=held, now=NOW + after, rules=rules, **more)


def test_nodes_are_asked_before_it_is_on_record_that_it_starts() -> None:
    assert begun().actions == (AskProbes(("n0", "n1")),)
    assert begun(probed={"n0": WELL}).actions == (AskProbes(("n1",)),)
    assert kinds(begun(probed={"n0": WELL, "n1": WELL})) == [Record]


def test_small_gangs_and_those_of_a_cluster_without_probes_are_not_asked_for() -> None:
    assert kinds(begun(rules=RULES)) == [Record]
    assert kinds(begun(placement=seats(0, 1))) == [Record]
    always = Rules(default_image="busybox", gang_probe_gpus=1)
    assert kinds(begun(rules=always, placement=seats(0))) == [Record], "one GPU is no gang"
    assert kinds(begun(rules=always, placement=seats(0, 1))) == [AskProbes]


def test_who_is_well_is_told_of_only_where_it_takes_a_while() -> None:
    waiting = begun(probed={"n0": WELL, "n1": SILENT})
    assert waiting.idle and waiting.look_at == NOW + 2.0
    (told,) = begun(after=3.0, probed={"n0": WELL, "n1": SILENT}).actions
    assert isinstance(told, RecordWait)
    assert told.reason.code is ReasonCode.HEALTH_PROBED
    assert "1 of its 2 nodes are still being probed" in told.reason.text
    told_already = {"state": "Queued", "reason": "Health.Probed"}
    still = begun(after=4.0, probed={"n0": WELL, "n1": SILENT}, status=told_already)
    assert still.idle and still.look_at is not None and still.look_at <= NOW + 70.0


def test_nobody_is_waited_for_without_end() -> None:
    assert kinds(begun(after=71.0, probed={"n0": WELL, "n1": SILENT})) == [Record]


@pytest.mark.parametrize("other", [WELL, SILENT])
def test_a_node_that_fails_is_refused_at_once(other: NodeProbe) -> None:
    (event,) = begun(probed={"n0": other, "n1": ILL}).events
    assert isinstance(event, InstructionRefused) and event.why == "n1: disk: dead"


def test_what_is_on_record_goes_on() -> None:
    held = believed(State.STARTING)
    assert kinds(step(a_job("Starting", 1), belief=held, rules=ASKING)) != [AskProbes]


# --- growing -----------------------------------------------------------------------------------

HAS = {0, 1}


def growing(
    target: Placement | None = None,
    *pods: Any,
    after: float = 0.0,
    rules: Rules | None = None,
    **more: Any,
) -> Step:
    """Of two GPUs on two nodes to four on four, unless told otherwise."""
    order = Resizing(1, frozenset(HAS), target or seats(0, 1, 2, 3))
    held = believed(State.RESIZING, placement=seats(0, 1, 2, 3), live=True, resizing=order)
    known = {"spec": {"resources": {"gpus": "1..4"}}} | more.pop("job", {})
    job = a_job("Running", 1, placement=seats(0, 1), **known)
    asking = rules or Rules(default_image="busybox", gang_probe_gpus=3)
    mine = pods or (a_pod(0, gpus=1), a_pod(1, gpus=1))
    return step(job, *mine, belief=held, now=NOW + after, rules=asking, **more)


def test_only_nodes_that_are_new_to_it_are_asked() -> None:
    assert growing().actions == (AskProbes(("n2", "n3")),)
    wider = Placement((*seats(0, 1, 2).seats, Seat(NodeId("n1"), 1, number=3)))
    assert growing(wider).actions == (AskProbes(("n2",)),)
    beside = Placement((*seats(0, 1).seats, Seat(NodeId("n1"), 1, number=3)))
    assert kinds(growing(beside)) == [RecordSeats], "there it trains already"


def test_a_growth_is_recorded_when_all_have_answered_or_the_time_is_up() -> None:
    waiting = growing(probed={"n2": WELL, "n3": SILENT})
    assert waiting.idle and waiting.look_at == NOW + 70.0
    assert kinds(growing(probed={"n2": WELL, "n3": WELL})) == [RecordSeats]
    assert kinds(growing(after=70.0, probed={"n2": WELL, "n3": SILENT})) == [RecordSeats]


def test_small_growths_narrowings_and_clusters_without_probes_ask_nobody() -> None:
    for step_ in (
        growing(rules=RULES),
        growing(rules=ASKING),
        growing(seats(0)),
    ):
        assert kinds(step_) == [RecordSeats]


def test_a_node_that_fails_is_not_grown_onto_and_the_job_is_told_why() -> None:
    ill = {"n2": SILENT, "n3": ILL}
    refused = growing(probed=ill)
    why = "n3: disk: dead"
    assert refused.actions == (RecordSeats(seats(0, 1), 1, cause="NotResized", why=why),)
    back = {"decision": {"serial": 1}}
    (event,) = growing(job=back, note=refused.note, probed=ill).events
    assert isinstance(event, InstructionRefused)
    assert (event.why, event.serial, event.untried) == (why, 1, True)


def test_what_happens_to_the_job_meanwhile_is_not_put_off() -> None:
    silent = {"n2": SILENT, "n3": SILENT}
    gone = growing(None, a_pod(0, gpus=1), probed=silent)
    (shrunk,) = gone.actions
    assert isinstance(shrunk, RecordSeats) and shrunk.cause == "Shrunk"
    assert shrunk.placement == seats(0)
    stray = a_pod(7, gpus=1)
    leaving = growing(None, a_pod(0, gpus=1), a_pod(1, gpus=1), stray, probed=silent)
    assert leaving.actions == (DeletePods((stray,)),)
    still = {"spec": {"resources": {"gpus": 2}}}
    assert kinds(growing(None, a_pod(0, gpus=1), probed=silent, job=still)) == [WorkerLost]
