"""Jobs that take turns on the same GPUs: who joins whom, who holds the GPUs, and when they part."""

from dataclasses import replace

import pytest

from weft.brain.brain import Brain, Settings
from weft.brain.event import (
    InstructionDone,
    JobFinished,
    JobMeasured,
    JobSubmitted,
    NodeAdded,
    Phase,
    Tick,
    Verb,
)
from weft.model.claim import ClaimSource, StageClaim
from weft.model.cluster import Cluster, Gpu
from weft.model.errors import SpecError
from weft.model.ids import JobId, QueueId, TenantId
from weft.model.job import Job
from weft.model.queue import Queue, QueueTree
from weft.model.request import INDIFFERENT, Width
from weft.model.stages import StageProfile
from weft.model.state import State
from weft.model.truth import Work
from weft.perf.interleaving.group import CycleModel
from weft.policy.recipe import Recipe
from weft.policy.recipes import RECIPES
from weft.policy.share.guards import Guard
from weft.policy.share.sharing import Sharing
from weft.reconcile.company import company_seen, no_company_seen
from weft.sim.costs import COSTS
from weft.sim.record import Record
from weft.sim.telling import SILENT, TELLING, Telling
from weft.sim.world import Checks, World
from weft.view.company import NoCompany, company_line, no_company_line

GIB = 2**30
LOADS = StageProfile(iteration_seconds=1.0, storage_seconds=0.8, gpu_seconds=0.2)
COMPUTES = StageProfile(iteration_seconds=1.0, storage_seconds=0.1, gpu_seconds=0.8)
SECONDS = 1000.0


def job(name: str, stages: StageProfile | None, *, at: float = 0.0, **more: object) -> Job:
    given = {"gpus": 1, "work": SECONDS, "shareable": True, "priority": 0} | more
    return Job.told(
        id=JobId(name),
        width=Width.fixed(int(str(given["gpus"]))),
        work=Work(float(str(given["work"]))),
        submit_seconds=at,
        stages=stages,
        shareable=bool(given["shareable"]),
        priority=int(str(given["priority"])),
        queue=QueueId(str(given.get("queue", "default"))),
        saves_on_demand=True,
        locality=INDIFFERENT,
    )


def recipe(name: str = "fifo", **sharing: float) -> Recipe:
    return replace(RECIPES[name](), sharing=Sharing(**sharing))  # type: ignore[arg-type]


def world(
    jobs: list[Job],
    *,
    by: Recipe | None = None,
    cluster: Cluster | None = None,
    telling: Telling = TELLING,
) -> World:
    brain = Brain(by or recipe())
    where = cluster or Cluster.uniform(1, 1)
    return World(where, jobs, brain, costs=COSTS["tacc"], checks=Checks.FULL, telling=telling)


def jct_seconds(record: Record) -> dict[str, float]:
    return {name: line.jct_seconds or 0.0 for name, line in record.jobs.items()}


def test_jobs_that_fill_each_others_gaps_end_nearly_as_if_alone() -> None:
    ended = jct_seconds(world([job("a", LOADS), job("b", COMPUTES)]).run())
    assert max(ended.values()) < 1.1 * SECONDS


@pytest.mark.parametrize("name", sorted(set(RECIPES) - {n for n in RECIPES if "muri" in n}))
def test_no_recipe_is_worse_for_it(name: str) -> None:
    """Four jobs on one GPU, two of each kind."""
    jobs = [job("a", LOADS), job("b", COMPUTES), job("c", LOADS, at=10), job("d", COMPUTES, at=20)]
    apart = jct_seconds(world(jobs, by=replace(RECIPES[name](), sharing=None)).run())
    together = jct_seconds(world(jobs, by=recipe(name)).run())
    assert sum(together.values()) < 0.8 * sum(apart.values())


@pytest.mark.parametrize(
    "other",
    [
        job("b", COMPUTES, shareable=False),
        job("b", None),
        job("b", COMPUTES, priority=1),
        job("b", COMPUTES, gpus=2),
        job("b", replace(LOADS, storage_seconds=1.2, iteration_seconds=1.2)),
    ],
    ids=["would rather not", "nobody knows", "matters more", "another width", "no gap"],
)
def test_nobody_joins_who_should_not(other: Job) -> None:
    where = Cluster.uniform(1, 2)
    full = replace(LOADS, storage_seconds=1.0, gpu_seconds=0.0)
    held = [job("x", None, shareable=False), job("a", full), other]
    there = world(held, cluster=where)
    for _ in range(200):
        there.step()
        assert not there.brain.state.seating.company
        if not there.pending:
            break


def test_memory_that_would_not_do_or_that_nobody_knows_keeps_them_apart() -> None:
    small = Cluster(
        tuple(replace(n, gpu=Gpu(memory_gib=16.0)) for n in Cluster.uniform(1, 1).nodes)
    )
    for bytes_, joined in ((4 * GIB, True), (9 * GIB, False), (None, False)):
        jobs = [
            job(name, replace(stages, gpu_memory_bytes=bytes_))
            for name, stages in (("a", LOADS), ("b", COMPUTES))
        ]
        ended = jct_seconds(world(jobs, cluster=small).run())
        assert (max(ended.values()) < 1.1 * SECONDS) == joined


def test_the_gpus_pass_to_a_companion_when_the_lead_ends() -> None:
    there = world([job("a", LOADS, work=300.0), job("b", COMPUTES)])
    while (there.pending and "a" in there.brain.state.slot_of) or not there.brain.state.closed:
        there.step()
    state = there.brain.state
    left = state.slot_of[JobId("b")]
    assert not state.seating.company
    assert state.seats.gpus[state.seating.seat_rows[left]].tolist() == [1]
    ended = jct_seconds(there.run())
    assert ended["b"] < 1.1 * SECONDS


def test_a_party_yields_as_a_whole() -> None:
    """To one of higher priority, and both come back."""
    there = world(
        [
            job("a", LOADS, work=5000.0),
            job("b", COMPUTES, work=5000.0),
            job("vip", None, at=2000.0, priority=5, work=100.0),
        ],
        by=recipe("las"),
    )
    ended = jct_seconds(there.run())
    assert ended["vip"] < 200.0
    assert all(seconds < 1.1 * 5000.0 for seconds in ended.values())


def test_a_companion_gets_gpus_of_its_own_when_there_are_some() -> None:
    """The two that compute alike slow each other; one that holds the other GPU ends."""
    half = replace(LOADS, storage_seconds=0.7, gpu_seconds=0.3)
    jobs = [
        job("blocker", None, shareable=False, work=200.0),
        job("a", half, at=1.0, work=5000.0),
        job("b", half, at=2.0, work=5000.0),
    ]
    there = world(jobs, cluster=Cluster.uniform(1, 2))
    met = False
    while there.pending and there.now < 1000.0:
        there.step()
        met |= bool(there.brain.state.seating.company)
    assert met
    assert not there.brain.state.seating.company
    assert jct_seconds(there.run())["b"] < 5300.0


def test_a_party_is_charged_to_its_queue_like_one_job() -> None:
    """A queue of one GPU runs two jobs that take turns on it; service is by the share of each."""
    jobs = [job("a", LOADS, queue="q"), job("b", COMPUTES, queue="q")]
    brain = Brain(recipe(), tree=QueueTree((Queue(id=QueueId("q"), limit_gpus=1),)))
    there = World(Cluster.uniform(1, 2), jobs, brain, checks=Checks.FULL)
    while there.now < 500.0:
        there.step()
    state = there.brain.state
    slots = [state.slot_of[JobId(name)] for name in "ab"]
    assert [state.state_of(slot) for slot in slots] == [State.RUNNING, State.RUNNING]
    assert state.own_use() == [1]
    assert sum(float(state.jobs.gpu_rate[slot]) for slot in slots) == pytest.approx(1.0)


def test_a_new_brain_finds_who_takes_turns_with_whom() -> None:
    """Whatever of them it hears of first."""
    there = world([job("a", LOADS), job("b", COMPUTES), job("c", LOADS, at=5.0)])
    while there.now < 500.0:
        there.step()
    for order in (1, -1):
        brain = Brain(recipe())
        events = [NodeAdded(500.0, node) for node in Cluster.uniform(1, 1).nodes]
        for event in events:
            brain.handle(event)
        for run in there.running()[::order]:
            brain.handle(JobSubmitted(500.0, run.job.request))
            said = brain.handle(run.adoptable(500.0))
            assert not [one for one in said if type(one).__name__ in ("Stop", "Preempt")]
        slot = brain.state.slot_of[JobId("a")]
        assert len(brain.state.seating.company.members(slot)) == 2
        assert sum(brain.state.own_use()) == 1


@pytest.mark.parametrize("order", [1, -1])
def test_gpus_of_a_lead_that_a_new_brain_finds_leaving_are_those_of_who_stays(order: int) -> None:
    """Else its queue would seem to have them to give away."""
    there = world([job("a", LOADS), job("b", COMPUTES)])
    while there.now < 500.0:
        there.step()
    brain = Brain(recipe())
    for node in Cluster.uniform(1, 1).nodes:
        brain.handle(NodeAdded(500.0, node))
    for run in there.running()[::order]:
        found = run.adoptable(500.0)
        if run.job.id == "a":
            found = replace(found, phase=Phase.STOPPING)
        brain.handle(JobSubmitted(500.0, run.job.request))
        brain.handle(found)
    state = brain.state
    assert state.state_of(state.slot_of[JobId("a")]) is State.STOPPING
    assert state.seating.company.lead(state.slot_of[JobId("a")]) == state.slot_of[JobId("b")]
    assert sum(state.own_use()) == 1


def test_what_is_claimed_wrongly_changes_no_other_job() -> None:
    """Both say that they leave gaps, and one leaves none: they are slow, and nothing breaks."""
    liar = job("b", COMPUTES)
    liar = Job(liar.request, replace(liar.truth, stages=replace(LOADS, storage_seconds=1.0)))
    ended = jct_seconds(world([job("a", LOADS), liar]).run())
    assert max(ended.values()) < 2.2 * SECONDS


HARM = CycleModel(overhead={1: 1.0, 2: 2.6})
"""What two jobs do to each other's caches, say: together they do 0.77 times the work of one."""


def test_a_party_that_does_harm_is_broken_up_and_not_tried_again_for_an_hour() -> None:
    jobs = [job("a", LOADS, work=3000.0), job("b", COMPUTES, work=3000.0)]
    there = World(Cluster.uniform(1, 1), jobs, Brain(recipe()), cycles=HARM, checks=Checks.FULL)
    shared, state = [], there.brain.state
    while there.pending and there.now < 3000.0:
        there.step()
        shared.append((there.now, bool(state.seating.company)))
    assert any(together for _, together in shared)
    last = max(at for at, together in shared if together)
    assert last < 600.0


def test_a_member_that_is_slowed_far_beyond_its_cap_is_released() -> None:
    """The others go on together."""
    slow = CycleModel(overhead={1: 1.0, 2: 1.9})
    jobs = [job("a", LOADS, work=9000.0), job("b", COMPUTES, work=9000.0)]
    by = recipe(cap=1.5)
    there = World(Cluster.uniform(1, 1), jobs, Brain(by), cycles=slow, checks=Checks.FULL)
    while there.now < 2000.0:
        there.step()
    assert not there.brain.state.seating.company


def shares(tree: QueueTree, queue: str) -> bool:
    """Whether a second job, which would be slowed 2 times, joins the first."""
    brain = Brain(recipe(), tree=tree)
    half = StageProfile(iteration_seconds=1.0, storage_seconds=0.5, gpu_seconds=0.5)
    jobs = [
        job("a", half, queue=queue),
        job("b", replace(half, iteration_seconds=0.55), queue=queue),
    ]
    there = World(Cluster.uniform(1, 1), jobs, brain, checks=Checks.FULL)
    return meets(there)


def meets(there: World) -> bool:
    """Whether anybody ever takes turns."""
    while there.pending:
        there.step()
        if there.brain.state.seating.company:
            return True
    return False


def test_how_much_a_job_may_be_slowed_is_for_its_queue_to_say() -> None:
    """The nearest one above that says something."""

    def tree(*caps: float | None) -> QueueTree:
        names = ("root", "team", "people")
        return QueueTree(
            tuple(
                Queue(id=QueueId(name), parent=QueueId(above) if above else None, max_slowdown=cap)
                for name, above, cap in zip(names, ("", *names[:-1]), caps, strict=True)
            )
        )

    assert shares(tree(None, None, None), "people")
    assert not shares(tree(1.05, None, None), "people")
    assert shares(tree(1.05, 4.0, None), "people")
    assert not shares(tree(9.0, 4.0, 1.05), "people")
    with pytest.raises(SpecError, match=r"0\.5 times"):
        tree(0.5, None, None)


def test_tenants_meet_only_where_their_world_lets_them() -> None:
    def meet(*, mixes: bool, tenants: tuple[str, str]) -> bool:
        brain = Brain(recipe(), settings=Settings(mixes_tenants=mixes))
        jobs = [
            Job(replace(one.request, tenant=TenantId(tenant)), one.truth)
            for one, tenant in zip([job("a", LOADS), job("b", COMPUTES)], tenants, strict=True)
        ]
        there = World(Cluster.uniform(1, 1), jobs, brain, checks=Checks.FULL)
        return meets(there)

    assert meet(mixes=True, tenants=("ann", "bob"))
    assert not meet(mixes=False, tenants=("ann", "bob"))
    assert meet(mixes=False, tenants=("ann", "ann"))


def test_what_was_measured_corrects_what_is_foretold() -> None:
    slower = CycleModel(overhead={1: 1.0, 2: 1.3})
    jobs = [job("a", LOADS, work=9000.0), job("b", COMPUTES, work=9000.0)]
    there = World(Cluster.uniform(1, 1), jobs, Brain(recipe()), cycles=slower)
    while there.now < 2000.0:
        there.step()
    state = there.brain.state
    slot = state.slot_of[JobId("a")]
    assert state.turn(slot).slowdown == pytest.approx(1.3, rel=0.05)


def test_speeds_in_company_say_nothing_of_a_curve() -> None:
    """Of a job whose curve is to be learnt: what it does beside another is not its own speed."""
    told = job("a", LOADS, work=9000.0)
    secret = Job(replace(told.request, curve=None), told.truth)
    there = World(Cluster.uniform(1, 1), [secret, job("b", LOADS, work=9000.0)], Brain(recipe()))
    while there.now < 1500.0:
        there.step()
    brain = there.brain
    slot = brain.state.slot_of[JobId("a")]
    assert brain.state.seating.company.shares(slot)
    lesson = brain.learning.lessons.get(slot)
    assert lesson is None or all(point.units_per_second > 0.9 for point in lesson.points)


# --- what is learnt of steps ----------------------------------------------------------------------


def measured(brain: Brain, name: str, stages: StageProfile | None, **said: object) -> None:
    slot = brain.state.slot_of[JobId(name)]
    epoch = int(brain.state.jobs.epoch[slot])
    given = {"gpus": 1, "units_per_second": 1.0, "seconds": 10.0, "work_done": 10.0} | said
    event = JobMeasured(brain.now + 1.0, JobId(name), epoch, nodes=1, stages=stages, **given)  # type: ignore[arg-type]
    brain.handle(event)


def started(*jobs: Job, telling: Telling = TELLING) -> Brain:
    there = world(list(jobs), telling=telling)
    while there.pending and there.now < 100.0:
        there.step()
    return there.brain


def test_one_of_whom_nobody_knows_has_company_once_it_is_measured() -> None:
    brain = started(job("a", None), job("b", COMPUTES, at=1.0))
    assert not brain.state.seating.company
    measured(brain, "a", LOADS)
    brain.handle(Tick(brain.now + 60.0))
    assert brain.state.seating.company.shares(brain.state.slot_of[JobId("a")])


def test_what_is_measured_goes_before_what_was_claimed_unless_it_is_the_same() -> None:
    brain = started(job("a", COMPUTES))
    measured(brain, "a", replace(COMPUTES, gpu_seconds=0.85))
    spec = brain.state.spec(0)
    assert spec.stages is not None and spec.stages.profile == COMPUTES, "within its noise"
    measured(brain, "a", LOADS)
    spec = brain.state.spec(0)
    assert spec.stages is not None and spec.stages.profile == LOADS
    assert spec.stages.source is ClaimSource.MEASURED


@pytest.mark.parametrize("off", [0.5, 0.8, 0.88, 1.0, 1.12, 1.2, 1.5])
def test_a_claim_that_is_off_is_within_a_tenth_after_one_look(off: float) -> None:
    brain = started(job("a", COMPUTES.scaled(off)))
    measured(brain, "a", COMPUTES)
    spec = brain.state.spec(0)
    assert spec.stages is not None
    for believed, real in zip(
        (spec.stages.profile.iteration_seconds, *spec.stages.profile.stages_seconds),
        (COMPUTES.iteration_seconds, *COMPUTES.stages_seconds),
        strict=True,
    ):
        assert abs(believed - real) <= 0.1 * COMPUTES.iteration_seconds + 1e-9


def in_turns(brain: Brain, name: str, stages: StageProfile, **said: object) -> StageClaim:
    """What is believed after a look at one in company."""
    measured(brain, name, None, stages_in_turns=stages, shared_steps_per_second=0.8, **said)
    claim = brain.state.spec(brain.state.slot_of[JobId(name)]).stages
    assert claim is not None
    return claim


def two_in_turns(claim: StageProfile) -> Brain:
    brain = started(job("a", LOADS, work=9e3), job("b", claim, work=9e3))
    assert brain.state.seating.company
    return brain


def test_a_wrong_claim_is_found_out_in_company_too() -> None:
    half = replace(COMPUTES, iteration_seconds=0.5, gpu_seconds=0.3)
    brain = two_in_turns(half)
    claim = in_turns(brain, "b", COMPUTES)
    assert claim.profile == COMPUTES and claim.source is ClaimSource.IN_TURNS
    assert in_turns(brain, "b", COMPUTES.scaled(1.05)).profile == COMPUTES, "within its noise"
    measured(brain, "b", replace(COMPUTES, gpu_seconds=0.6))
    assert in_turns(brain, "b", COMPUTES).source is ClaimSource.MEASURED, "alone it was seen better"


@pytest.mark.parametrize("slower", [1.0, 1.2, 1.45])
def test_a_right_claim_stands_though_all_takes_longer_in_company(slower: float) -> None:
    claim = in_turns(two_in_turns(COMPUTES), "b", COMPUTES.scaled(slower))
    assert claim.profile == COMPUTES and claim.source is not ClaimSource.IN_TURNS


def test_of_another_width_or_without_company_nothing_is_learnt_of_turns() -> None:
    half = replace(COMPUTES, iteration_seconds=0.5, gpu_seconds=0.3)
    assert in_turns(two_in_turns(half), "b", COMPUTES, gpus=2).profile == half
    assert in_turns(started(job("b", half)), "b", COMPUTES).profile == half


def test_memory_that_was_measured_higher_counts() -> None:
    brain = started(job("a", replace(COMPUTES, gpu_memory_bytes=GIB)))
    measured(brain, "a", replace(COMPUTES, gpu_memory_bytes=2 * GIB + 1))
    stages = brain.state.spec(0).stages
    assert stages is not None
    assert stages.profile.gpu_memory_bytes == 2 * GIB + (64 << 20), "in blocks of 64 MiB"
    measured(brain, "a", replace(COMPUTES, gpu_memory_bytes=GIB))
    assert brain.state.spec(0).stages == stages


def test_memory_is_not_believed_to_be_less_because_other_stages_were_measured() -> None:
    """Its peak may be yet to come: somebody else would be killed for it."""
    brain = started(job("a", replace(LOADS, gpu_memory_bytes=8 * GIB)))
    measured(brain, "a", replace(COMPUTES, gpu_memory_bytes=GIB))
    stages = brain.state.spec(brain.state.slot_of[JobId("a")]).stages
    assert stages is not None
    assert stages.profile == replace(COMPUTES, gpu_memory_bytes=8 * GIB)


def test_what_another_width_does_is_not_learnt() -> None:
    brain = started(job("a", None))
    measured(brain, "a", LOADS, gpus=2)
    assert brain.state.spec(0).stages is None


def test_a_slowdown_is_of_steps_where_they_were_counted_in_company() -> None:
    """Work is counted in steps here, and the believed speed in seconds: they do not compare."""
    jobs = [job("a", LOADS, work=9000.0), job("b", COMPUTES, work=9000.0)]
    brain = started(*jobs)
    assert brain.state.seating.company
    for name, stages in (("a", LOADS), ("b", COMPUTES)):
        measured(brain, name, stages, units_per_second=40.0, shared_steps_per_second=0.8)
    (looked,) = brain.state.turns.looked.values()
    assert list(looked.measured.values()) == [pytest.approx(1.25)] * 2
    told = company_seen(brain, JobId("a"))
    assert told is not None
    assert [member.measured for member in told.members] == [pytest.approx(1.25)] * 2


def test_what_a_party_does_is_judged_by_all_its_work_and_not_by_its_slowest() -> None:
    """Of the short steps two were foretold for each long one, and one is done."""
    short = replace(COMPUTES.scaled(0.25), storage_seconds=0.05)
    brain = started(job("a", LOADS, work=9000.0), job("b", short, work=9000.0), telling=SILENT)
    for name, slowdown in (("a", 1.1), ("b", 2.9)):
        steps = 1.0 / slowdown if name == "a" else 1.0 / slowdown / short.iteration_seconds
        measured(brain, name, None, shared_steps_per_second=steps)
    told = company_seen(brain, JobId("a"))
    assert told is not None
    assert told.aggregate == pytest.approx(1.0 / 1.1 + 1.0 / 2.9, rel=0.01)
    brain.handle(Tick(brain.now + 60.0))
    assert brain.state.seating.company, "it does no harm"


def looks(brain: Brain, slowdowns: dict[str, float], *, times: int) -> None:
    """So many measurements of ten seconds each, as workers make them; steps take a second alone."""
    for _ in range(times):
        for name, slowdown in slowdowns.items():
            measured(brain, name, None, shared_steps_per_second=1.0 / slowdown)


def test_measurements_of_a_few_seconds_add_up_until_a_party_is_judged() -> None:
    jobs = [job("a", LOADS, work=9000.0), job("b", COMPUTES, work=9000.0)]
    brain = started(*jobs, telling=SILENT)
    looks(brain, {"a": 1.1, "b": 40.0}, times=3)
    assert brain.state.seating.company, "for half a minute"
    looks(brain, {"a": 1.1, "b": 40.0}, times=3)
    stopping = {name: brain.state.state_of(slot_of(brain, name)) is State.STOPPING for name in "ab"}
    assert any(stopping.values()), "together they did less than one alone"


def test_who_is_slowed_far_beyond_its_cap_at_two_looks_is_released_whatever_all_do() -> None:
    jobs = [job("a", LOADS, work=9000.0), job("b", COMPUTES, work=9000.0)]
    brain = started(*jobs, telling=SILENT)
    looks(brain, {"a": 1.0, "b": 8.0}, times=9)
    assert brain.state.state_of(slot_of(brain, "b")) is State.RUNNING, "fifty cycles are a look"
    looks(brain, {"a": 1.0, "b": 8.0}, times=2)
    assert brain.state.state_of(slot_of(brain, "b")) is State.STOPPING


def slot_of(brain: Brain, name: str) -> int:
    return brain.state.slot_of[JobId(name)]


def test_names_of_other_tenants_are_not_shown() -> None:
    pair = [job("a", LOADS), job("b", COMPUTES)]
    jobs = [
        Job(replace(one.request, tenant=TenantId(tenant)), one.truth)
        for one, tenant in zip(pair, ("ann", "bob"), strict=True)
    ]
    brain = started(*jobs)
    told, all_of_it = (company_seen(brain, JobId("a"), by_all=by_all) for by_all in (False, True))
    assert told is not None and told.others == ("a job of another tenant",)
    assert all_of_it is not None and all_of_it.others == ("b",)


def test_the_closest_pair_names_its_guard() -> None:
    full = StageProfile(iteration_seconds=1.0, gpu_seconds=1.0)
    brain = started(job("a", full), job("b", full))
    refused = no_company_seen(brain, JobId("b"), by_all=True)
    assert refused == NoCompany(("a",), "gain", Guard.GAIN.meaning)
    assert no_company_seen(brain, JobId("a"), by_all=True) is None


FULL = replace(LOADS, storage_seconds=1.0, gpu_seconds=0.0)
HALF = StageProfile(iteration_seconds=1.0, gpu_seconds=0.7)
EASY = StageProfile(iteration_seconds=1.0, network_seconds=0.1)


@pytest.mark.parametrize(
    ("guard", "there"),
    [
        (Guard.NOBODY, [job("x", LOADS, shareable=False)]),
        (Guard.FULL, [job(name, EASY) for name in "wxyz"]),
        (Guard.FIRM, [job("x", LOADS)]),
        (Guard.SLOWDOWN, [job("x", replace(COMPUTES, iteration_seconds=0.05, gpu_seconds=0.01))]),
    ],
    ids=["nobody would share", "all of them are full", "it may not be stopped", "its cap"],
)
def test_whoever_waits_without_company_is_told_why(guard: Guard, there: list[Job]) -> None:
    last = job("last", LOADS)
    if guard is Guard.FIRM:
        last = Job(replace(last.request, preemptible=False), last.truth)
    brain = started(*there, last)
    told = no_company_seen(brain, JobId("last"), by_all=True)
    assert told is not None and told.guard == guard.value
    assert no_company_line(told).endswith(f"{guard.meaning} [{guard.value}]")


def test_cores_that_are_missing_beside_all_others_are_told() -> None:
    (node,) = Cluster.uniform(1, 1).nodes
    brain = Brain(recipe())
    few = replace(node, cpus=4.0)
    jobs = [job("a", LOADS), job("b", COMPUTES)]
    demand = [replace(one.request, cpus_per_gpu=3.0) for one in jobs]
    for event in (
        NodeAdded(0.0, few),
        JobSubmitted(0.0, demand[0]),
        JobSubmitted(0.0, demand[1]),
        Tick(1.0),
        InstructionDone(2.0, JobId("a"), 1, Verb.START),
        Tick(62.0),
    ):
        brain.handle(event)
    told = no_company_seen(brain, JobId("b"))
    assert told is not None and (told.guard, told.closest) == ("room", ())


def test_a_command_that_was_measured_is_judged_by_that_whatever_it_claims() -> None:
    """Another run of it says that its steps leave a gap, where they leave none."""
    full = StageProfile(iteration_seconds=1.0, gpu_seconds=1.0)
    runs = [
        Job(replace(one.request, program="train.py"), one.truth)
        for one in (job("a", full), job("b", LOADS, at=200.0), job("c", COMPUTES, at=200.0))
    ]
    there = world(runs[:2])
    while there.pending and there.now < 60.0:
        there.step()
    measured(there.brain, "a", full)
    there.brain.handle(JobSubmitted(there.brain.now, runs[2].request))
    stages = there.brain.state.spec(there.brain.state.slot_of[JobId("c")]).stages
    assert stages is not None and stages.source is ClaimSource.MEASURED
    assert stages.profile == full


def test_whose_length_nobody_knows_parts_once_that_is_worth_a_restart() -> None:
    """Nothing else happens in between: the moment is asked for."""
    others = [job("x", None, shareable=False, work=30.0)]
    pair = [
        Job(replace(one.request, work=None), one.truth)
        for one in (job("a", COMPUTES, work=9000.0), job("b", COMPUTES, work=9000.0, at=5.0))
    ]
    light = [
        Job(replace(one.request, stages=StageClaim(HALF)), replace(one.truth, stages=HALF))
        for one in pair
    ]
    there = world([*others, *light], cluster=Cluster.uniform(1, 2), telling=SILENT)
    while there.pending and not there.brain.state.seating.company:
        there.step()
    while there.pending and there.brain.state.seating.company:
        there.step()
    assert "x" not in there.brain.state.slot_of
    assert there.now < 900.0, "long before either of them ends"


def test_what_was_measured_of_one_who_is_gone_is_told_of_nobody() -> None:
    """The next one may have its row."""
    jobs = [job("a", LOADS, work=9000.0), job("b", COMPUTES, work=90.0), job("c", COMPUTES)]
    there = world(jobs, by=recipe(most_members=2))
    while there.pending and there.now < 80.0:
        there.step()
    slot = there.brain.state.slot_of[JobId("b")]
    for name, stages in (("a", LOADS), ("b", COMPUTES)):
        measured(there.brain, name, stages, units_per_second=40.0, shared_steps_per_second=0.5)
    while there.pending and JobId("b") in there.brain.state.slot_of:
        there.step()
    until = there.now + 10.0
    while there.pending and there.now < until:
        there.step()
    assert there.brain.state.seating.company.shares(there.brain.state.slot_of[JobId("c")])
    told = company_seen(there.brain, JobId("a"))
    assert told is not None and [one.measured for one in told.members] == [None, None]
    assert slot not in there.brain.state.turns.looked


def test_nobody_is_shown_to_be_faster_than_alone() -> None:
    jobs = [job("a", LOADS, work=9000.0), job("b", COMPUTES, work=9000.0)]
    brain = started(*jobs)
    for name, stages in (("a", LOADS), ("b", COMPUTES)):
        measured(brain, name, stages, units_per_second=40.0, shared_steps_per_second=1.1)
    told = company_seen(brain, JobId("a"))
    assert told is not None
    assert told.aggregate <= 2.0 and told.cycle_seconds >= 1.0
    assert all(one.slowdown >= 1.0 and (one.measured or 1.0) >= 1.0 for one in told.members)


def test_a_party_that_rests_is_told_and_who_was_in_it() -> None:
    jobs = [job("a", LOADS, work=9000.0), job("b", COMPUTES, work=9000.0)]
    brain = started(*jobs, telling=SILENT)
    looks(brain, dict.fromkeys("ab", 2.1), times=6)
    brain.handle(InstructionDone(brain.now + 5.0, JobId("b"), 1, Verb.STOP))
    brain.handle(Tick(brain.now + 120.0))
    assert not brain.state.seating.company
    told = no_company_seen(brain, JobId("b"), by_all=True)
    assert told is not None and (told.guard, told.closest) == ("rests", ("a",))


def test_what_is_shown_of_a_party_is_what_such_parties_were_measured_to_do() -> None:
    jobs = [job("a", LOADS, work=9000.0), job("b", COMPUTES, work=9000.0)]
    brain = started(*jobs)
    before = company_seen(brain, JobId("a"))
    for name, stages in (("a", LOADS), ("b", COMPUTES)):
        measured(brain, name, stages, units_per_second=40.0, shared_steps_per_second=0.8)
    after = company_seen(brain, JobId("a"))
    assert before is not None and after is not None
    assert after.aggregate == pytest.approx(before.aggregate / (1.0 + 0.3 * 0.25), rel=0.01)
    line = company_line(after)
    assert "a measured at 1.25 times" in line and line.endswith("put together by joining")


def test_one_whose_steps_nobody_knows_says_so() -> None:
    brain = Brain(recipe())
    for event in (
        NodeAdded(0.0, Cluster.uniform(1, 1).nodes[0]),
        JobSubmitted(0.0, job("a", LOADS).request),
        JobSubmitted(0.0, job("b", None).request),
        Tick(1.0),
    ):
        brain.handle(event)
    told = no_company_seen(brain, JobId("b"))
    assert told is not None and told.guard == "stages"
    assert no_company_line(told).startswith("it has no company yet: nobody knows what its steps do")
    assert no_company_seen(brain, JobId("a")) is None


def test_a_gpu_that_came_free_while_a_companion_started_is_not_forgotten() -> None:
    """It cannot be moved before it runs, and nothing else happens afterwards."""
    half = StageProfile(iteration_seconds=0.14, storage_seconds=0.06, gpu_seconds=0.08)
    loads = StageProfile(iteration_seconds=0.1, storage_seconds=0.08, gpu_seconds=0.02)
    brain = Brain(recipe())
    (node,) = Cluster.uniform(1, 2).nodes
    brain.handle(NodeAdded(0.0, node))
    for name, stages in (("x", None), ("a", half), ("b", loads)):
        brain.handle(JobSubmitted(1.0, job(name, stages, work=9e5).request))
        brain.handle(Tick(brain.now + 60.0))
        if name != "b":
            brain.handle(InstructionDone(brain.now, JobId(name), 1, Verb.START))
    brain.handle(JobFinished(brain.now, JobId("x"), 1))
    brain.handle(Tick(brain.now + 60.0))
    assert brain.state.seating.company.is_companion(brain.state.slot_of[JobId("b")])
    brain.handle(InstructionDone(brain.now + 1.0, JobId("b"), 1, Verb.START))
    assert brain.pace.due_at is not None
    brain.handle(Tick(brain.pace.due_at))
    assert brain.decision is not None
    assert [move.job for move in brain.decision.moves] == ["b"]
