"""The next step for one job, from what is seen and what is believed: no cluster, no clock."""

from dataclasses import replace

import pytest

from tests.kube.looks import (
    BOTH,
    DRAINED,
    NOW,
    TWO_SEATS,
    a_job,
    a_pod,
    believed,
    kinds,
    step,
)
from weft.brain.event import (
    InstructionDone,
    InstructionRefused,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobForgotten,
    JobReported,
    JobSubmitted,
    Past,
    Phase,
    Verb,
    WorkerLost,
)
from weft.kube.operator.observation.pod import ObservedPod
from weft.kube.operator.reconcile.next_step import phase_seen
from weft.kube.operator.reconcile.step import (
    AddFinalizer,
    CreatePods,
    DeleteJob,
    DeletePods,
    Note,
    Record,
    RecordRefused,
    RecordStopping,
    RemoveFinalizer,
    Rules,
    Settle,
)
from weft.model.errors import ProtocolError
from weft.model.state import State
from weft.reconcile.belief import Belief

# --- meeting a job


def test_a_new_job_is_submitted_and_nothing_else_is_said() -> None:
    found = step(a_job())
    assert kinds(found) == [JobSubmitted]
    (submitted,) = found.events
    assert isinstance(submitted, JobSubmitted)
    assert (submitted.job.id, submitted.job.tenant) == ("lab/vit", "lab")


@pytest.mark.parametrize(
    ("state", "pods", "phase"),
    [
        ("Starting", (), Phase.STARTING),
        ("Starting", (a_pod(0),), Phase.STARTING),
        ("Running", (a_pod(0), a_pod(1)), Phase.RUNNING),
        ("Running", (a_pod(0), a_pod(1, "Failed")), Phase.RUNNING),
        ("Running", (a_pod(0),), Phase.STOPPING),
        ("Running", (), Phase.ABSENT),
        ("Stopping", (a_pod(0), a_pod(1)), Phase.STOPPING),
        ("Stopping", (), Phase.ABSENT),
        ("Queued", (a_pod(0),), Phase.STOPPING),
        ("Queued", (a_pod(0, "Succeeded"),), Phase.ABSENT),
    ],
)
def test_what_is_found_of_a_recorded_incarnation(
    state: str, pods: tuple[ObservedPod, ...], phase: Phase
) -> None:
    job = a_job(state, epoch=1, status={"past": {"failures": 2, "attainedGpuSeconds": 64.0}})
    found = step(job, *pods)
    assert kinds(found) == [JobSubmitted, JobReported]
    reported = found.events[1]
    assert isinstance(reported, JobReported)
    assert (reported.phase, reported.epoch) == (phase, 1)
    assert reported.past == Past(64.0, failures=2)
    assert (reported.placement is None) == (phase is Phase.ABSENT)


def test_pods_of_another_object_with_the_same_name_are_not_its_own() -> None:
    alien = (a_pod(0, owner="before"), a_pod(1, owner="before"))
    assert phase_seen(a_job("Running", epoch=1), alien) is Phase.ABSENT


def test_a_spec_that_cannot_be_read_fails_with_the_reason() -> None:
    found = step(replace(a_job(), spec=None, fault="gpus: '4-16' is no range"))
    assert found.actions == (Settle(State.FAILED, "gpus: '4-16' is no range"),)


def test_a_job_without_any_image_fails_with_a_remedy() -> None:
    found = step(a_job(), rules=Rules())
    assert kinds(found) == [Settle]
    assert "add image" in str(found.actions[0])


def test_a_job_that_was_over_before_is_not_met_again() -> None:
    assert step(a_job("Succeeded")).idle


# --- starting


def test_the_decision_is_recorded_before_anything_else() -> None:
    found = step(a_job("Queued"), belief=believed(State.STARTING))
    assert found.actions == (Record(1, TWO_SEATS),)


def test_an_object_without_finalizer_gets_one_before_the_record() -> None:
    found = step(a_job("Queued", finalizer=False), belief=believed(State.STARTING))
    assert kinds(found) == [AddFinalizer, Record]


def test_pods_are_created_once_the_decision_is_on_record() -> None:
    found = step(a_job("Starting", epoch=1), belief=believed(State.STARTING))
    assert found.actions == (CreatePods(1, BOTH, (0, 1)),)


def test_only_missing_pods_are_created() -> None:
    found = step(a_job("Starting", epoch=1), a_pod(0), belief=believed(State.STARTING))
    assert found.actions == (CreatePods(1, BOTH, (1,)),)


def test_nothing_starts_beside_an_incarnation_that_still_lives() -> None:
    old = a_pod(0, epoch=1)
    found = step(a_job("Queued", epoch=1), old, belief=believed(State.STARTING, epoch=2))
    assert found.actions == (DeletePods((old,)),)
    leaving = replace(old, deleting=True)
    assert step(a_job("Queued", epoch=1), leaving, belief=believed(State.STARTING, epoch=2)).idle


@pytest.mark.parametrize("state", [State.QUEUED, State.ADMITTED])
def test_a_refused_start_is_written_down_at_once(state: State) -> None:
    seen = step(a_job("Starting", 1), belief=believed(state, 1))
    assert seen.actions == (RecordRefused(state),)
    assert step(a_job("Queued", 1), belief=believed(state, 1)).idle
    assert step(a_job("Starting", 1), belief=believed(state, 2)).idle


def test_nothing_starts_beside_a_former_worker() -> None:
    """It has lost its label, so it is not deleted; its owner shows whose worker it was."""
    former = a_pod(0, epoch=-1, job="", name="vit-1-0")
    seen = step(a_job("Queued", 1), belief=believed(State.STARTING, 2), name_conflicts=(former,))
    (refused,) = seen.events
    assert isinstance(refused, InstructionRefused)
    assert "vit-1-0 left the watch and still runs on n0, where it holds 8 GPUs" in refused.why


def test_a_pod_that_only_has_the_name_of_an_earlier_worker_keeps_no_job_from_starting() -> None:
    plain = a_pod(0, epoch=-1, job="", name="vit-1-0", owner="")
    seen = step(a_job("Queued", 1), belief=believed(State.STARTING, 2), name_conflicts=(plain,))
    assert kinds(seen) == [Record]


def test_what_is_left_of_an_ended_incarnation_goes_when_the_next_one_starts() -> None:
    old = a_pod(0, "Failed", epoch=1)
    found = step(a_job("Starting", epoch=2), old, belief=believed(State.STARTING, epoch=2))
    assert found.actions == (DeletePods((old,)), CreatePods(2, BOTH, (0, 1)))


def test_a_start_is_done_when_all_workers_run() -> None:
    job, belief = a_job("Starting", epoch=1), believed(State.STARTING)
    assert step(job, a_pod(0), a_pod(1, "Pending"), belief=belief).idle
    found = step(job, a_pod(0), a_pod(1), belief=belief)
    assert found.events == (InstructionDone(NOW, "lab/vit", 1, Verb.START),)  # type: ignore[arg-type]


def test_a_job_that_ends_before_its_start_was_noticed_has_finished() -> None:
    job, belief = a_job("Starting", epoch=1), believed(State.STARTING)
    found = step(job, a_pod(0, "Succeeded"), a_pod(1, "Succeeded"), belief=belief)
    assert kinds(found) == [JobFinished]


def test_a_newer_epoch_on_record_means_that_somebody_else_decides() -> None:
    with pytest.raises(ProtocolError, match="epoch 3, believed 1"):
        step(a_job("Starting", epoch=3), belief=believed(State.STARTING))


def test_a_pod_that_nobody_can_bind_is_withdrawn_after_a_while_and_the_start_refused() -> None:
    job, belief = a_job("Starting", epoch=1), believed(State.STARTING)
    homeless = a_pod(1, "Pending", node="", unschedulable="Insufficient nvidia.com/gpu")
    waiting = step(job, a_pod(0), homeless, belief=belief)
    assert waiting.idle
    assert waiting.look_at == NOW + Rules().unschedulable_seconds
    late = {"note": waiting.note, "now": NOW + Rules().unschedulable_seconds}
    withdrawn = step(job, a_pod(0), homeless, belief=belief, **late)
    assert withdrawn.actions == (DeletePods((a_pod(0), homeless)),)
    leaving = replace(a_pod(0), deleting=True)
    assert step(job, leaving, belief=belief, note=withdrawn.note).idle
    refused = step(job, belief=belief, note=withdrawn.note)
    assert kinds(refused) == [InstructionRefused]
    assert "Insufficient" in str(refused.events[0])


def test_a_start_that_a_node_rejects_is_refused_so_that_it_backs_off() -> None:
    rejected = a_pod(0, "Failed", reason="OutOfnvidia.com/gpu")
    found = step(a_job("Starting", epoch=1), rejected, belief=believed(State.STARTING))
    assert kinds(found) == [InstructionRefused]


def test_a_note_of_an_older_epoch_refuses_nothing() -> None:
    note = Note(refusal=(1, 0, "no room"))
    belief = believed(State.STARTING, epoch=2)
    found = step(a_job("Starting", epoch=2), belief=belief, note=note)
    assert kinds(found) == [CreatePods]


# --- running


def test_a_job_whose_workers_have_all_succeeded_has_finished() -> None:
    job, belief = a_job("Running", epoch=1), believed(State.RUNNING)
    assert step(job, a_pod(0, "Succeeded"), a_pod(1), belief=belief).idle
    found = step(job, a_pod(0, "Succeeded"), a_pod(1, "Succeeded"), belief=belief)
    assert kinds(found) == [JobFinished]


def test_a_worker_that_fails_takes_the_others_with_it_and_only_then_the_job_has_failed() -> None:
    job, belief = a_job("Running", epoch=1), believed(State.RUNNING)
    failed = a_pod(0, "Failed", exit_code=1)
    assert step(job, failed, a_pod(1), belief=belief).actions == (DeletePods((a_pod(1),)),)
    assert step(job, failed, a_pod(1, deleting=True), belief=belief).idle
    assert kinds(step(job, failed, belief=belief)) == [JobFailed]


@pytest.mark.parametrize(
    "lost",
    [
        a_pod(0, deleting=True),
        a_pod(0, "Failed", reason="Evicted"),
        a_pod(0, "Failed", exit_code=143, words=DRAINED),
        a_pod(0, "Failed", reason="NodeShutdown", exit_code=137),
    ],
)
def test_a_worker_that_was_taken_away_is_lost_and_not_to_blame(lost: ObservedPod) -> None:
    found = step(a_job("Running", epoch=1), lost, a_pod(1), belief=believed(State.RUNNING))
    (told,) = found.events
    assert isinstance(told, WorkerLost)
    assert (told.at, told.job, told.epoch, told.node) == (NOW, "lab/vit", 1, "n0")
    assert (told.failure.node, told.failure.rank) == ("n0", 0)


def test_a_worker_that_is_gone_is_lost() -> None:
    found = step(a_job("Running", epoch=1), a_pod(0), belief=believed(State.RUNNING))
    assert kinds(found) == [WorkerLost]


# --- stopping


def test_a_stop_is_recorded_before_a_pod_is_deleted() -> None:
    belief = believed(State.STOPPING, why="preempted for lab/llama")
    pods = (a_pod(0), a_pod(1))
    recorded = step(a_job("Running", epoch=1), *pods, belief=belief)
    assert recorded.actions == (RecordStopping(1, "preempted for lab/llama"),)
    assert step(a_job("Stopping", epoch=1), *pods, belief=belief).actions == (DeletePods(pods),)


def test_seats_are_free_only_when_the_last_pod_is_gone() -> None:
    job, belief = a_job("Stopping", epoch=1), believed(State.STOPPING)
    assert step(job, a_pod(1, deleting=True), belief=belief).idle
    assert kinds(step(job, belief=belief)) == [InstructionDone]


def test_a_start_that_was_never_recorded_is_stopped_by_doing_nothing() -> None:
    found = step(a_job("Queued"), belief=believed(State.STOPPING))
    assert kinds(found) == [InstructionDone]


def test_a_job_that_ends_while_it_is_stopped_has_finished() -> None:
    pods = (a_pod(0, "Succeeded"), a_pod(1, "Succeeded"))
    found = step(a_job("Stopping", epoch=1), *pods, belief=believed(State.STOPPING))
    assert kinds(found) == [JobFinished]


def test_pods_of_a_lost_node_are_given_up_after_the_fence() -> None:
    job, belief = a_job("Stopping", epoch=1), believed(State.STOPPING)
    pod = a_pod(1, deleting=True)
    waiting = step(job, pod, belief=belief, lost={"n1": NOW - 1.0})
    assert waiting.idle and waiting.look_at == NOW - 1.0 + Rules().fence_seconds
    late = step(job, pod, belief=belief, lost={"n1": NOW - Rules().fence_seconds})
    why = "n1 is out of reach, and the job has no volume to write to"
    assert late.actions == (DeletePods((pod,), now=True, why=why),)


@pytest.mark.parametrize(("checkpoint", "kept"), [(None, 0.0), ({"path": "/c"}, 40.0)])
def test_what_a_stopped_job_keeps(checkpoint: dict[str, str] | None, kept: float) -> None:
    spec = {"checkpoint": checkpoint} if checkpoint else {}
    belief = believed(State.STOPPING, work_done=40.0)
    found = step(a_job("Stopping", epoch=1, spec=spec), belief=belief)
    assert isinstance(found.events[0], InstructionDone)
    assert found.events[0].work_kept == kept


def test_what_a_job_says_it_has_saved_counts_more_than_an_estimate() -> None:
    spec = {"checkpoint": {"path": "/c"}, "duration": "100s"}
    work = {"work": {"done": 9.0, "saved": 5.0, "total": 10.0, "unit": "steps"}}
    job = a_job("Stopping", epoch=1, spec=spec, status=work)
    found = step(job, belief=believed(State.STOPPING, work_done=90.0))
    assert isinstance(found.events[0], InstructionDone)
    assert found.events[0].work_kept == 50.0


# --- wishes and ends


@pytest.mark.parametrize("wish", ["deleting", "cancelled"])
@pytest.mark.parametrize("state", [State.QUEUED, State.STARTING, State.RUNNING, State.STOPPING])
def test_a_wish_to_end_is_told_in_every_state(wish: str, state: State) -> None:
    job = a_job("Queued", epoch=1, **{wish: True})
    assert kinds(step(job, belief=believed(state))) == [JobCancelled]


def test_a_wish_that_is_being_granted_is_not_told_again() -> None:
    job = a_job("Stopping", epoch=1, deleting=True)
    found = step(job, a_pod(0), belief=believed(State.STOPPING, cancelling=True))
    assert kinds(found) == [DeletePods]


def test_the_end_is_written_down() -> None:
    assert step(a_job("Running", epoch=1), belief=Belief(State.SUCCEEDED)).actions == (
        Settle(State.SUCCEEDED),
    )


def test_the_object_goes_when_nothing_of_it_lives() -> None:
    job = a_job("Cancelled", deleting=True)
    assert kinds(step(job, a_pod(0), belief=Belief(State.CANCELLED))) == [DeletePods]
    assert step(job, a_pod(0, deleting=True), belief=Belief(State.CANCELLED)).idle
    assert step(job, belief=Belief(State.CANCELLED)).actions == (RemoveFinalizer(),)


def test_a_finished_job_is_deleted_when_its_time_has_come() -> None:
    ended = {"endedAt": "1970-01-01T00:10:00Z"}
    job = a_job("Succeeded", spec={"ttl": "10m"}, status=ended)
    soon = step(job, belief=Belief(State.SUCCEEDED))
    assert soon.idle and soon.look_at == 1200.0
    assert step(job, belief=Belief(State.SUCCEEDED), now=1200.0).actions == (DeleteJob(),)


def test_a_finished_job_that_names_no_time_is_kept_as_long_as_the_operator_says() -> None:
    job = a_job("Succeeded", status={"endedAt": "1970-01-01T00:10:00Z"})
    belief = Belief(State.SUCCEEDED)
    assert step(job, belief=belief, now=1e9).idle
    kept = Rules(keep_seconds=600.0)
    assert step(job, belief=belief, rules=kept).look_at == 1200.0
    assert step(job, belief=belief, rules=kept, now=1200.0).actions == (DeleteJob(),)


def test_pods_of_a_failed_job_are_kept_for_their_logs_for_as_long_as_asked() -> None:
    ended = {"endedAt": "1970-01-01T00:10:00Z"}
    job = a_job("Failed", spec={"keep_on_failure": "10m"}, status=ended)
    pod = a_pod(0, "Failed", exit_code=1)
    assert step(job, pod, belief=Belief(State.FAILED)).look_at == 1200.0
    late = step(job, pod, belief=Belief(State.FAILED), now=1200.0)
    assert late.actions == (DeletePods((pod,)),)


def test_without_an_object_pods_go_first_then_seats_then_the_name() -> None:
    belief = believed(State.RUNNING)
    assert kinds(step(None, a_pod(0), belief=belief)) == [DeletePods]
    assert kinds(step(None, a_pod(0, deleting=True), belief=belief)) == [JobCancelled]
    stopping = believed(State.STOPPING, cancelling=True)
    assert step(None, a_pod(0, deleting=True), belief=stopping).idle
    assert kinds(step(None, belief=stopping)) == [InstructionDone]
    assert kinds(step(None, belief=Belief(State.CANCELLED))) == [JobForgotten]


def test_a_job_that_holds_nothing_has_no_pods() -> None:
    found = step(a_job("Queued", epoch=1), a_pod(0), belief=believed(State.QUEUED))
    assert kinds(found) == [DeletePods]


# --- where somebody else runs the workers


def test_without_pods_a_start_is_done_with_its_record() -> None:
    rules = Rules(pods=False)
    job = a_job("Queued", finalizer=False)
    assert kinds(step(job, belief=believed(State.STARTING), rules=rules)) == [Record]
    done = step(a_job("Running", epoch=1), belief=believed(State.STARTING), rules=rules)
    assert kinds(done) == [InstructionDone]


@pytest.mark.parametrize(("phase", "event"), [("Succeeded", JobFinished), ("Failed", JobFailed)])
def test_without_pods_the_executor_tells_the_end(phase: str, event: type) -> None:
    rules = Rules(pods=False)
    executed = {"execution": {"epoch": 1, "phase": phase}}
    found = step(a_job("Running", 1, status=executed), belief=believed(State.RUNNING), rules=rules)
    assert kinds(found) == [event]
    late = {"execution": {"epoch": 1, "phase": phase}}
    belief = believed(State.RUNNING, epoch=2)
    assert step(a_job("Running", 2, status=late), belief=belief, rules=rules).idle
