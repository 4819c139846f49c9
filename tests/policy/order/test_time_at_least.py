"""By the time that would be left at the smallest width."""

from typing import Any

import numpy as np

from tests.builders import a_snapshot
from weft.model.menu import Menus
from weft.policy.order.shortest import by_time_at_least

NAN = float("nan")
SPEEDS = (np.array([0.0, 1.0, 1.5]), np.array([0.0, 4.0, 8.0]))
MENUS = Menus.of([(row, row, row) for row in SPEEDS])


def order(*rows: dict[str, Any]) -> list[int]:
    snapshot = a_snapshot(*rows, menus=MENUS)
    slots = np.arange(len(rows))
    return list(map(int, by_time_at_least(snapshot, slots).sorted(snapshot, slots)))


def a_job(work: float, menu: int = 0, least: int = 1, **columns: Any) -> dict[str, Any]:
    return {"work_total": work, "menu": menu, "min_gpus": least, "max_gpus": 2, **columns}


def test_work_counts_at_the_speed_of_the_least_width() -> None:
    assert order(a_job(100.0), a_job(300.0, menu=1), a_job(120.0, least=2)) == [1, 2, 0]
    assert order(a_job(100.0), a_job(60.0, scale=0.5)) == [0, 1]


def test_unknown_lengths_come_last_the_least_served_first() -> None:
    unknown = [a_job(NAN, attained_gpu_seconds=served) for served in (30.0, 10.0, 30.0)]
    assert order(*unknown, a_job(1e9)) == [3, 1, 0, 2]


def test_known_lengths_are_not_told_apart_by_service() -> None:
    jobs = [a_job(5.0, attained_gpu_seconds=served) for served in (30.0, 10.0)]
    assert order(*jobs) == [0, 1]
    assert order(*jobs, a_job(NAN)) == [0, 1, 2]


def test_a_job_without_gpus_counts_by_its_own_pace() -> None:
    assert order(a_job(100.0), a_job(50.0, least=0, pace=1.0)) == [1, 0]
