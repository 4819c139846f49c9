"""A daemon that starts real processes, and that is killed: what it had begun comes to its end."""

import os
import signal
from itertools import count

import pytest

from tests.local.daemons import Lab, a_lab, wait_until
from tests.local.test_elastic import told
from weft.api.backend import Farewell
from weft.api.errors import Taken
from weft.local import executor
from weft.local.reconcile import next_step as course
from weft.local.reconcile.step import Look, Step
from weft.model.capability import Capability
from weft.model.errors import InfeasibleSpec
from weft.view.logs import Which

ELASTIC = "maxmin(spacing=0.1, hold=0.0, min_run=0.0)"
LONG = "model total=100000 step=0.02 save=1"


def test_a_job_runs_to_its_end() -> None:
    with a_lab() as lab:
        lab.start()
        lab.submit("first", "model total=20 step=0.2", gpus=2)
        lab.wait_for("first", "Succeeded")
        assert lab.client.job("first").detail.work == {
            "done": 20,
            "total": 20,
            "saved": 20,
            "unit": "steps",
        }
        lab.stop()
        assert lab.entry("first").exit_code == 0
        lived = ["Submitted", "Starting", "Running", "Ended", "Succeeded"]
        assert [what for what in happened(lab, "first") if what in lived] == lived
        assert not lab.leftovers()


def test_a_job_that_fails_is_tried_again_from_its_checkpoint() -> None:
    with a_lab() as lab:
        lab.start()
        lab.submit("once", "model total=20 step=0.02 save=1 fail=10")
        lab.wait_for("once", "Succeeded")
        entry = lab.entry("once")
        assert (entry.epoch, entry.past.failures) == (2, 1)
        assert steps_printed(lab, "once") == list(range(20))


def test_a_job_whose_agent_is_killed_goes_on_and_leaves_nobody_behind() -> None:
    with a_lab() as lab:
        lab.start()
        lab.submit("hit", LONG, gpus=2)
        wait_until(lambda: bool(lab.entry("hit").progress.step), "it to train")
        agent = lab.entry("hit").agent
        assert agent is not None
        os.kill(agent.pid, signal.SIGKILL)
        lab.let_finish("hit")
        lab.wait_for("hit", "Succeeded")
        assert any("its agent was killed" in one.message for one in lab.history("hit"))
        assert not lab.leftovers()


def test_cancelled_jobs_end_and_waiting_ones_at_once() -> None:
    with a_lab() as lab:
        lab.start()
        lab.submit("runs", LONG, gpus=2)
        lab.submit("waits", LONG, gpus=2)
        lab.wait_for("runs", "Running")
        lab.client.cancel("waits")
        lab.wait_for("waits", "Cancelled")
        lab.client.cancel("runs")
        lab.wait_for("runs", "Cancelled")
        assert lab.entry("waits").epoch == 0
        assert "drained" in lab.history("runs")[-2].message
        assert not lab.leftovers()


def test_a_job_that_does_not_leave_is_killed() -> None:
    with a_lab() as lab:
        lab.start()
        lab.submit("deaf", LONG + " deaf", grace="1s")
        lab.wait_for("deaf", "Running")
        lab.client.cancel("deaf")
        lab.wait_for("deaf", "Cancelled")
        assert not lab.leftovers()


def test_a_job_that_waits_is_told_why() -> None:
    with a_lab() as lab:
        lab.start()
        lab.submit("runs", LONG, gpus=2)
        lab.submit("waits", LONG, gpus=2)
        lab.wait_for("runs", "Running")
        # Before the first round after its submission it is told that a round is pending.
        wait_until(lambda: "CapacityBusy" in happened(lab, "waits"), "the reason to be on record")
        assert lab.entry("waits").reasons[0]["code"] == "Capacity.Busy"
        standing = lab.client.why("waits")
        assert standing.detail.reasons[0].code == "Capacity.Busy"
        assert "0 of 2" in standing.detail.reasons[0].text


def test_names_are_free_again_when_their_job_is_over() -> None:
    with a_lab() as lab:
        lab.start()
        lab.submit("again", LONG)
        with pytest.raises(Taken):
            lab.submit("again", LONG)
        lab.client.cancel("again")
        lab.wait_for("again", "Cancelled")
        lab.submit("again", "model total=3")
        lab.wait_for("again", "Succeeded")


def test_what_this_machine_can_never_give_is_refused() -> None:
    with a_lab(slots=2) as lab:
        lab.start()
        with pytest.raises(InfeasibleSpec, match="at least 3 slots"):
            lab.submit("wide", LONG, gpus="3..8")
        lab.submit("cut", "model total=3", gpus="1..8")
        lab.wait_for("cut", "Succeeded")
        assert max(one.gpus for one in lab.history("cut")) == 2


def test_jobs_train_on_while_no_daemon_is_there() -> None:
    with a_lab() as lab:
        lab.start()
        lab.submit("on", LONG, gpus=2)
        lab.submit("next", "model total=5 step=0.05", gpus=2)
        lab.wait_for("on", "Running")
        before = lab.entry("on")
        lab.kill()
        lab.start()
        lab.wait_for("on", "Running")
        assert (lab.entry("on").epoch, lab.entry("on").agent) == (1, before.agent)
        lab.stop()
        assert before.agent is not None
        os.kill(before.agent.pid, 0)
        lab.start()
        lab.let_finish("on")
        for name in ("on", "next"):
            lab.wait_for(name, "Succeeded")
        assert lab.entry("on").epoch == 1
        assert not lab.leftovers()


def test_a_daemon_knows_what_a_program_offers_before_its_agent_has_spoken() -> None:
    """Or it would take a job that can follow for one that has to be stopped for another plan."""
    with a_lab() as lab:
        lab.start()
        lab.submit("lm", f"{LONG} live offers")
        wait_until(lambda: bool(lab.entry("lm").offers), "its offers to be on record", lab.log)
        lab.kill()
        assert lab.entry("lm").offers == (Capability.DATA, Capability.TENSOR)
        agent, heard = lab.entry("lm").agent, len(told(lab, "PlansOffered"))
        assert agent is not None and heard == 1
        os.kill(agent.pid, signal.SIGSTOP)
        try:
            lab.start()
            wait_until(lambda: len(told(lab, "PlansOffered")) > heard, "what it offers", lab.log)
        finally:
            os.kill(agent.pid, signal.SIGCONT)
        lab.let_finish("lm")
        lab.wait_for("lm", "Succeeded")


def test_a_daemon_knows_what_jobs_have_had_that_are_over() -> None:
    """Changes of plans are paid from it."""
    with a_lab() as lab:
        lab.start()
        lab.submit("over", "model total=20 step=0.02", gpus=2)
        lab.wait_for("over", "Succeeded")
        assert not told(lab, "PastRecalled")
        lab.kill()
        lab.start()
        (recalled,) = told(lab, "PastRecalled")
        had = lab.entry("over").past.attained_gpu_seconds
        assert recalled["served_gpu_seconds"] == had > 0.0


def test_a_job_that_ended_while_no_daemon_was_there_has_ended() -> None:
    with a_lab() as lab:
        lab.start()
        lab.submit("short", LONG, gpus=1)
        lab.wait_for("short", "Running")
        agent = lab.entry("short").agent
        lab.kill()
        lab.let_finish("short")
        assert agent is not None
        wait_until(lambda: not _runs(agent.pid), "it to end")
        lab.start()
        lab.wait_for("short", "Succeeded")
        assert lab.entry("short").epoch == 1


@pytest.mark.parametrize("farewell", [Farewell.DRAIN, Farewell.KILL])
def test_a_machine_that_is_given_back_is_empty_and_its_jobs_wait(farewell: Farewell) -> None:
    with a_lab() as lab:
        lab.start()
        lab.submit("saved", LONG, gpus=1)
        wait_until(lambda: (lab.entry("saved").progress.step or 0) > 5, "it to train")
        lab.down(farewell)
        assert not lab.leftovers()
        assert lab.entry("saved").state.name == "QUEUED"
        lab.start()
        lab.wait_for("saved", "Running")
        lab.let_finish("saved")
        lab.wait_for("saved", "Succeeded")
        assert lab.entry("saved").epoch == 2
        printed = steps_printed(lab, "saved")
        assert sorted(set(printed)) == list(range(max(printed) + 1)), "none was left out"
        assert farewell is Farewell.KILL or len(set(printed)) == len(printed), "none done twice"


def test_a_live_job_grows_and_shrinks() -> None:
    with a_lab(slots=4, recipe=ELASTIC) as lab:
        lab.start()
        lab.submit("wide", "model total=100000 step=0.02 live", gpus="1..4")
        wait_until(lambda: settled_width(lab) == 4, "it to have the machine", lab.log)
        lab.submit("other", LONG + " live", gpus="2..2")
        wait_until(lambda: settled_width(lab) == 2, "it to give way", lab.log)
        lab.let_finish("other")
        lab.wait_for("other", "Succeeded")
        wait_until(lambda: settled_width(lab) == 4, "it to grow again", lab.log)
        entry = lab.entry("wide")
        assert entry.epoch == 1
        assert entry.devices == {0, 1, 2, 3}
        assert happened(lab, "wide").count("Resized") >= 2


def test_logs_of_all_incarnations_are_kept_and_followed() -> None:
    with a_lab() as lab:
        lab.start()
        lab.submit("talks", "model total=20 step=0.02 save=1 fail=10")
        with lab.client.logs("talks", Which(), follow_on=True) as lines:
            texts = [line.text for line in lines]
        assert texts[0] == b"step 0 incarnation 1"
        assert texts[-1] == b"step 19 incarnation 2"
        with lab.client.logs("talks", Which(epoch=1, tail=2)) as lines:
            assert [(line.epoch, line.text) for line in lines] == [
                (1, b"step 9 incarnation 1"),
                (1, b"step 10 incarnation 1"),
            ]


def test_a_defect_ends_a_term_and_no_job() -> None:
    """Whatever nobody expected: the next term begins with a fresh look, and goes on."""
    with a_lab() as lab:
        lab.start(sabotage=fail_at_times)
        lab.submit("on", "model total=60 step=0.05", gpus=2)
        lab.submit("next", "model total=5 step=0.05", gpus=2)
        for name in ("on", "next"):
            lab.wait_for(name, "Succeeded")
            assert lab.entry(name).epoch == 1
        assert "a term ended by a defect" in lab.log.read_text()
        assert not lab.leftovers()


def fail_at_times() -> None:
    looks = count(1)

    def next_step(look: Look) -> Step:
        if next(looks) in (4, 9, 15):
            raise RuntimeError("nobody expected this")
        return course.next_step(look)

    executor.next_step = next_step  # type: ignore[attr-defined]


def settled_width(lab: Lab) -> int:
    """Of the elastic job, when no resize is under way."""
    entry = lab.entry("wide")
    return 0 if entry.target else entry.width


def happened(lab: Lab, name: str) -> list[str]:
    return [one.what for one in lab.history(name)]


def steps_printed(lab: Lab, name: str) -> list[int]:
    """Over all incarnations, in order."""
    uid = lab.entry(name).uid
    logs = sorted(lab.folder.glob(f"jobs/{uid}/epoch-*/logs/worker-0.log"))
    return [int(line.split()[1]) for log in logs for line in log.read_text().splitlines()]


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
