"""The journal is a function of the events: stable bytes, one line each, one fingerprint."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

from tests.brain.failing import said
from tests.builders import Scene, a_cluster, a_job, a_node, a_queue, a_request, given, jobs, seats
from weft.brain.brain import Brain
from weft.brain.event import (
    Event,
    HealthRecalled,
    InstructionDone,
    InstructionRefused,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobReported,
    JobSubmitted,
    NodeAdded,
    NodeChanged,
    NodeChecked,
    NodeLost,
    Past,
    PastRecalled,
    Phase,
    QueueChanged,
    ServiceAsked,
    Tick,
    Verb,
    WorkerLost,
)
from weft.brain.instruction import (
    AskService,
    CheckNode,
    Instruction,
    Preempt,
    Probe,
    Resize,
    Start,
    Stop,
    Wake,
)
from weft.brain.journal import FORMAT, Journal, encode
from weft.failure.breaker import Breaker
from weft.failure.evidence import Failure, FailureClass
from weft.failure.health import Health
from weft.failure.retry import RetryState
from weft.model.decision import Assignment
from weft.model.ids import JobId, NodeId
from weft.policy.recipes import srtf

JOB, NODE = JobId("job"), NodeId("n0")
TWO = frozenset({NodeId("n1"), NODE})
SEATS = Assignment(2, seats(n0=2))

EVENTS: list[Event] = [
    JobSubmitted(0.0, a_request("job", 2, types=[("h100", 2.0)])),
    JobCancelled(1.0, JOB),
    JobReported(2.0, JOB, 1, Phase.RUNNING, 5.0, seats(n0=2)),
    JobFinished(3.0, JOB, 1),
    JobFailed(4.0, JOB, 1, 2.5, Failure(FailureClass.USER, "exit code 2", NODE, 1)),
    WorkerLost(5.0, JOB, 1, NODE),
    NodeAdded(6.0, a_node("n0", cpus=4.0)),
    NodeChanged(7.0, a_node("n0", cordoned=True)),
    NodeLost(8.0, NODE),
    QueueChanged(9.0, a_queue("a", 4, 8, parent="b")),
    InstructionDone(10.0, JOB, 1, Verb.STOP, 7.0),
    InstructionRefused(11.0, JOB, 1, Verb.START, "no"),
    NodeChecked(11.5, NODE, passed=True),
    ServiceAsked(11.6, "hdfs", answers=False),
    HealthRecalled(11.7, Health(breakers=(Breaker(service="hdfs"),))),
    PastRecalled(11.8, 3600.0, 16),
    JobFailed(11.8, JOB, 1, 2.5, diagnosis=said("SyntaxError: invalid syntax", "n0")),
    JobReported(11.9, JOB, 1, Phase.ABSENT, 0.0, past=Past(retry=RetryState(nodes=TWO))),
    Tick(12.0),
]
INSTRUCTIONS: list[Instruction] = [
    Start(JOB, 1, SEATS),
    Resize(JOB, 1, SEATS, 2),
    Preempt(JOB, 1, JobId("other")),
    Stop(JOB, 1, "why"),
    Probe(JOB, 1),
    Wake(13.5),
    CheckNode(NODE, "its kernel says so"),
    AskService("hdfs"),
]


def test_every_event_and_every_instruction_is_one_line_of_json() -> None:
    for event in EVENTS:
        line = encode(event, INSTRUCTIONS)
        assert line.endswith(b"\n") and line.count(b"\n") == 1
        name, fields, instructions = json.loads(line)
        assert name == type(event).__name__
        assert fields["at"] == event.at
        assert [verb for verb, _ in instructions] == [str(i.verb) for i in INSTRUCTIONS]


def test_a_tick_reads_as_it_always_did() -> None:
    line = encode(Tick(1.5), [Wake(2.0), Stop(JOB, 3, "cancelled")])
    assert line == (
        b'["Tick",{"at":1.5},[["wake",{"at":2.0}],'
        b'["stop",{"job":"job","epoch":3,"why":"cancelled"}]]]\n'
    )


def test_the_header_comes_first_and_counts_for_the_fingerprint() -> None:
    stream = io.BytesIO()
    journal = Journal(stream, {"recipe": "fifo", "cluster": 3})
    first = stream.getvalue()
    assert json.loads(first.splitlines()[0]) == {"format": FORMAT, "recipe": "fifo", "cluster": 3}
    assert journal.records == 0
    assert journal.digest == Journal(None, {"cluster": 3, "recipe": "fifo"}).digest
    assert journal.digest != Journal(None, {"cluster": 4, "recipe": "fifo"}).digest
    assert journal.digest != Journal().digest


def test_the_fingerprint_is_of_the_lines_whether_they_are_kept_or_not() -> None:
    stream = io.BytesIO()
    kept, hashed = Journal(stream), Journal()
    digests = set()
    for event in EVENTS:
        kept.record(event, INSTRUCTIONS)
        hashed.record(event, INSTRUCTIONS)
        digests.add(hashed.digest)
    assert kept.digest == hashed.digest
    assert kept.records == len(EVENTS) == len(digests)
    assert stream.getvalue() == b"".join(encode(event, INSTRUCTIONS) for event in EVENTS)


def test_the_order_of_events_matters() -> None:
    one, other = Journal(), Journal()
    for event in EVENTS[:2]:
        one.record(event, [])
    for event in reversed(EVENTS[:2]):
        other.record(event, [])
    assert one.digest != other.digest


# --- determinism --------------------------------------------------------------------------------


def a_story() -> Scene:
    scene = given(a_cluster(nodes=4, gpus=8, racks=2)).with_recipe(srtf(min_run=0.0, spacing=1.0))
    scene.with_queues(a_queue("default", limit=30), a_queue("b", 8))
    for i in range(40):
        queue = "b" if i % 3 else "default"
        scene.submit(a_job(f"job{i}", 1 + i % 9, seconds=50.0 + 13 * (i % 7), queue=queue))
        scene.wait(7.0)
    return scene.lose("n1").wait(20.0).add(a_node("n1")).wait(100.0)


def fingerprint() -> str:
    journal = Journal()
    brain, record = Brain.handle, journal.record

    def handle(self: Brain, event: Event) -> list[Instruction]:
        instructions = brain(self, event)
        record(event, instructions)
        return instructions

    Brain.handle = handle  # type: ignore[method-assign]
    try:
        a_story()
    finally:
        Brain.handle = brain  # type: ignore[method-assign]
    return journal.digest


def test_the_same_events_give_the_same_fingerprint_under_any_hash_seed() -> None:
    root = Path(__file__).parents[2]
    code = "from tests.brain.test_journal import fingerprint; print(fingerprint())"
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=root,
            env={
                **os.environ,
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)]),
            },
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "12345")
    }
    assert told == {fingerprint() + "\n"}


def test_replaying_the_events_gives_the_same_instructions() -> None:
    recipe = srtf(min_run=0.0, spacing=1.0)
    events: list[Event] = [NodeAdded(0.0, a_node("n0")), NodeAdded(0.0, a_node("n1"))]
    events += [JobSubmitted(float(i), job.request) for i, job in enumerate(jobs(12, gpus=3))]
    events += [Tick(20.0), Tick(30.0), NodeLost(31.0, NODE), Tick(40.0)]
    one, other = Brain(recipe), Brain(recipe)
    assert [one.handle(event) for event in events] == [other.handle(event) for event in events]
