"""Headship moves at awkward moments."""

import os
import signal
from pathlib import Path

import pytest

from tests.train.lines import applied
from tests.train.membership.test_heads import (
    DRAINED,
    INFRASTRUCTURE,
    ended_well,
    leads,
    ready,
    successor,
)
from tests.train.membership.test_pods import PAUSE, STEPS, TOTAL, elastic, gone, worker_of
from tests.train.pods import fleet
from weft.kube.reports.headship import Headship
from weft.kube.reports.server import Outlook

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.enable_socket]


def test_headship_moves_twice_in_a_row(tmp_path: Path) -> None:
    """As when a node is drained that two pods of the job are on, one after the other."""
    given = elastic(tmp_path, width=3)
    with fleet(tmp_path, "mlp.py", *STEPS, *PAUSE, **given) as pods:
        head, heir, last = ready(pods, 3)
        head.signal(signal.SIGTERM)
        heir.until(lambda e: e["event"] == "listening")
        heir.signal(signal.SIGTERM)
        assert [head.wait(), heir.wait()] == [DRAINED, DRAINED], pods.tails()
        leads(last, 3)
        ended_well(pods, last)
    assert applied(pods.lines())["2"] == list(range(TOTAL))


def test_a_seat_on_a_closed_node_does_not_lead_if_another_can(tmp_path: Path) -> None:
    given = elastic(tmp_path, width=3)
    with fleet(tmp_path, "mlp.py", *STEPS, *PAUSE, **given) as pods:
        head, closed, heir = ready(pods, 3)
        pods.operator.outlook = Outlook(closed=(0, 1))
        head.signal(signal.SIGTERM)
        assert head.wait() == DRAINED, pods.tails()
        leads(heir, 2)
        closed.signal(signal.SIGTERM)
        assert closed.wait() == DRAINED, pods.tails()
        ended_well(pods, heir)


def test_an_heir_that_dies_as_it_takes_over_is_followed_by_the_next(tmp_path: Path) -> None:
    given = elastic(tmp_path, width=3)
    with fleet(tmp_path, "mlp.py", *STEPS, *PAUSE, **given) as pods:
        head, heir, last = ready(pods, 3)
        head.signal(signal.SIGKILL)
        heir.until(lambda e: e["event"] == "claiming")
        heir.signal(signal.SIGKILL)
        last.until(lambda e: e["event"] == "leads")
        ended_well(pods, last)
    assert applied(pods.lines())["2"] == list(range(TOTAL))


def test_a_worker_that_stands_still_as_the_head_moves_is_replaced(tmp_path: Path) -> None:
    given = elastic(tmp_path, width=3)
    with fleet(tmp_path, "mlp.py", *STEPS, *PAUSE, **given) as pods:
        head, heir, other = ready(pods, 3)
        os.kill(worker_of(heir), signal.SIGSTOP)
        head.signal(signal.SIGKILL)
        leader = successor(pods)
        leader.until(lambda e: e["event"] == "leads" and e["members"] == [2])
        leader.steady(2)
        ended_well(pods, heir, other)


def test_a_follower_that_lost_its_way_does_not_lead_beside_the_head(tmp_path: Path) -> None:
    """It was stopped, and is counted as lost: whoever wakes then cannot claim."""
    given = elastic(tmp_path, width=3)
    with fleet(tmp_path, "mlp.py", *STEPS, *PAUSE, **given) as pods:
        head, stopped, other = ready(pods, 3)
        worker = worker_of(stopped)
        for process in (stopped.process.pid, worker):
            os.kill(process, signal.SIGSTOP)
        head.steady(2)
        for process in (stopped.process.pid, worker):
            os.kill(process, signal.SIGCONT)
        assert stopped.wait() == INFRASTRUCTURE, pods.tails()
        gone(pods, worker)
        ended_well(pods, head, other)
    assert pods.operator.head is not None
    assert pods.operator.head.headship == Headship(0, 1, (1,))


def test_whoever_stops_the_job_stops_all_of_it(tmp_path: Path) -> None:
    given = elastic(tmp_path, width=2)
    with fleet(tmp_path, "mlp.py", *STEPS, *PAUSE, **given) as pods:
        started = ready(pods, 2)
        pods.operator.outlook = Outlook(stopping=True)
        started[0].signal(signal.SIGTERM)
        assert [pod.wait() for pod in started] == [DRAINED, DRAINED], pods.tails()
    assert not (tmp_path / "kept" / "weft" / ".slots").exists()


def test_without_an_operator_a_drained_head_takes_the_job_along(tmp_path: Path) -> None:
    given = elastic(tmp_path, width=2)
    with fleet(tmp_path, "mlp.py", *STEPS, *PAUSE, **given) as pods:
        started = ready(pods, 2)
        pods.operator.deaf = {0, 1}
        started[0].signal(signal.SIGTERM)
        assert [pod.wait() for pod in started] == [DRAINED, DRAINED], pods.tails()


def test_state_that_was_the_heads_alone_is_taken_from_the_last_checkpoint(tmp_path: Path) -> None:
    """One model over two pods: with the head half of it is lost, and that is told."""
    given = {**elastic(tmp_path, width=4, least=2), "WEFT_SHARD": "2"}
    every = {"WEFT_CHECKPOINT_EVERY_SECONDS": "0.5"}
    options = ("--total", str(TOTAL), *PAUSE)
    with fleet(tmp_path, "mlp.py", *options, **given, **every) as pods:
        pods.operator.moves = True
        head, heir, other = pods.pod(0, 1), pods.pod(1, 1), pods.pod(2, 2)
        head.steady(4)
        pods.reached(5)
        head.signal(signal.SIGKILL)
        leads(heir, 2)
        (pods.folder / "hurry").touch()
        assert [heir.wait(), other.wait()] == [0, 0], pods.tails()
