"""Journals that earlier versions wrote are still read, and still replay."""

import gzip
from pathlib import Path

import orjson
import pytest

from weft.brain.event import JobFailed, WorkerLost
from weft.brain.journal import encode
from weft.failure.evidence import UNEXPLAINED, Failure, FailureClass
from weft.lab.journals.journal_file import decode
from weft.lab.journals.replay import replay
from weft.lab.run_dir import JOURNAL
from weft.model.ids import JobId, NodeId

JOB, NODE = JobId("job"), NodeId("n0")


@pytest.mark.parametrize(
    ("retryable", "kind"), [(True, FailureClass.UNKNOWN), (False, FailureClass.USER)]
)
def test_a_failure_that_only_said_whether_to_try_again(retryable: bool, kind: FailureClass) -> None:
    fields = {"at": 4.0, "job": "job", "epoch": 1, "work_kept": 2.5, "retryable": retryable}
    found = decode(1, orjson.dumps(["JobFailed", fields, []]))
    assert found.event == JobFailed(4.0, JOB, 1, 2.5, Failure(kind))


@pytest.mark.parametrize(
    "event",
    [
        JobFailed(4.0, JOB, 1, 2.5, Failure(FailureClass.MEMORY, "exit code 137", NODE, 3)),
        JobFailed(4.0, JOB, 1, 2.5, UNEXPLAINED),
        WorkerLost(5.0, JOB, 1, NODE, Failure(FailureClass.NODE, "Evicted", NODE)),
    ],
)
def test_a_failure_is_read_as_it_was_written(event: JobFailed | WorkerLost) -> None:
    assert decode(1, encode(event, [])).event == event


def test_an_assignment_that_named_no_company(run_folder: Path, tmp_path: Path) -> None:
    lines = gzip.decompress((run_folder / JOURNAL).read_bytes()).splitlines(keepends=True)
    newer = b',"micro_batches":1,"shard_degree":0,"context":1,"expert":1},"party":""}'
    old = [line.replace(newer, b'},"group":null}') for line in lines]
    assert old != lines
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"".join(old))
    assert replay(path).journal_hash == replay(run_folder / JOURNAL).journal_hash
