"""Many submissions in one second: each is answered within one, and none is lost."""

import time
from concurrent.futures import ThreadPoolExecutor

from tests.calm import calm
from tests.local.daemons import a_lab

MANY = 50


def test_fifty_submissions_in_a_second_are_each_acknowledged_within_one() -> None:
    with a_lab(slots=2) as lab:
        lab.start()

        def submit(number: int) -> float:
            began = time.monotonic()
            lab.submit(f"job-{number}", "model total=2 step=0.01")
            return time.monotonic() - began

        with ThreadPoolExecutor(MANY) as crowd:
            took = list(crowd.map(submit, range(MANY)))
        assert max(took) < calm(1.0)
        assert set(lab.states()) == {f"job-{number}" for number in range(MANY)}
        lab.wait_for("job-0", "Succeeded")
