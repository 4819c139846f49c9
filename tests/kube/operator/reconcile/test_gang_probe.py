"""The nodes of a gang are probed before it starts: who is asked, who waits, who is refused."""

from typing import Any

import pytest

from tests.kube.looks import NOW, RULES, a_job, believed, kinds, seats, step
from weft.brain.event import InstructionRefused
from weft.kube.operator.reconcile.step import (
    AskProbes,
    NodeProbe,
    Record,
    RecordWait,
    Rules,
    Step,
)
from weft.model.reason import ReasonCode
from weft.model.state import State

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
