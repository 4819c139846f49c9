"""Jobs that are over: tried again as they were, or kept beside a new one of the same name."""

import pytest

from tests.local.daemons import a_lab, wait_until
from weft.api.backend import Selection
from weft.api.errors import NoSuchJob, Taken
from weft.model.errors import SpecError
from weft.view.logs import Which

SAVES = "model total=60 step=0.02 save=1"


def test_a_job_that_failed_goes_on_where_it_was() -> None:
    with a_lab() as lab:
        lab.start()
        lab.submit("job", f"{SAVES} fail=20", retry={"limit": 0})
        lab.wait_for("job", "Failed")
        failed = lab.entry("job")
        assert lab.client.retry("job").state == "Queued"
        lab.wait_for("job", "Succeeded")
        again = lab.entry("job")
        assert (again.uid, again.epoch, again.past.failures) == (failed.uid, failed.epoch + 1, 0)
        assert again.started_at is not None and again.started_at >= again.submitted_at
        assert "Retried" in [one.what for one in lab.history("job")]
        first = [line.text for line in lab.client.logs("job", Which(epoch=1))]
        second = [line.text for line in lab.client.logs("job", Which())]
        assert first[0] == b"step 0 incarnation 1"
        assert second[0] == b"step 21 incarnation 2", "from its checkpoint, not from nothing"
        with pytest.raises(SpecError, match="Succeeded"):
            lab.client.retry("job")


def test_a_name_is_used_again_and_the_job_before_is_kept() -> None:
    with a_lab() as lab:
        lab.start()
        lab.submit("job", "model total=3 step=0.02")
        lab.wait_for("job", "Succeeded")
        first = lab.entry("job").uid
        lab.submit("job", "model total=100000 step=0.02")
        wait_until(lambda: lab.state("job") == "Running", "the second one")
        assert f"weft show {first}" in lab.history("job")[0].message
        assert lab.client.job(first).detail.line.state == "Succeeded"
        assert len(list(lab.client.logs(first, Which()))) == 3
        with pytest.raises(NoSuchJob):
            lab.client.job("f" * 16)
        lab.client.cancel("job")
        lab.wait_for("job", "Cancelled")
        lab.submit("job", "model total=100000 step=0.02")
        cancelled = lab.client.job(lab.entry("job").uid)  # by its number, before it has a past
        assert cancelled.detail.line.state in ("Queued", "Starting", "Running")
        with pytest.raises(SpecError, match="Succeeded"):
            lab.client.retry(first)
        (earlier,) = lab.client.jobs(Selection(states=frozenset({"Cancelled"}))).jobs
        with pytest.raises(Taken, match="another job of that name"):
            lab.client.retry(earlier.uid)
        assert lab.alive
