"""Headship moves from pod to pod: no step is lost, none is made twice, and one head leads."""

import os
import signal
from pathlib import Path

import pytest

from tests.kube.operators import wait_until
from tests.train.lines import applied, check_each_once
from tests.train.membership.test_pods import PAUSE, STEPS, TOTAL, elastic, gone
from tests.train.pods import Fleet, Pod, fleet

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.enable_socket]

DRAINED, INFRASTRUCTURE = 143, 75


def leads(pod: Pod, term: int) -> None:
    pod.until(lambda e: e["event"] == "leads" and e["term"] == term)


def successor(pods: Fleet) -> Pod:
    """Whoever comes to lead after the first: heirs may notice the loss in any order."""

    def seat() -> int:
        return pods.operator.head.headship.seat if pods.operator.head else 0

    wait_until(lambda: seat() != 0, "another seat to lead")
    found = next(pod for pod in pods.pods if pod.seat == seat())
    leads(found, 2)
    return found


def first_worker(head: Pod) -> int:
    """The one that a head has started beside itself; of others it tells too."""
    return int(head.until(lambda e: e["event"] == "spawned" and e["worker"] == 0)["pid"])


def ended_well(pods: Fleet, *left: Pod) -> None:
    """Those who are left train to the end, and every sample was used once."""
    (pods.folder / "hurry").touch()
    assert [pod.wait() for pod in left] == [0] * len(left), pods.tails()
    check_each_once(pods.lines(), total=TOTAL)


def ready(pods: Fleet, seats: int) -> list[Pod]:
    """So many pods that train, and that know who may lead."""
    pods.operator.moves = True
    started = [pods.pod(seat) for seat in range(seats)]
    started[0].steady(seats)
    pods.reached(3)
    return started


def test_a_head_that_is_drained_hands_over(tmp_path: Path) -> None:
    """Also when the operator leaves at the same time: another one is waited for."""
    given = elastic(tmp_path, width=3)
    with fleet(tmp_path, "mlp.py", *STEPS, *PAUSE, **given) as pods:
        head, heir, other = ready(pods, 3)
        pods.operator.deaf = {0, 1, 2}
        head.signal(signal.SIGTERM)
        wait_until(lambda: pods.operator.unheard >= 2, "the operator to be asked in vain")
        pods.operator.deaf = set()
        assert head.wait() == DRAINED, pods.tails()
        leads(heir, 2)
        pods.reached(pods.newest_step + 5)
        assert pods.operator.head is not None
        assert pods.operator.head.headship.seat == 1
        late = pods.pod(3)
        heir.steady(3)
        ended_well(pods, heir, other, late)
    assert applied(pods.lines())["1"] == list(range(TOTAL))


def test_a_head_that_is_killed_is_followed_by_an_heir(tmp_path: Path) -> None:
    """Its own worker ends with it; the others hold the state, and nobody makes a step again."""
    given = elastic(tmp_path, width=3)
    with fleet(tmp_path, "mlp.py", *STEPS, *PAUSE, **given) as pods:
        head, heir, other = ready(pods, 3)
        worker = first_worker(head)
        head.signal(signal.SIGKILL)
        leader = successor(pods)
        gone(pods, worker)
        leader.steady(2)
        ended_well(pods, heir, other)
    assert applied(pods.lines())["1"] == list(range(TOTAL))
    assert pods.operator.claims[:1] == [(leader.seat, 2, 200)]


def test_a_head_that_was_cut_off_does_not_go_on(tmp_path: Path) -> None:
    """It stops, as by a lost network, with its worker; when both wake, another leads."""
    given = elastic(tmp_path, width=3)
    with fleet(tmp_path, "mlp.py", *STEPS, *PAUSE, **given) as pods:
        head, heir, other = ready(pods, 3)
        worker = first_worker(head)
        for process in (head.process.pid, worker):
            os.kill(process, signal.SIGSTOP)
        successor(pods).steady(2)
        pods.reached(pods.newest_step + 3)
        for process in (worker, head.process.pid):
            os.kill(process, signal.SIGCONT)
        assert head.wait() == INFRASTRUCTURE, pods.tails()
        gone(pods, worker)
        ended_well(pods, heir, other)
    assert "another seat leads" in pods.last_words(0)
