"""A training job on real nodes, and what befalls it there.

One job trains over both nodes all the while; each test is something that happens to it, and leaves
it training as before. The steps that it writes down tell whether one was lost or done twice.
"""

import time
from collections.abc import Iterator

import pytest

from tests.kube.installed import NAMESPACE
from tests.kube.operators import wait_until
from tests.realnodes.site import TEAM, Site
from tests.realnodes.steps import follow_on, longest_pause_seconds, redone
from tools.testcluster.rest import MERGE_PATCH
from weft.kube.operator.observation.metadata import parse_time

WIDE = "wide"
WIDTH = 3
SHORT_STEPS = 2_000
BUDGETS = f"/apis/policy/v1/namespaces/{TEAM}/poddisruptionbudgets"


@pytest.fixture(scope="module")
def training(site: Site) -> Site:
    """A job of one to three GPUs that has all three, one of them on the other node."""
    site.lab.submit("huge", 64)
    site.submit(WIDE, f"1..{WIDTH}", total=20_000)
    site.note("set up", "submitted to the first steps, three wide", site.await_width(WIDE, WIDTH))
    wait_until(lambda: _reported(site) > 0.0, "the operator to hear that it can be resized")
    return site


@pytest.fixture
def wide(training: Site) -> Iterator[Site]:
    """The job as it trains; afterwards it does so again, in whatever incarnation."""
    yield training
    for node in training.nodes.names:
        training.plane.kubectl("uncordon", node)
    training.await_width(WIDE, WIDTH)


def test_pods_leave_and_join_while_it_trains(wide: Site) -> None:
    """Another job needs half of the GPUs, and goes again."""
    began, before = time.time(), wide.uids(WIDE)
    wide.lab.submit("late", 2, run="exec sleep 600", grace="5s")
    wide.until("a", "another job's submission to its pod running", lambda: bool(wide.uids("late")))
    wide.await_width(WIDE, WIDTH - 1)
    stayed = wide.uids(WIDE)
    assert stayed.items() < before.items()
    wide.lab.cancel("late")
    wide.until("a", "its cancellation to a new pod running", lambda: len(wide.uids(WIDE)) == WIDTH)
    wide.note("a", "until the new pod trains too", wide.await_width(WIDE, WIDTH))
    assert stayed.items() < wide.uids(WIDE).items()
    check_went_on(wide, "a", began)


def test_the_operator_is_not_needed_for_training(wide: Site) -> None:
    began, before, leader = time.time(), wide.uids(WIDE), wide.leader()
    wide.plane.kubectl("delete", "pod", "-n", NAMESPACE, leader, "--wait=false")
    wide.until("b", "the leader's deletion to another leader", lambda: _leads(wide, leader), began)
    wide.until("b", "until it has heard of the job", lambda: _reported(wide) > began)
    assert wide.uids(WIDE) == before
    check_went_on(wide, "b", began)


def test_an_upgrade_of_the_chart_is_noticed_by_no_job(wide: Site) -> None:
    began, before, operators = time.time(), wide.uids(WIDE), wide.operators()
    with wide.timed("e", "helm upgrade --wait"):
        wide.upgrade({"podAnnotations": {"upgraded": "true"}})
    wide.until("e", "until a new operator leads", lambda: _leads(wide, *operators))
    led = time.time()
    wide.until("e", "until it has heard of the job", lambda: _reported(wide) > led)
    wait_until(lambda: not wide.operators() & operators, "the old operators to be gone")
    assert wide.uids(WIDE) == before
    assert wide.restarts(WIDE) == 0
    check_went_on(wide, "e", began)


def test_a_budget_is_honoured_and_an_eviction_costs_no_step(wide: Site) -> None:
    selector = {"matchLabels": {"weft.dev/job": WIDE}}
    budget = {"metadata": {"name": WIDE}, "spec": {"minAvailable": WIDTH, "selector": selector}}
    wide.plane.api.must("POST", BUDGETS, budget)
    began, last = time.time(), max(wide.seats(WIDE))
    pod = f"{WIDE}-{wide.decision(WIDE)['epoch']}-{last}"
    wait_until(lambda: wide.lab.evict(pod) == 429, "the budget to hold")
    fewer = {"spec": {"minAvailable": WIDTH - 1}}
    wide.plane.api.must("PATCH", f"{BUDGETS}/{WIDE}", fewer, MERGE_PATCH)
    wait_until(lambda: wide.lab.evict(pod) == 201, "the budget to allow it")
    wide.until("f", "the eviction to the seat let go", lambda: last not in wide.seats(WIDE))
    wide.plane.api.must("DELETE", f"{BUDGETS}/{WIDE}")
    check_went_on(wide, "f", began)


def test_a_drained_node_costs_no_step(wide: Site) -> None:
    """Of the node without the head nobody stops."""
    began, seats = time.time(), wide.seats(WIDE)
    other = next(node for node in seats.values() if node != seats[0])
    with wide.timed("d", "kubectl drain of a node without the head"):
        wide.drain(other)
    wide.await_width(WIDE, WIDTH - 1)
    assert wide.decision(WIDE)["epoch"] == 1
    check_went_on(wide, "d", began)


def test_with_a_drained_node_the_headship_moves(wide: Site) -> None:
    """The other pods train on in the same epoch, and another of them leads.

    An operator that leads is left: who leads a job hangs on its word, and on a node that is
    drained with both of them the job would wait for a third.
    """
    wide.spread_operators()
    began = time.time()
    wait_until(lambda: _reported(wide) > began, "the operator to hear of the job")
    began, before = time.time(), wide.seats(WIDE)
    head = before[0]
    staying = sum(node != head for node in before.values())
    assert staying
    with wide.timed("d", "kubectl drain of the head's node"):
        wide.drain(head)
    wide.await_width(WIDE, max(staying, WIDTH - 1))
    assert head not in wide.seats(WIDE).values()
    assert wide.lab.job(WIDE)["status"]["past"]["failures"] == 0
    check_went_on(wide, "d", began)


def test_a_killed_node_costs_no_step(training: Site) -> None:
    """First the one without the head, which costs nobody anything; then the head's own."""
    site, name = training, "short"
    site.lab.cancel(WIDE)
    site.submit(name, "1..4", total=SHORT_STEPS)
    site.note("c", "submitted to the first steps, four wide", site.await_width(name, 4))
    site.spread_operators()
    seats = site.seats(name)
    other = next(node for node in seats.values() if node != seats[0])
    began = _kill(site, other)
    site.until("c", "the node's death to steps without it", lambda: _width(site, name) == 2, began)
    assert site.decision(name)["epoch"] == 1
    site.until("c", "its death to its seats let go", lambda: other not in _nodes(site, name), began)
    assert follow_on(site.steps(name, since=began))
    began = time.time()
    site.nodes.start(other)
    site.await_width(name, 4)
    site.note("c", "the node's return to four wide", time.time() - began)
    site.spread_operators()
    began = _kill(site, seats[0])
    site.until("c", "the head's death to steps without it", lambda: _width(site, name) == 2, began)
    lets_go = "the head's death to its seats let go"
    site.until("c", lets_go, lambda: seats[0] not in _nodes(site, name), began)
    site.hurry(name)
    site.until("c", "until it has finished", lambda: site.lab.state(name) == "Succeeded")
    done = site.steps(name)
    assert {step.number for step in done} | site.witnessed(name) == set(range(SHORT_STEPS))
    assert not redone(done)
    assert {step.epoch for step in done} == {1}
    assert site.lab.job(name)["status"]["past"]["failures"] == 0
    after = [step for step in done if step.at >= began - 1.0]
    site.note("c", "longest pause at the head's death", longest_pause_seconds(after))


def test_progress_and_reasons_were_seen(training: Site) -> None:
    """By whoever looked with `kubectl get trainingjobs -w` all the while."""
    seen = training.watched()
    for words in ("Running", "Resizing", "Succeeded", "Cancelled", "Constraint.", "1%"):
        assert words in seen, words


def check_went_on(site: Site, phase: str, began: float) -> None:
    """No step was lost or done twice, and the epoch is the same."""
    done = site.steps(WIDE, since=began)
    assert follow_on(done), site.said(WIDE)
    assert len({step.epoch for step in done}) == 1, site.said(WIDE)
    site.note(phase, "longest pause between two steps", longest_pause_seconds(done))


def _kill(site: Site, node: str) -> float:
    """As by a loss of power; when that was."""
    wait_until(lambda: _leads(site), "an operator to lead")
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{site.leader()}"
    led = site.plane.api.must("GET", path)["spec"]["nodeName"] == node
    began = time.time()
    site.nodes.kill(node)
    site.note("c", f"node killed, the leading operator {'with it' if led else 'elsewhere'}", 0.0)
    return began


def _nodes(site: Site, name: str) -> set[str]:
    return set(site.seats(name).values())


def _leads(site: Site, *not_these: str) -> bool:
    return site.leader() not in ("", *not_these)


def _reported(site: Site) -> float:
    work = site.lab.job(WIDE)["status"].get("work", {})
    return parse_time(work["updatedAt"]) if work else 0.0


def _width(site: Site, name: str) -> int:
    return site.steps(name)[-1].width
