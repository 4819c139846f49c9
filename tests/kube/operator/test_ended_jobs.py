"""What jobs had that are over is known to an operator that begins."""

from typing import Any

from tests.kube.looks import NOW, a_job
from tests.kube.operator.stage import Stage, played
from weft.brain.event import PastRecalled
from weft.kube.operator.ended_jobs import recalled
from weft.kube.operator.observation.job import ObservedJob

MODEL = {"parameters": 10**9, "layers": 2, "hidden": 64, "sequence": 8, "heads": 4, "batch": 8}


def over(had: float, stopped: int = 0, state: str = "Succeeded", **more: Any) -> ObservedJob:
    """On sixteen GPUs in the end."""
    past = {"attainedGpuSeconds": had, "preemptions": stopped}
    decision = {"epoch": 1, "width": 16}
    return a_job(status={"state": state, "past": past, "decision": decision}, **more)


def test_all_that_are_over_are_counted_and_no_others() -> None:
    jobs = [over(100.0), over(20.0, state="Failed"), over(3.0, state="Cancelled")]
    assert recalled([*jobs, over(5000.0, state="Running")], NOW) == PastRecalled(NOW, 123.0)


def test_restarts_count_by_gpus_where_plans_are_chosen() -> None:
    chosen = {"model": MODEL}
    jobs = [over(1.0, stopped=2, spec=chosen), over(1.0, stopped=3), over(1.0, spec=chosen)]
    assert recalled(jobs, NOW) == PastRecalled(NOW, 3.0, restarted_gpus=32)


def test_where_nothing_is_on_record_nothing_is_told() -> None:
    assert recalled([a_job("Failed"), a_job("Queued"), a_job()], NOW) is None
    assert recalled([], NOW) is None


def test_an_operator_that_begins_tells_its_brain_before_any_round() -> None:
    async def scene() -> None:
        stage = Stage(recipe="rubick")
        stage.queue("default")
        past = {"attainedGpuSeconds": 7200.0, "preemptions": 2}
        ended = {"state": "Succeeded", "past": past, "decision": {"epoch": 3, "width": 4}}
        stage.job("a/over", ended, model=MODEL)
        stage.job("a/waits")
        stage.term._begin()
        book = stage.term.brain.state.plan_book
        assert book.served_gpu_seconds == 7200.0
        assert book.paid_gpu_seconds >= 2 * 4 * 30.0

    played(scene)
