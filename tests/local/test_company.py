"""Jobs that take turns on the slots of one machine: put together, parted, killed, found again."""

import asyncio
import os
import signal
from typing import Any

from tests.local.daemons import Lab, a_lab, wait_until
from weft.agent.messages import Answer, Status
from weft.local.agents.agent_client import AgentClient
from weft.view.company import Company

RECIPE = "fifo(spacing=0.1, interleave=true)"
LOADS = {"storage_seconds": 0.08, "gpu_seconds": 0.02}
COMPUTES = {"storage_seconds": 0.01, "gpu_seconds": 0.08}
LONG = "model total=100000 step=0.1 save=1 live"


def submit(lab: Lab, name: str, stages: dict[str, float] | None, run: str = LONG) -> None:
    claims: dict[str, Any] = {} if stages is None else {"stages": stages}
    lab.submit(name, run, shareable=True, **claims)


def company(lab: Lab, name: str) -> Company | None:
    return lab.client.job(name).detail.company


def in_company(lab: Lab, *names: str) -> None:
    """Until all of them run on one slot, and each agent has been told where to meet."""
    for name in names:
        lab.wait_for(name, "Running")
    wait_until(lambda: all(company(lab, name) for name in names), "company", lab.log)
    wait_until(lambda: None not in {meeting(lab, name) for name in names}, "a meeting", lab.log)
    assert len({meeting(lab, name) for name in names}) == 1
    assert {lab.entry(name).devices for name in names} == {frozenset({0})}


def meeting(lab: Lab, name: str) -> str | None:
    """Where its agent says that it meets others."""
    entry, folders = lab.entry(name), lab.folders()
    client = AgentClient(folders.job(entry.uid), folders.epoch(entry).name, entry.owner)

    async def asked() -> Answer:
        try:
            return await client.ask(Status())
        finally:
            client.close()

    told = asyncio.run(asked()).body["company"]
    return None if told is None else str(told["folder"])


def alone(lab: Lab, name: str) -> bool:
    return company(lab, name) is None and meeting(lab, name) is None


def test_two_jobs_that_fill_each_others_gaps_run_on_one_slot() -> None:
    with a_lab(slots=1, recipe=RECIPE) as lab:
        lab.start()
        submit(lab, "loads", LOADS)
        submit(lab, "computes", COMPUTES)
        in_company(lab, "loads", "computes")
        told = company(lab, "computes")
        assert told is not None
        assert told.others == (str(lab.entry("loads").id),)
        assert 1.5 < told.aggregate < 2.0
        assert told.members[0].job == lab.entry("loads").id
        assert all(1.0 <= member.slowdown < 1.3 for member in told.members)
        assert (told.matcher, told.memory_gib) == ("joining", None)
        (node,) = lab.client.nodes().nodes
        assert (node.used_gpus, len(node.jobs)) == (1, 2), "a slot that is shared counts once"
        lab.let_finish("loads")
        lab.wait_for("loads", "Succeeded")
        wait_until(lambda: alone(lab, "computes"), "the other to be alone", lab.log)
        assert lab.entry("computes").epoch == 1, "it went on as it was"
        lab.let_finish("computes")
        lab.wait_for("computes", "Succeeded")
        wait_until(lambda: not any(lab.folders().parties.iterdir()), "nobody to meet")
        assert not lab.leftovers()


def test_who_would_not_share_waits() -> None:
    with a_lab(slots=1, recipe=RECIPE) as lab:
        lab.start()
        submit(lab, "loads", LOADS)
        lab.wait_for("loads", "Running")
        lab.submit("apart", LONG, stages=COMPUTES)
        lab.wait_for("apart", "Queued")
        assert lab.client.why("apart").detail.no_company is None
        assert company(lab, "loads") is None


def test_why_names_the_guard_that_kept_it_from_the_closest() -> None:
    with a_lab(slots=1, recipe=RECIPE) as lab:
        lab.start()
        submit(lab, "computes", {"gpu_seconds": 0.1})
        lab.wait_for("computes", "Running")
        submit(lab, "same", {"gpu_seconds": 0.1})
        wait_until(lambda: lab.client.why("same").detail.no_company is not None, "a word", lab.log)
        refused = lab.client.why("same").detail.no_company
        assert refused is not None
        assert refused.closest == (str(lab.entry("computes").id),)
        assert refused.guard == "gain"
        assert refused.meaning


def test_one_that_is_killed_leaves_the_other_where_it_is() -> None:
    with a_lab(slots=1, recipe=RECIPE) as lab:
        lab.start()
        submit(lab, "loads", LOADS)
        submit(lab, "computes", COMPUTES)
        in_company(lab, "loads", "computes")
        agent = lab.entry("loads").agent
        assert agent is not None
        os.kill(agent.pid, signal.SIGKILL)
        wait_until(lambda: lab.entry("loads").epoch == 2, "the killed one to come again", lab.log)
        in_company(lab, "loads", "computes")
        assert lab.entry("computes").epoch == 1
        assert lab.entry("loads").party, "who comes again joins whom it finds"


def test_a_daemon_that_is_killed_finds_them_as_they_are() -> None:
    with a_lab(slots=1, recipe=RECIPE) as lab:
        lab.start()
        submit(lab, "loads", LOADS)
        submit(lab, "computes", COMPUTES)
        in_company(lab, "loads", "computes")
        lab.kill()
        lab.start()
        in_company(lab, "loads", "computes")
        assert {lab.entry(name).epoch for name in ("loads", "computes")} == {1}
        lab.let_finish("loads")
        lab.wait_for("loads", "Succeeded")
        wait_until(lambda: alone(lab, "computes"), "the other to be alone", lab.log)
        lab.kill()
        lab.start()
        lab.wait_for("computes", "Running")
        assert alone(lab, "computes")
        submit(lab, "third", LOADS)
        in_company(lab, "computes", "third")


def test_a_job_that_says_nothing_of_its_steps_is_measured_and_then_has_company() -> None:
    with a_lab(slots=1, recipe=RECIPE) as lab:
        lab.start()
        submit(lab, "silent", None, f"{LONG} storage=0.08 gpu=0.02")
        lab.wait_for("silent", "Running")
        submit(lab, "computes", COMPUTES)
        in_company(lab, "silent", "computes")


def test_the_next_run_of_a_program_need_not_be_measured() -> None:
    """Both say nothing, and the second one has never run."""
    with a_lab(slots=1, recipe=RECIPE) as lab:
        lab.start()
        run = f"{LONG} storage=0.05 gpu=0.04"
        submit(lab, "first", None, run)
        lab.wait_for("first", "Running")
        wait_until(lambda: (lab.entry("first").progress.step or 0) > 20, "it to be measured")
        submit(lab, "second", None, run)
        in_company(lab, "first", "second")


# --- odd uses -----------------------------------------------------------------------------------


def test_three_share_a_slot_and_the_lead_is_cancelled_first() -> None:
    third = {"cpu_seconds": 0.08, "gpu_seconds": 0.005}
    with a_lab(slots=1, recipe=RECIPE) as lab:
        lab.start()
        for name, stages in (("loads", LOADS), ("computes", COMPUTES), ("prepares", third)):
            submit(lab, name, stages)
        in_company(lab, "loads", "computes", "prepares")
        lab.client.cancel("loads")
        lab.wait_for("loads", "Cancelled")
        in_company(lab, "computes", "prepares")
        assert {lab.entry(name).epoch for name in ("computes", "prepares")} == {1}


def test_a_second_slot_that_comes_free_parts_them() -> None:
    """Who cannot be seated joins; when there is room for it, it gets a slot of its own."""
    with a_lab(slots=2, recipe=RECIPE) as lab:
        lab.start()
        lab.submit("apart", LONG, preemptible=True)
        submit(lab, "computes", {"storage_seconds": 0.06, "gpu_seconds": 0.08})
        lab.wait_for("computes", "Running")
        saves = {"every": "1s"}  # so that a stop pays
        lab.submit(
            "loads",
            f"{LONG} slowed=1.4",
            shareable=True,
            stages=LOADS,
            duration="10h",
            checkpoint=saves,
        )
        in_company_on(lab, "loads", "computes")
        lab.let_finish("apart")
        lab.wait_for("apart", "Succeeded")
        wait_until(lambda: alone_somewhere(lab, "loads", "computes"), "a slot for each", lab.log)


def test_without_interleaving_nobody_shares() -> None:
    with a_lab(slots=1, recipe="fifo(spacing=0.1)") as lab:
        lab.start()
        submit(lab, "loads", LOADS)
        lab.wait_for("loads", "Running")
        submit(lab, "computes", COMPUTES)
        wait_until(lambda: bool(lab.entry("computes").reasons), "a reason", lab.log)
        assert lab.state("computes") == "Queued"


def in_company_on(lab: Lab, *names: str) -> None:
    wait_until(lambda: all(company(lab, name) for name in names), "company", lab.log)
    assert len({lab.entry(name).devices for name in names}) == 1


def alone_somewhere(lab: Lab, *names: str) -> bool:
    slots = [lab.entry(name).devices for name in names]
    return len(set(slots)) == len(names) and not any(company(lab, name) for name in names)
