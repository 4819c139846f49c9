"""Who wants to hear of a job of the cluster is told of its start, its failures and its end."""

from collections.abc import Mapping

from tests.builders import a_node, a_request
from tests.kube.looks import a_job
from weft.brain.brain import Brain
from weft.brain.event import Event, InstructionDone, JobFailed, JobSubmitted, NodeAdded, Tick, Verb
from weft.brain.instruction import Preempt
from weft.failure.diagnosis import diagnose
from weft.failure.lines import Line
from weft.failure.rulebook import shipped
from weft.kube.operator.notices import Notices, happened
from weft.model.ids import JobId
from weft.notify.notice import Notice, Occasion
from weft.spec.recipe import make_recipe

JOB = JobId("lab/vit")
FOUND = diagnose([Line("KeyError: 'x'", rank=0)], shipped())


class Kept:
    """An outbox that keeps everything."""

    def __init__(self) -> None:
        self.notices: list[tuple[Notice, Mapping[str, tuple[str, ...]]]] = []

    def put(self, notice: Notice, asked: Mapping[str, tuple[str, ...]]) -> None:
        self.notices.append((notice, asked))


def test_a_start_a_failure_and_an_end_are_told_once_each() -> None:
    kept, brain = Kept(), Brain(make_recipe("fifo"))
    wish = {"to": ["team"], "on": ["failed"]}
    job = a_job("Running", 1, spec={"notify": wish, "queue": "night"})
    notices = Notices(kept, {JOB: job})  # type: ignore[arg-type]
    events: list[Event] = [
        NodeAdded(0.0, a_node("n0")),
        JobSubmitted(0.0, a_request(JOB, 1)),
        Tick(100.0),
        InstructionDone(101.0, JOB, 1, Verb.START),
        JobFailed(102.0, JOB, 1, 0.0, FOUND.failure, FOUND),
        JobFailed(103.0, JOB, 1, 0.0, FOUND.failure, FOUND),  # heard twice: it is over already
    ]
    for event in events[:-1]:
        notices.heard(event, brain.handle(event), brain.state)
    told = [notice for notice, _ in kept.notices]
    assert [one.occasion for one in told] == [Occasion.STARTED, Occasion.FAILED, Occasion.ENDED]
    failure = told[1].failure
    assert failure is not None and failure.rule == "python_semantic"
    assert (failure.queue, failure.did) == ("night", "another try would end the same way")
    assert told[2].state == "Failed" and len({one.number for one in told}) == 3
    assert kept.notices[1][1] == {"failed": ("team",)}
    late = list(happened(events[-1], brain.handle(events[-1]), brain.state))
    assert [occasion for _, occasion, _, _ in late] == [Occasion.FAILED]


def test_who_makes_way_for_a_job_of_others_learns_no_name() -> None:
    brain = Brain(make_recipe("fifo"))
    order = Preempt(JOB, 1, beneficiary=JobId("other/secret"))
    ((job, occasion, text, _),) = happened(NodeAdded(0.0, a_node("n0")), [order], brain.state)
    assert (job, occasion) == (JOB, Occasion.PREEMPTED) and "secret" not in text


def test_without_an_outbox_nothing_is_made() -> None:
    brain = Brain(make_recipe("fifo"))
    event = NodeAdded(0.0, a_node("n0"))
    Notices(None, {}).heard(event, brain.handle(event), brain.state)
