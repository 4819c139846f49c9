"""A journal replays to the same bytes; whatever was done to it is found and named."""

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

import weft
from weft.lab.experiment import Experiment, Outcome
from weft.lab.journals.replay import check_hash, replay
from weft.lab.run_dir import JOURNAL, prepared, run_into
from weft.lab.workloads.source import Generated
from weft.model.errors import JournalError

QUEUES = """
nodes: 2x8
queues:
  - {name: default, guaranteed: 4, limit: 12}
  - {name: other, guaranteed: 4}
"""


@pytest.fixture
def damaged(run_folder: Path, tmp_path: Path) -> Callable[..., Path]:
    """A copy of the journal in plain text, with its lines changed by a function."""

    def make(change: Callable[[list[bytes]], list[bytes]]) -> Path:
        lines = gzip.decompress((run_folder / JOURNAL).read_bytes()).splitlines(keepends=True)
        path = tmp_path / "journal.jsonl"
        path.write_bytes(b"".join(change(lines)))
        return path

    return make


def test_it_replays_bit_for_bit(run_folder: Path, outcome: Outcome) -> None:
    replayed = replay(run_folder / JOURNAL)
    assert replayed.journal_hash == outcome.record.journal_hash
    assert replayed.records == outcome.record.events
    assert not replayed.torn


@pytest.mark.parametrize("recipe", ["backfill", "muri-srtf", "rubick", "weave"])
def test_recipes_replay(recipe: str, tmp_path: Path) -> None:
    experiment = Experiment(
        source=Generated(jobs=25, load_factor=2.0), cluster="1x8", recipe=recipe, seed=1
    )
    outcome = run_into(prepared(tmp_path / "run"), experiment, command=[])
    assert replay(tmp_path / "run" / JOURNAL).journal_hash == outcome.record.journal_hash


def test_queues_stand_in_the_header(tmp_path: Path) -> None:
    spec = tmp_path / "cluster.yaml"
    spec.write_text(QUEUES)
    experiment = Experiment(source=Generated(jobs=20), cluster=str(spec), recipe="backfill")
    outcome = run_into(prepared(tmp_path / "run"), experiment, command=[])
    assert replay(tmp_path / "run" / JOURNAL).journal_hash == outcome.record.journal_hash


def test_another_hash_seed_changes_nothing(run_folder: Path) -> None:
    code = "import sys; from pathlib import Path; from weft.lab.journals.replay import replay; "
    code += "print(replay(Path(sys.argv[1])).journal_hash)"
    found = {
        subprocess.run(
            [sys.executable, "-c", code, str(run_folder / JOURNAL)],
            check=True,
            capture_output=True,
            env=os.environ
            | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(weft.__file__).parents[1])},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_a_changed_instruction_is_named(damaged: Callable[..., Path]) -> None:
    def move_a_start(lines: list[bytes]) -> list[bytes]:
        for number, line in enumerate(lines):
            if b'["start",' in line:
                lines[number] = line.replace(b'"node":"n0"', b'"node":"n1"')
                if lines[number] != line:
                    break
        return lines

    with pytest.raises(JournalError, match=r"record \d+ \(Tick at .* replays to something else"):
        replay(damaged(move_a_start))


def test_a_missing_event_is_found(damaged: Callable[..., Path]) -> None:
    def drop_a_submission(lines: list[bytes]) -> list[bytes]:
        row = next(i for i, line in enumerate(lines) if b"JobSubmitted" in line)
        return [*lines[:row], *lines[row + 1 :]]

    with pytest.raises(JournalError, match="replays to something else"):
        replay(damaged(drop_a_submission))


def test_a_torn_last_line_is_reported_and_the_rest_replays(damaged: Callable[..., Path]) -> None:
    whole = replay(damaged(lambda lines: lines))
    torn = replay(damaged(lambda lines: [*lines[:-1], lines[-1][:-7]]))
    assert torn.torn
    assert torn.records == whole.records - 1


def test_a_torn_archive_is_reported(run_folder: Path, tmp_path: Path) -> None:
    cut = tmp_path / JOURNAL
    cut.write_bytes((run_folder / JOURNAL).read_bytes()[:-2000])
    replayed = replay(cut)
    assert replayed.torn
    assert replayed.records > 0


def test_a_journal_that_ends_early_has_another_hash(
    damaged: Callable[..., Path], outcome: Outcome
) -> None:
    short = replay(damaged(lambda lines: lines[:-1]))
    assert not short.torn
    with pytest.raises(JournalError, match="manifest"):
        check_hash(short, outcome.record.journal_hash)
    check_hash(replace(short, torn=True), outcome.record.journal_hash)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{broken\n", "not JSON"),
        (b"[1]\n", "no record"),
        (b'["Surprise",{"at":1.0},[]]\n', "no event 'Surprise'"),
        (b'["Tick",{"at":"soon"},[]]\n', r"Tick\.at"),
    ],
)
def test_a_line_that_is_no_record_is_named(
    damaged: Callable[..., Path], line: bytes, message: str
) -> None:
    with pytest.raises(JournalError, match=rf"record 2.*{message}"):
        replay(damaged(lambda lines: [*lines[:2], line, *lines[2:]]))


@pytest.mark.parametrize("text", [b"", b"hello\n", orjson.dumps({"format": "x"}) + b"\n"])
def test_what_is_no_journal(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(text)
    with pytest.raises(JournalError, match="does not begin as a journal"):
        replay(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="cannot be read"):
        replay(tmp_path / "none.jsonl")
