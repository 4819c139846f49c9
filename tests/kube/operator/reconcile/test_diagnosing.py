"""Why workers failed, as pods and nodes tell it; and what no wait cures is not waited for."""

from dataclasses import replace
from typing import Any

import pytest

from tests.kube.looks import DRAINED, NOW, TWO_SEATS, a_job, a_pod, believed, kinds, step
from weft.brain.event import InstructionRefused, JobFailed, Past, WorkerLost
from weft.failure.classes import Retry
from weft.failure.diagnosis import Diagnosis
from weft.failure.last_words import written
from weft.failure.observed import Exit, MemoryEvents, Observed, Output, Where
from weft.failure.retry import RetryState
from weft.failure.rulebook import shipped
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.observation.node import ObservedNode, read_node
from weft.kube.operator.observation.pod import ObservedPod, read_pod
from weft.kube.operator.reconcile.diagnosing import CERTAIN_SECONDS
from weft.kube.operator.reconcile.step import DeletePods, Note, Settle, Step
from weft.kube.operator.status.patches import Standing, decision_patch, standing_patch
from weft.kube.reading.failures import failures_of, last_failure
from weft.kube.trouble import Trouble
from weft.model.state import State

RUNNING = a_job("Running", 1)


def left(*seen: Observed) -> str:
    return written("worker 1 ended with 1", seen, shipped())


def failed(*pods: ObservedPod, **more: Any) -> Diagnosis:
    done = step(RUNNING, *pods, belief=believed(State.RUNNING), **more)
    (event,) = done.events
    assert isinstance(event, JobFailed) and event.diagnosis is not None
    return event.diagnosis


def a_failed(seat: int, words: str = "", code: int = 1, **more: Any) -> ObservedPod:
    return a_pod(seat, "Failed", exit_code=code, words=words, ended="Error", ended_at=NOW, **more)


def test_the_ranks_words_decide_whichever_pod_they_are_in() -> None:
    peer = Output("RuntimeError: Connection closed by peer [10.0.0.1]:29500", Where(rank=0))
    root = Output("KeyError: 'labels'", Where(rank=5))
    found = failed(a_failed(0, left(peer)), a_failed(1, left(root)))
    assert (found.kind, found.rule, found.rank) == ("user", "python_semantic", 5)


def test_an_agent_that_gave_up_and_tells_why_has_failed_and_was_not_lost() -> None:
    killed = left(MemoryEvents(1))
    assert failed(a_failed(0, killed, 75), a_failed(1, killed, 75)).kind == "memory"
    silent = step(
        RUNNING,
        a_failed(0, "no head was found", 75),
        a_pod(1),
        belief=believed(State.RUNNING),
    )
    assert kinds(silent) == [WorkerLost]


def test_who_only_notices_that_others_are_gone_has_not_failed() -> None:
    for noticed in ("RuntimeError: Connection closed by peer [10.0.0.1]:29500", "step 4 loss 2.0"):
        words = left(Output(noticed, Where(rank=0)))
        pods = (a_failed(0, words, 75), a_pod(1))
        done = step(RUNNING, *pods, belief=believed(State.RUNNING))
        assert kinds(done) == [WorkerLost], noticed
    assert failed(a_failed(0, left(Exit(-9, Where(rank=0))), 75)).rule == "bare_kill"


@pytest.mark.parametrize("printed", ["", "step 1\nstep 2\n"])
def test_a_program_that_ends_as_if_it_was_asked_has_failed(printed: str) -> None:
    """Without an agent the kubelet keeps what it has printed last, and not who asked it."""
    found = failed(a_failed(0, printed, 143), a_failed(1, printed, 143))
    assert (found.rule, found.cure, found.node_action) == ("exit_asked", Retry.MOVE, 0)
    assert failed(a_failed(0, printed, 130), a_failed(1, printed, 130)).rule == "no_signature"
    killed = left(Exit(143, Where(rank=0)))
    assert failed(a_failed(0, killed, 75), a_failed(1, killed, 75)).rule == "exit_asked"


def test_an_agent_that_was_asked_to_leave_is_lost() -> None:
    pods = (a_failed(0, DRAINED, 143), a_pod(1))
    assert kinds(step(RUNNING, *pods, belief=believed(State.RUNNING))) == [WorkerLost]


def test_what_the_runtime_says_counts() -> None:
    oom = a_failed(0, code=137, reason="OOMKilled")
    found = failed(oom, a_failed(1, code=137))
    assert (found.kind, found.rule, found.node) == ("memory", "container_oom", "n0")


def a_node(**more: Any) -> ObservedNode:
    raw = {"metadata": {"uid": "n", "resourceVersion": "1", "name": "n0"}}
    return replace(read_node(raw), **more)


@pytest.mark.parametrize(("before", "kind"), [(60.0, "node"), (3_600.0, "user")])
def test_a_monitors_word_counts_shortly_before_the_end(before: float, kind: str) -> None:
    trouble = Trouble("KernelDeadlock", "task dockerd blocked", NOW - before)
    nodes = {"n0": a_node(troubles=(trouble,))}
    words = left(Output("KeyError: 'x'", Where(rank=0)))
    assert failed(a_failed(0, words), a_failed(1), nodes=nodes).kind == kind


def test_a_node_that_is_out_of_reach_is_why_its_worker_is_lost() -> None:
    gone = a_pod(0, "Failed", reason="NodeLost")
    done = step(RUNNING, gone, a_pod(1), belief=believed(State.RUNNING), lost={"n0": NOW - 5})
    (event,) = done.events
    assert isinstance(event, WorkerLost) and event.diagnosis is not None
    assert (event.diagnosis.kind, event.diagnosis.node) == ("node", "n0")


PULL = 'failed to pull "lab/nothing:1": manifest for lab/nothing:1 not found: manifest unknown'


def starting(message: str, waited: float) -> Step:
    stuck = [a_pod(n, "Pending", stuck="ErrImagePull", message=message) for n in (0, 1)]
    note = Note(stuck_since=NOW - waited)
    return step(a_job("Starting", 1), *stuck, belief=believed(State.STARTING), note=note)


def test_an_image_that_does_not_exist_is_not_waited_for() -> None:
    early = starting(PULL, CERTAIN_SECONDS - 1)
    assert not early.events and early.look_at == NOW + 1.0
    begun = starting(PULL, CERTAIN_SECONDS + 1)
    assert kinds(begun) == [DeletePods] and begun.note.hopeless is not None
    over = step(a_job("Starting", 1), belief=believed(State.STARTING), note=begun.note)
    (event,) = over.events
    assert isinstance(event, JobFailed) and event.diagnosis is not None
    assert (event.diagnosis.kind, event.diagnosis.rule) == ("environment", "image_not_found")
    assert "manifest unknown" in event.diagnosis.line


def test_a_pull_that_nobody_can_name_is_refused_as_before() -> None:
    begun = starting("Back-off pulling image", 10_000.0)
    assert begun.note.hopeless is None
    over = step(a_job("Starting", 1), belief=believed(State.STARTING), note=begun.note)
    assert kinds(over) == [InstructionRefused]


def test_a_registry_that_does_not_answer_is_a_service() -> None:
    begun = starting("Get https://registry.example/v2/: TLS handshake timeout", CERTAIN_SECONDS + 1)
    assert begun.note.hopeless is not None and begun.note.hopeless.service == "image registry"


def test_what_is_believed_of_the_end_is_written_down() -> None:
    why = "the program made a mistake: KeyError: 'x'; another try would end the same way"
    done = step(RUNNING, belief=believed(State.FAILED, why=why))
    assert done.actions == (Settle(State.FAILED, why),)


def as_thing(job: ObservedJob, patch: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"name": job.name, "namespace": job.namespace},
        "spec": {"queue": "night"},
        "status": job.status | patch["status"],
    }


def test_a_status_remembers_failures_and_readers_read_them() -> None:
    found = failed(a_failed(0, left(Output("KeyError: 'x'", Where(rank=0)))), a_failed(1))
    job = a_job(
        "Running",
        3,
        decision={"at": "1970-01-01T00:15:00Z", "width": 16},
        status={"work": {"done": 10, "saved": 5}, "past": {"retry": "garbage"}},
    )
    assert job.past.retry is None
    once = Past(failures=1)
    preempted = standing_patch(job, Standing(State.QUEUED, past=Past(), failure=found), NOW)
    assert "failures" not in preempted["status"], "it is an older one"
    waiting = standing_patch(job, Standing(State.QUEUED, past=once, failure=found), NOW)
    begun = decision_patch(
        job,
        4,
        TWO_SEATS,
        state=State.STARTING,
        now=NOW,
        leader=1,
        told=Standing(State.QUEUED, past=once, failure=found),
    )
    assert begun["status"]["failures"] == waiting["status"]["failures"]
    (line,) = failures_of(as_thing(job, waiting))
    assert (line.kind, line.rule, line.epoch, line.queue) == ("user", "python_semantic", 3, "night")
    assert line.lost_gpu_seconds == 16 * 100 / 2 and line.did == "it is tried again"
    again = replace(job, status=job.status | waiting["status"])
    assert (
        "failures"
        not in standing_patch(again, Standing(State.QUEUED, failure=found), NOW)["status"]
    )
    given_up = Standing(State.FAILED, failure=found, did=f"{found}; failed too often")
    thing = as_thing(again, standing_patch(again, given_up, NOW))
    last = last_failure(thing)
    assert last is not None and last.did == "failed too often" and last.log.endswith("--rank 0")
    assert len(list(failures_of(thing))) == 1
    assert last_failure({**thing, "status": thing["status"] | {"state": "Succeeded"}}) is None


@pytest.mark.parametrize("state", [State.QUEUED, State.FAILED])
def test_a_reader_is_advised_for_the_state_that_the_job_is_in(state: State) -> None:
    found = failed(a_failed(0, left(Output("Name node is in safe mode"))))
    assert found.kind == "service"
    job = a_job("Running", 3)
    told = Standing(state, past=Past(failures=1), failure=found, did=str(found))
    last = last_failure(as_thing(job, standing_patch(job, told, NOW)))
    assert last is not None
    assert last.advice.startswith("submit it again") is (state is State.FAILED)


def test_what_is_remembered_of_retries_is_in_the_status() -> None:
    job = a_job("Queued", 2)
    past = replace(job.past, retry=RetryState(fingerprint="f", attempts=2))
    patch = standing_patch(job, Standing(State.QUEUED, past=past), NOW)
    assert replace(job, status=job.status | patch["status"]).past.retry == past.retry


def test_a_pod_is_read_with_what_it_left() -> None:
    ended = {"exitCode": 1, "reason": "Error", "message": "m" * 9999}
    raw = {
        "metadata": {"uid": "p", "resourceVersion": "1", "namespace": "lab", "name": "p"},
        "spec": {"containers": []},
        "status": {
            "phase": "Failed",
            "containerStatuses": [
                {"state": {"terminated": ended | {"finishedAt": "1970-01-01T00:16:40Z"}}}
            ],
        },
    }
    pod = read_pod(raw)
    assert (len(pod.words), pod.ended, pod.ended_at) == (4096, "Error", 1000.0)
