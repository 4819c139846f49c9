"""Many submissions at the same time: each is acknowledged, and none is lost."""

from concurrent.futures import ThreadPoolExecutor

from tests.local.daemons import a_lab

MANY = 50


def test_fifty_submissions_at_once_are_each_acknowledged() -> None:
    with a_lab(slots=2) as lab:
        lab.start()

        def submit(number: int) -> None:
            lab.submit(f"job-{number}", "model total=2 step=0.01")

        with ThreadPoolExecutor(MANY) as crowd:
            list(crowd.map(submit, range(MANY)))
        assert set(lab.states()) == {f"job-{number}" for number in range(MANY)}
        lab.wait_for("job-0", "Succeeded")
