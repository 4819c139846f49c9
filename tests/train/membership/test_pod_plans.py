"""Jobs over several pods go from plan to plan by the operator's orders, and lose no sample."""

import json
import signal
from pathlib import Path

import pytest

from tests.kube.operators import wait_until
from tests.train.lines import check_each_once
from tests.train.membership.test_plans import STAGES, check_bit_equal
from tests.train.membership.test_pods import elastic
from tests.train.pods import Fleet, fleet
from weft.kube.reports.payload import OrderAnswer, read_weft
from weft.kube.reports.server import Outlook, ToldOrder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240), pytest.mark.enable_socket]

DRAINED = 143
TOTAL = 300
JOB = ("plans.py", "--total", str(TOTAL), "--pause", "0.3", "--digest")


def listens(pods: Fleet) -> None:
    """Its operator moves heads, and may order plans."""
    pods.operator.moves, pods.operator.outlook = True, Outlook(orders=True)


def order(pods: Fleet, plan: str, width: int, *leaving: int) -> int:
    """As the operator tells the head, whenever that asks; gives the order's number."""
    known = pods.operator.outlook.order
    serial = 1 if known is None else known.serial + 1
    pods.operator.outlook = Outlook(orders=True, order=ToldOrder(serial, plan, width, leaving))
    return serial


def answered(pods: Fleet, serial: int) -> OrderAnswer:
    """What the head has said of it, as the operator reads it."""
    found: list[OrderAnswer] = []

    def is_told() -> bool:
        bodies = (report["order"] for report in pods.operator.reports if "order" in report)
        found[:] = [OrderAnswer(**body) for body in bodies if body["serial"] == serial]
        return bool(found)

    try:
        wait_until(is_told, f"an answer to order {serial}")
    except AssertionError as error:
        raise AssertionError(f"{error}\n{pods.tails()}") from error
    return found[-1]


def reached(pods: Fleet, plan: str, width: int, *leaving: int) -> None:
    answer = answered(pods, order(pods, plan, width, *leaving))
    assert answer.reached, pods.tails()
    assert answer.paused_seconds is not None
    pods.reached(pods.newest_step + 2)


def ended_well(pods: Fleet, head: int = 0) -> None:
    (pods.folder / "hurry").touch()
    left = next(pod for pod in pods.pods if pod.seat == head)
    assert left.wait() == 0, pods.tails()
    check_each_once(pods.lines(), total=TOTAL, batch=8)
    check_bit_equal(pods.lines())


def test_orders_take_a_job_from_plan_to_plan_and_over_pods(tmp_path: Path) -> None:
    with fleet(tmp_path, *JOB, **elastic(tmp_path, width=1)) as pods:
        listens(pods)
        head = pods.pod(0)
        head.steady(1)
        pods.reached(2)
        first = order(pods, "tensor=2", 2)
        head.until(lambda e: e["event"] == "ordered" and e.get("serial") == first)
        guest = pods.pod(1)
        assert answered(pods, first).reached
        assert not [e for e in head.named("steady") if e["width"] == 2][1:], "one change, not two"
        for plan in ("shard=2", STAGES):
            reached(pods, plan, 2)
        reached(pods, "replicated", 1, 1)
        guest.signal(signal.SIGTERM)
        assert guest.wait() == DRAINED, pods.tails()
        pods.reached(pods.newest_step + 2)
        ended_well(pods)
    plans = [line["plan"] for line in pods.lines() if line.get("stepped")]
    assert list(dict.fromkeys(plans)) == ["replicated", "tensor=2", "shard=2", STAGES]
    told = [read_weft(json.dumps(report).encode()) for report in pods.operator.reports]
    offers = {one for report in told for one in report.offers}
    assert {"data", "fsdp2", "tensor", "pipeline"} <= offers


def test_a_plan_that_does_not_work_is_answered_and_the_job_trains_on(tmp_path: Path) -> None:
    with fleet(tmp_path, *JOB, "--fault", "fail:tensor=2", **elastic(tmp_path, width=2)) as pods:
        listens(pods)
        head, guest = pods.pod(0), pods.pod(1)
        head.steady(2)
        pods.reached(2)
        answer = answered(pods, order(pods, "tensor=2", 2))
        assert not answer.reached
        assert answer.why
        before = pods.newest_step
        pods.reached(before + 3)
        answer = answered(pods, order(pods, "tensor=2", 3))
        assert not answer.reached, "three are no whole pairs"
        ended_well(pods)
        assert guest.wait() == 0
    assert {line["plan"] for line in pods.lines() if line.get("stepped")} == {"replicated"}


def test_pods_that_share_no_folder_keep_their_plan(tmp_path: Path) -> None:
    given = elastic(tmp_path, width=2)
    del given["WEFT_CHECKPOINT_PATH"]
    with fleet(tmp_path, *JOB, **given) as pods:
        listens(pods)
        head, _ = pods.pod(0), pods.pod(1)
        head.steady(2)
        pods.reached(2)
        answer = answered(pods, order(pods, "tensor=2", 2))
        assert (answer.reached, "share no folder" in answer.why) == (False, True)
        ended_well(pods)


def test_one_pod_hands_on_the_state_by_its_memory(tmp_path: Path) -> None:
    given = elastic(tmp_path, width=2)
    del given["WEFT_CHECKPOINT_PATH"]
    with fleet(tmp_path, *JOB, **given) as pods:
        listens(pods)
        pods.pod(0, gpus=2).steady(2)
        pods.reached(2)
        for plan in ("tensor=2", "replicated"):
            reached(pods, plan, 2)
        ended_well(pods)


def test_whoever_leads_next_knows_the_plan(tmp_path: Path) -> None:
    """Each pod holds a whole model in two parts; one of them trains on without the other."""
    with fleet(tmp_path, *JOB, **elastic(tmp_path, width=4)) as pods:
        listens(pods)
        head, heir = pods.pod(0, gpus=2), pods.pod(1, gpus=2)
        head.steady(4)
        pods.reached(2)
        reached(pods, "tensor=2", 4)
        head.signal(signal.SIGKILL)
        heir.until(lambda e: e["event"] == "leads")
        pods.reached(pods.newest_step + 2)
        reached(pods, "replicated", 2)
        ended_well(pods, head=1)
