"""Which GPUs of a node a sitting is drawn on."""

from weft.lab.report.lanes import Bar, bars_of
from weft.model.ids import JobId, NodeId, TenantId
from weft.sim.record import Sitting

N = NodeId("n")


def sat(job: str, gpus: int, begin: float, end: float) -> Sitting:
    return Sitting(JobId(job), TenantId("t"), N, gpus, begin, end)


def test_the_lowest_free_lanes_are_taken() -> None:
    bars = bars_of([sat("a", 2, 0, 10), sat("b", 1, 0, 5), sat("c", 1, 6, 9)], {N: 4})
    assert [(bar.job, bar.lane, bar.lanes) for bar in bars] == [
        ("b", 0, 1),
        ("a", 1, 2),
        ("c", 0, 1),
    ]


def test_lanes_that_are_apart_become_two_bars() -> None:
    bars = bars_of([sat("a", 1, 0, 5), sat("b", 1, 0, 9), sat("c", 2, 6, 9)], {N: 3})
    assert [bar for bar in bars if bar.job == "c"] == [
        Bar(N, 0, 1, 6, 9, JobId("c")),
        Bar(N, 2, 1, 6, 9, JobId("c")),
    ]


def test_what_is_not_drawn() -> None:
    elsewhere = Sitting(JobId("a"), TenantId("t"), NodeId("m"), 1, 0, 5)
    assert bars_of([elsewhere, sat("b", 1, 3, 3)], {N: 4}) == []
