"""A waiting job of a recorded run, explained from its journal."""

from pathlib import Path

import pytest

from tests.brain.test_neighbours import learnt
from weft.cli.jobs.why import neighbour_lines
from weft.lab.experiment import Experiment, Outcome
from weft.lab.journals.why import Course, Episode, answer, why
from weft.lab.run_dir import journal_in, run_into
from weft.lab.workloads.source import FromFile
from weft.model.errors import UnknownName
from weft.model.ids import JobId


@pytest.fixture(scope="session")
def longest_waiting(outcome: Outcome) -> str:
    lines = outcome.record.jobs.values()
    return max(lines, key=lambda line: sum(line.waits_seconds)).id


def test_by_default_it_is_asked_when_the_job_last_waited(
    run_folder: Path, longest_waiting: str
) -> None:
    answer = why(journal_in(run_folder), longest_waiting)
    assert answer.state == "QUEUED"
    assert answer.reasons
    for reason in answer.reasons:
        assert reason.numbers
        assert reason.remedy
        assert "{" not in reason.text + reason.remedy
        assert reason.anchor.startswith("reasons.md#")
    assert answer.waited_seconds > 0
    assert answer.waiting_jobs >= (answer.position or 0)


def test_at_the_end_its_waits_are_those_of_the_record(
    run_folder: Path, outcome: Outcome, longest_waiting: str
) -> None:
    answer = why(journal_in(run_folder), longest_waiting, at=outcome.record.end)
    assert answer.state == "SUCCEEDED"
    assert not answer.reasons
    booked = outcome.record.jobs[outcome.record.jobs[longest_waiting].id].waits_seconds  # type: ignore[index]
    assert list(answer.waits_seconds.values()) == pytest.approx(list(booked))
    assert answer.history[-1].state == "SUCCEEDED"


def test_one_that_never_waited_for_a_round_is_asked_for_at_its_end(
    run_folder: Path, outcome: Outcome
) -> None:
    done = (line for line in outcome.record.jobs.values() if line.ended is not None)
    line = min(done, key=lambda line: (sum(line.waits_seconds), line.ended))
    answer = why(journal_in(run_folder), line.id)
    assert (answer.state, answer.at) == ("SUCCEEDED", line.ended)
    assert line.ended is not None and line.ended < outcome.record.end


def test_by_default_the_whole_wait_is_told_and_not_only_up_to_the_last_round(
    run_folder: Path, outcome: Outcome, longest_waiting: str
) -> None:
    answer = why(journal_in(run_folder), longest_waiting)
    line = next(line for line in outcome.record.jobs.values() if line.id == longest_waiting)
    assert answer.wait_ended is not None
    assert answer.wait_ended > answer.at
    assert answer.waited_seconds == pytest.approx(sum(line.waits_seconds))
    then = why(journal_in(run_folder), longest_waiting, at=answer.at)
    assert then.waited_seconds < answer.waited_seconds
    assert then.wait_ended is None


def test_the_history_begins_at_the_submission(
    run_folder: Path, outcome: Outcome, longest_waiting: str
) -> None:
    answer = why(journal_in(run_folder), longest_waiting)
    line = next(line for line in outcome.record.jobs.values() if line.id == longest_waiting)
    assert answer.history[0].begin == line.submitted
    begins = [episode.begin for episode in answer.history]
    assert begins == sorted(begins)
    assert {"RUNNING", "SUCCEEDED"} <= {episode.state for episode in answer.history}


def test_before_its_submission_the_answer_is_of_its_submission(
    run_folder: Path, outcome: Outcome, longest_waiting: str
) -> None:
    answer = why(journal_in(run_folder), longest_waiting, at=-1.0)
    line = next(line for line in outcome.record.jobs.values() if line.id == longest_waiting)
    assert answer.at == line.submitted
    assert answer.state == "QUEUED"


def test_while_it_runs_it_does_not_wait(
    run_folder: Path, outcome: Outcome, longest_waiting: str
) -> None:
    line = next(line for line in outcome.record.jobs.values() if line.id == longest_waiting)
    assert line.ended is not None
    answer = why(journal_in(run_folder), longest_waiting, at=line.ended - 1e-3)
    assert answer.state == "RUNNING"
    assert answer.nodes
    assert not answer.reasons


def test_a_job_that_is_not_there(run_folder: Path) -> None:
    with pytest.raises(UnknownName, match="no job 'job-0x'") as caught:
        why(journal_in(run_folder), "job-0x")
    assert "did you mean job-" in caught.value.hint


def test_a_neighbour_that_slows_it_is_named() -> None:
    scene = learnt()
    spec = scene.brain.state.spec(scene.brain.state.slot_of[JobId("first")])
    course = Course(spec, (Episode(0.0, "RUNNING", ""),), 0, scene.brain.now)
    told = answer(scene.brain, course, None)
    assert [one.job for one in told.neighbours] == ["noise"]
    (line,) = neighbour_lines(told.neighbours)
    assert line.startswith("Beside noise on n") and line.endswith(" % slower.")


def test_a_wait_without_an_end_is_told_up_to_the_last_end_of_another(tmp_path: Path) -> None:
    """The brain looks at it for days, in a world in which nothing happens any more."""
    cluster, jobs = tmp_path / "cluster.yaml", tmp_path / "jobs.csv"
    cluster.write_text(
        "pools: [{name: p, nodes: {count: 1, gpus: 4}}]\nqueues: [{name: q, limit: 2}]\n"
    )
    jobs.write_text("job_id,submit_seconds,gpus,duration_seconds,queue\na,0,2,100,q\nb,0,3,100,q\n")
    asked = Experiment(source=FromFile(path=str(jobs)), cluster=str(cluster), recipe="fifo")
    run = tmp_path / "run"
    run.mkdir()
    found = run_into(run, asked, command=[])
    ended, lines = found.record.jobs[JobId("a")].ended, found.record.jobs
    assert sum(lines[JobId("b")].waits_seconds) == ended
    assert found.summary.waits_seconds["quota"] == ended
    answer = why(journal_in(run), "b")
    assert (answer.waited_seconds, answer.waits_seconds["quota"]) == (ended, ended)


def test_a_node_is_named_once_however_many_seats_are_on_it(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("job_id,submit_seconds,gpus,duration_seconds\na,0,1..2,7200\nb,0,2,7200\n")
    run = tmp_path / "run"
    run.mkdir()
    run_into(run, Experiment(source=FromFile(path=str(jobs)), cluster="1x4"), command=[])
    assert why(journal_in(run), "a", at=100.0).nodes == ("n0",)
