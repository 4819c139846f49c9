"""Nodes by their probes: where nothing starts, and who comes back after it was set aside."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.kube.operator.small_world import _node
from tests.kube.operator.stage import Stage, played
from weft.brain.event import HealthRecalled, Tick
from weft.failure.health import Health, SetAside
from weft.kube.operator import gang_probes
from weft.kube.operator.checkup import Checkup, checkup, probe_among
from weft.kube.operator.observation.node import ObservedNode, read_node
from weft.kube.operator.observation.pod import ObservedPod, Probed, read_pod
from weft.kube.operator.reconcile.step import NodeProbe
from weft.kube.trouble import Trouble
from weft.model.ids import NodeId

Raw = dict[str, Any]
NODE = _node("n0", 8)
WELL, ILL = Probed(ready=True), Probed(ready=False, words="disk: dead")
FAILED: Raw = {"terminated": {"exitCode": 1, "message": "disk: \x1b[31mdead"}}
SINCE, LATER = 1_000.0, 2_000.0


def a_probe(
    *,
    ready: bool,
    last: Raw | None = None,
    namespace: str = "weft",
    node: str = "n0",
    version: int,
    listens: bool = False,
) -> Raw:
    name = f"weft-probes-{node}"
    about = {"uid": name, "name": name, "namespace": namespace, "resourceVersion": str(version)}
    ports = [{"name": "probe", "containerPort": 8081}] if listens else []
    container = {"ready": ready, "state": {"running": {}}, "lastState": last or {}}
    return {
        "metadata": {**about, "labels": {"weft.dev/probe": "node"}},
        "spec": {"nodeName": node, "containers": [{"ports": ports}]},
        "status": {"phase": "Running", "containerStatuses": [container], "podIP": "10.0.0.9"},
    }


def seen(**given: Any) -> ObservedPod:
    return read_pod(a_probe(version=1, **given))


@pytest.mark.parametrize(
    ("given", "unfit"),
    [
        ({"ready": True}, ""),
        ({"ready": True, "last": FAILED}, ""),  # it failed once, and passes again
        ({"ready": False}, ""),  # about to begin
        ({"ready": False, "last": FAILED}, "disk: "),
        ({"ready": False, "last": {"terminated": {"exitCode": 137}}}, "ended with 137"),
    ],
)
def test_a_pod_that_is_not_ready_says_what_failed(given: Raw, unfit: str) -> None:
    found = seen(**given).probed
    assert found is not None
    assert unfit in found.unfit and bool(found.unfit) is bool(unfit)
    assert found.unfit.isprintable()


def test_nobody_elses_pod_speaks_for_a_node() -> None:
    ours, theirs = seen(ready=True), seen(ready=False, last=FAILED, namespace="team-a")
    assert probe_among([theirs], "weft") is None
    assert probe_among([theirs, ours], "weft") == WELL
    assert probe_among([replace(ours, deleting=True)], "weft") is None


@pytest.mark.parametrize(
    ("node", "probed", "now", "found"),
    [
        (NODE, None, LATER, None),  # nobody probes
        (None, WELL, LATER, None),
        (replace(NODE, ready=False), WELL, LATER, None),
        (NODE, WELL, SINCE + 1.0, None),  # what it says is older than what it did
        (NODE, Probed(ready=False), LATER, None),
        (NODE, WELL, LATER, Checkup(True, "all probes pass")),
        (NODE, ILL, SINCE + 1.0, Checkup(False, "disk: dead")),
        (
            replace(NODE, troubles=(Trouble("KernelDeadlock", "", None),)),
            WELL,
            LATER,
            Checkup(False, "KernelDeadlock"),
        ),
        (
            replace(NODE, repaired_at=SINCE + 1.0),
            None,
            SINCE + 2.0,
            Checkup(True, "it was repaired", repaired=True),
        ),
        (replace(NODE, repaired_at=SINCE - 1.0), None, LATER, None),  # an older repair
        (replace(NODE, repaired_at=LATER + 1.0), None, LATER, None),  # one that is to come
    ],
)
def test_who_may_come_back(
    node: ObservedNode | None, probed: Probed | None, now: float, found: Checkup | None
) -> None:
    assert checkup(node, probed, SINCE, now) == found


ASKED = NodeProbe(SINCE + 60.0, answered=SINCE + 62.0)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (ASKED, Checkup(True, "all probes pass")),
        (replace(ASKED, unfit="disk: dead"), Checkup(False, "disk: dead")),
        (replace(ASKED, since=SINCE + 59.0), None),  # it may tell of a look before
        (replace(ASKED, answered=None), None),
        (replace(ASKED, reached=False), None),
    ],
)
def test_a_probe_that_was_asked_need_not_be_waited_for(
    answer: NodeProbe, found: Checkup | None
) -> None:
    assert checkup(NODE, WELL, SINCE, SINCE + 63.0, answer) == found
    troubled = replace(NODE, troubles=(Trouble("KernelDeadlock", "", None),))
    told = checkup(troubled, WELL, SINCE, SINCE + 63.0, answer)
    assert told is None or not told.passed


@pytest.mark.parametrize(
    ("told", "at"),
    [
        ("2026-01-01T00:00:00Z", 1_767_225_600.0),
        ("", None),
        ("yes", None),
    ],
)
def test_a_repair_is_told_by_its_time(told: str, at: float | None) -> None:
    about = {"uid": "n", "name": "n", "resourceVersion": "1"}
    notes = {"annotations": {"weft.dev/repaired": told}}
    assert read_node({"metadata": {**about, **notes}}).repaired_at == at


def begun(stage: Stage) -> None:
    stage.queue("default")
    stage.term.intake.begin()


def cordoned(stage: Stage) -> bool:
    state = stage.term.brain.state
    return state.node_table.specs[state.node_row[NodeId("n0")]].cordoned


def test_nothing_starts_on_a_node_whose_probe_fails_until_it_passes() -> None:
    async def scene() -> None:
        stage = Stage()
        begun(stage)
        foreign = stage.informers.foreign
        for version, (ready, closed) in enumerate(
            [(True, False), (False, True), (True, False)], start=1
        ):
            raw = a_probe(ready=ready, last=FAILED, version=version)
            foreign.take_event("ADDED" if version == 1 else "MODIFIED", raw)
            stage.term.tell_nodes()
            assert cordoned(stage) is closed
        raw = a_probe(ready=False, last=FAILED, namespace="team-a", version=9)
        foreign.take_event("ADDED", raw)
        stage.term.tell_nodes()
        assert not cordoned(stage), "a pod of somebody else says nothing"

    played(scene)


def test_a_node_that_was_set_aside_comes_back_when_its_probes_have_passed_since() -> None:
    async def scene() -> None:
        stage = Stage()
        begun(stage)
        now = stage.term.now()
        aside = SetAside(node=NodeId("n0"), since_seconds=now, due_seconds=now, why="it failed")
        decider = stage.term.decider
        decider.deliver(HealthRecalled(now, Health(aside=(aside,))))
        stage.informers.foreign.take_event("ADDED", a_probe(ready=True, version=1))
        decider.deliver(Tick(now + 1.0))
        turns(stage)
        assert stage.term.health.aside, "what the probe says is older"
        decider.deliver(Tick(now + 700.0))
        turns(stage)
        assert not stage.term.health.aside

    played(scene)


def test_somebody_who_repaired_a_node_says_so() -> None:
    async def scene() -> None:
        stage = Stage()
        begun(stage)
        now = stage.term.now()
        aside = SetAside(
            node=NodeId("n0"), since_seconds=1.0, due_seconds=now + 9e9, why="bad", lemon=True
        )
        stage.term.decider.deliver(HealthRecalled(now, Health(aside=(aside,))))
        stage.term._checks.look(stage.term.health)
        turns(stage)
        assert stage.term.health.aside
        stage.term.nodes.items["n0"] = replace(stage.term.nodes.items["n0"], repaired_at=now - 1.0)
        stage.term._checks.look(stage.term.health)
        turns(stage)
        assert not stage.term.health.aside

    played(scene)


class Asked:
    """In the place of a node's probe: what it answers, and how often it was asked."""

    def __init__(self, says: str | None) -> None:
        self.says, self.times = says, 0

    async def __call__(self, host: str, port: int) -> str | None:
        self.times += 1
        return self.says


async def looked(stage: Stage, at: float) -> None:
    """The brain's time, and what the operator does every few seconds."""
    stage.term.decider.deliver(Tick(at))
    for _ in range(3):
        turns(stage)
        stage.term._checks.look(stage.term.health)
        for _ in range(10):
            await asyncio.sleep(0)
    turns(stage)


def set_aside(stage: Stage, *, lemon: bool = False) -> float:
    begun(stage)
    now = stage.term.now()
    aside = SetAside(
        node=NodeId("n0"), since_seconds=now, due_seconds=now, why="it failed", lemon=lemon
    )
    stage.term.decider.deliver(HealthRecalled(now, Health(aside=(aside,))))
    stage.informers.foreign.take_event("ADDED", a_probe(ready=True, version=1, listens=True))
    return now


def test_its_probe_is_asked_after_a_minute_and_who_passes_comes_back_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Asked("")
    monkeypatch.setattr(gang_probes, "ask", asked)

    async def scene() -> None:
        stage = Stage()
        now = set_aside(stage)
        await looked(stage, now + 1.0)
        await looked(stage, now + 59.0)
        assert (asked.times, len(stage.term.health.aside)) == (0, 1)
        await looked(stage, now + 61.0)
        assert (asked.times, len(stage.term.health.aside)) == (1, 0)

    played(scene)


@pytest.mark.parametrize("says", ["disk: dead", None])
def test_who_does_not_pass_then_waits_for_the_next_check(
    monkeypatch: pytest.MonkeyPatch, says: str | None
) -> None:
    """Nothing is held against it twice; where nobody listens, its pod's word is waited for."""
    asked = Asked(says)
    monkeypatch.setattr(gang_probes, "ask", asked)

    async def scene() -> None:
        stage = Stage()
        now = set_aside(stage)
        for after in range(1, 420, 10):
            await looked(stage, now + after)
        (aside,) = stage.term.health.aside
        assert (aside.checks, aside.asked) == (0, True)
        assert 1 <= asked.times <= 4, "once in two minutes"
        if says is None:
            await looked(stage, now + 421.0)
            assert not stage.term.health.aside

    played(scene)


def test_a_lemon_is_not_asked_people_have_to_repair_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked("")
    monkeypatch.setattr(gang_probes, "ask", asked)

    async def scene() -> None:
        stage = Stage()
        now = set_aside(stage, lemon=True)
        for after in (1.0, 61.0, 200.0):
            await looked(stage, now + after)
        assert (asked.times, len(stage.term.health.aside)) == (0, 1)

    played(scene)


def turns(stage: Stage) -> None:
    """What is due is done."""
    due = stage.term.decider.serial_queue._due
    while due:
        due.popleft()[1]()
