"""What is wrong in a simulated world shows in ends, checks and answers, and is handled by class."""

from dataclasses import replace

import pytest

from tests.builders import a_cluster, a_job
from weft.brain.brain import Brain, Settings
from weft.brain.event import Event, JobFailed, NodeChecked
from weft.brain.instruction import CheckNode, Instruction, Start
from weft.brain.journal import Journal
from weft.failure.classes import FailureClass
from weft.failure.lines import Stream
from weft.model.ids import JobId, NodeId
from weft.model.job import Job
from weft.policy.recipes import backfill
from weft.sim.agenda import Agenda, Turn
from weft.sim.checkups import Checkups
from weft.sim.faults import Faults
from weft.sim.record import Record
from weft.sim.troubles import Ailment, BadNode, Outage, Troubles
from weft.sim.world import Checks, World

ECC = ((Stream.APP, "RuntimeError: CUDA error: uncorrectable ECC error encountered"),)
XID = ((Stream.KERNEL, "NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus."),)
HDFS = (
    (Stream.APP, "java.net.ConnectException: Call From a to b:8020 failed on connection exception"),
)
KEY = ((Stream.APP, "KeyError: 'head'"),)


class Heard(Journal):
    """Everything, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []
        self.instructions: list[Instruction] = []

    def record(self, event: Event, instructions: list[Instruction]) -> None:  # type: ignore[override]
        super().record(event, instructions)
        self.events.append(event)
        self.instructions += instructions


def lived(
    jobs: list[Job], troubles: Troubles, *, nodes: int = 4, settings: Settings | None = None
) -> tuple[World, Record, Heard]:
    heard = Heard()
    world = World(
        a_cluster(nodes=nodes),
        jobs,
        Brain(backfill(), settings=settings),
        faults=Faults(troubles=troubles),
        journal=heard,
        checks=Checks.FULL,
    )
    return world, world.run(horizon_seconds=1e6), heard


def test_an_ill_job_fails_when_its_time_comes_and_is_told_with_its_line() -> None:
    ill = Troubles(ailments={JobId("ill"): Ailment(lines=KEY, after_seconds=90.0)})
    _, record, heard = lived([a_job("ill", 8), a_job("well")], ill)
    failed = [event for event in heard.events if isinstance(event, JobFailed)]
    assert [(event.at, event.job) for event in failed] == [(90.0, "ill")]
    assert failed[0].diagnosis is not None and failed[0].diagnosis.kind is FailureClass.USER
    line = record.jobs[JobId("ill")]
    assert (line.outcome, line.cause, line.evidence) == ("failed", "user", "KeyError: 'head'")
    assert line.lost_gpu_seconds == pytest.approx(720.0)
    assert record.jobs[JobId("well")].outcome == "succeeded"


def test_where_nobody_looks_the_same_job_is_tried_four_times() -> None:
    ill = Troubles(ailments={JobId("ill"): Ailment(lines=KEY, after_seconds=90.0)})
    _, record, heard = lived([a_job("ill")], ill.unexplained())
    assert sum(isinstance(event, JobFailed) for event in heard.events) == 4
    assert record.jobs[JobId("ill")].cause == ""


def test_what_another_try_can_cure_is_cured_by_one() -> None:
    ill = Troubles(ailments={JobId("ill"): Ailment(lines=HDFS, after_seconds=90.0, again=0.0)})
    _, record, _ = lived([a_job("ill")], ill)
    assert record.jobs[JobId("ill")].outcome == "succeeded"
    assert record.jobs[JobId("ill")].failures == 1


def test_an_ailment_that_needs_a_gang_does_not_show_on_one_gpu() -> None:
    ill = Ailment(lines=KEY, after_seconds=90.0, needs_gpus=2)
    _, record, _ = lived([a_job("one")], Troubles(ailments={JobId("one"): ill}))
    assert record.jobs[JobId("one")].outcome == "succeeded"


def test_a_bad_node_is_left_alone_until_a_check_finds_it_well() -> None:
    bad = BadNode(node=NodeId("n0"), lines=XID, end_seconds=50_000.0, after_seconds=60.0)
    jobs = [a_job(f"j{n}", 8, seconds=3000.0, at=1500.0 * n) for n in range(60)]
    world, record, heard = lived(jobs, Troubles(bad_nodes=(bad,)))
    assert {line.outcome for line in record.jobs.values()} == {"succeeded"}
    assert sum(line.failures for line in record.jobs.values()) == 1
    assert sum(isinstance(one, CheckNode) for one in heard.instructions) > 3
    assert not world.brain.state.failures.health.aside
    late = [
        one
        for one in heard.instructions
        if isinstance(one, Start) and "n0" in one.assignment.placement.nodes
    ]
    assert len(late) > 1, "it is used again once it is well"


def test_without_quarantine_the_same_node_fails_one_job_after_the_other() -> None:
    bad = BadNode(node=NodeId("n0"), lines=XID, end_seconds=50_000.0, after_seconds=60.0)
    jobs = [a_job(f"j{n}", 8, seconds=3000.0, at=1500.0 * n) for n in range(60)]
    settings = Settings(quarantine=False)
    _, record, _ = lived(jobs, Troubles(bad_nodes=(bad,)), settings=settings)
    assert sum(line.failures for line in record.jobs.values()) > 5


def outage(jobs: int = 30) -> tuple[list[Job], Troubles]:
    some = [a_job(f"j{n}", seconds=7200.0, tenant=f"u{n % 3}") for n in range(jobs)]
    out = Outage(service="hdfs", lines=HDFS, begin_seconds=1000.0, end_seconds=6000.0)
    return some, Troubles(outages=(out,))


def test_in_an_outage_nobody_is_restarted_in_vain_and_nobody_is_given_up() -> None:
    jobs, troubles = outage()
    _, record, heard = lived(jobs, troubles)
    assert {line.outcome for line in record.jobs.values()} == {"succeeded"}
    failed = sum(isinstance(event, JobFailed) for event in heard.events)
    assert failed <= 30 + 10
    back = [line.ended for line in record.jobs.values() if line.ended is not None]
    assert max(back) - min(back) > 30.0


def test_without_breakers_jobs_run_into_the_outage_again_and_again() -> None:
    jobs, troubles = outage()
    _, _, heard = lived(jobs, troubles, settings=Settings(breakers=False))
    assert sum(isinstance(event, JobFailed) for event in heard.events) > 90


def test_without_classes_what_nobody_can_cure_is_tried_as_often_as_anything() -> None:
    ill = Troubles(ailments={JobId("ill"): Ailment(lines=KEY, after_seconds=90.0)})
    _, record, _ = lived([a_job("ill")], ill, settings=Settings(retry_by_class=False))
    assert record.jobs[JobId("ill")].failures == 4
    assert record.jobs[JobId("ill")].cause == "user", "what was found is told all the same"


def test_a_world_that_goes_on_from_the_middle_fails_as_it_would_have() -> None:
    troubles = Troubles(
        ailments={
            JobId(f"j{n}"): Ailment(lines=ECC, after_seconds=400.0 + n, again=0.5) for n in (1, 4)
        },
        bad_nodes=(BadNode(node=NodeId("n1"), lines=ECC, share=0.5, end_seconds=20_000.0),),
    )
    jobs = [a_job(f"j{n}", 2, seconds=3000.0, at=100.0 * n) for n in range(12)]

    def ends(world: World) -> dict[str, tuple[str, float | None]]:
        record = world.run(horizon_seconds=1e5)
        return {job: (line.outcome, line.ended) for job, line in record.jobs.items()}

    faults = Faults(troubles=troubles)
    straight = ends(World(a_cluster(nodes=4), jobs, Brain(backfill()), faults=faults))
    first = World(a_cluster(nodes=4), jobs, Brain(backfill()), faults=faults)
    first.run(horizon_seconds=1234.0)
    truths = {job.id: job.truth for job in jobs}
    again = World.resume(first.brain.copied(), truths, moment=first.moment(), faults=faults)
    later = ends(again)
    assert len(later) > 4
    assert later == {job: end for job, end in straight.items() if job in later}


def test_the_share_of_a_pool_holds_though_every_node_is_bad() -> None:
    bad = tuple(
        BadNode(node=NodeId(f"n{n:02d}"), lines=XID, end_seconds=9e5, after_seconds=60.0)
        for n in range(40)
    )
    jobs = [a_job(f"j{n}", 8, seconds=300.0, tenant=f"u{n % 5}") for n in range(60)]
    world, _, _ = lived(jobs, Troubles(bad_nodes=bad), nodes=40)
    assert len(world.brain.state.failures.health.aside) <= 2
    assert world.brain.state.failures.health.for_people


def test_troubles_end_when_faults_do() -> None:
    ill = Troubles(ailments={JobId("ill"): Ailment(lines=KEY, after_seconds=90.0)})
    _, record, _ = lived([a_job("ill")], replace(ill, until_seconds=50.0))
    assert record.jobs[JobId("ill")].outcome == "succeeded"


def test_a_gang_that_waits_dies_on_one_gpu_instead_of_sixteen() -> None:
    ill = Troubles(ailments={JobId("gang"): Ailment(lines=KEY, after_seconds=90.0)})
    jobs = [a_job("big", 30, seconds=5e4), a_job("gang", 16, at=10.0), a_job("good", 16, at=20.0)]
    settings = Settings(trial_seconds=600.0)
    _, record, _ = lived(jobs, ill, settings=settings)
    line = record.jobs[JobId("gang")]
    assert (line.outcome, line.attained_gpu_seconds, line.starts) == ("failed", 0.0, 0)
    trials = record.trials
    assert trials[JobId("gang.trial")].attained_gpu_seconds == pytest.approx(90.0)
    assert trials[JobId("good.trial")].attained_gpu_seconds == pytest.approx(600.0)
    assert record.jobs[JobId("good")].outcome == "succeeded"
    assert set(record.jobs) == {"big", "gang", "good"}


def test_a_bad_node_that_made_a_name_of_itself_is_back_when_it_is_repaired() -> None:
    bad = BadNode(node=NodeId("n0"), lines=ECC, end_seconds=20_000.0, after_seconds=60.0)
    jobs = [
        a_job(f"j{n}", 8, seconds=600.0, at=100.0 * n, tenant=f"u{n % 4}", max_retries=6)
        for n in range(120)
    ]
    world, record, _ = lived([*jobs, a_job("last", 8, at=60_000.0)], Troubles(bad_nodes=(bad,)))
    assert record.jobs[JobId("last")].outcome == "succeeded"
    assert not world.brain.state.failures.health.aside


def test_people_have_seen_to_a_node_that_stays_aside_within_a_day() -> None:
    """Be something wrong with it or not; one that was back meanwhile is looked at anew."""
    agenda, told = Agenda(0.0), list[Event]()
    check = Checkups(Troubles(), agenda, told.append).acts[CheckNode]
    hours = (0, 4, 8, 12, 16, 20, 24, 28, 60)
    for hour in hours:
        agenda.put(hour * 3600.0, Turn.WORLD, check, CheckNode(NodeId("n0"), "it was blamed"))
    while agenda:
        agenda.advance()
    repaired = [event.repaired for event in told if isinstance(event, NodeChecked)]
    assert repaired == [24 <= hour < 60 for hour in hours]
