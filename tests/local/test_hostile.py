"""Whatever a job's owner leaves in its folder: it is read with care, and the daemon lives."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.local.builders import a_started
from weft.local.agents.agent_client import _card
from weft.local.answers.logs import LogReader
from weft.local.folders import Folders, folder_of, read_file
from weft.local.machine.disk_space import cut_logs
from weft.local.reconcile.observation import KILLED, read_last_words, read_status
from weft.local.record.entry import Owner
from weft.model.errors import WorldError
from weft.model.state import State
from weft.view.logs import Which

ME = Owner("me", os.getuid(), os.getgid())
ENTRY = a_started(State.RUNNING, 0, owner=ME)
WORDS: Final = {"outcome": "finished", "exit_code": 0, "why": "x", "step": 3, "saved_step": 3}
ODD: Final[tuple[Any, ...]] = (
    *(None, True, -1, 1 << 200, 1e308, float("nan"), float("inf"), "", "\0", "9" * 5000),
    *([], {}, [[]] * 50, {"a": {"b": []}}, {"1": {"state": 7, "pid": "x"}}, {"x" * 999: {}}),
)


def test_answers_that_make_no_sense_say_nothing() -> None:
    """Every field with every odd value, then many at once."""
    dice = random.Random(7)
    fields = [
        *("width", "target", "live", "devices", "workers", "speed", "metrics", "step", "total"),
        *("saved_step", "paused_seconds", "draining"),
    ]
    for field in fields:
        for odd in ODD:
            read_status({field: odd})
    for number in ("\u00b2", "9" * 5000, "-1", "", "\u0663"):  # digits that are no number
        (worker,) = read_status({"workers": {number: {"state": "active"}}}).workers
        assert worker.number == -1, number
    for _ in range(500):
        chosen = dice.sample(fields, 5)
        status = read_status({field: dice.choice(ODD) for field in chosen})
        assert 0 <= status.width < 1 << 53


def test_last_words_that_are_half_written_are_none() -> None:
    whole = json.dumps(WORDS).encode()
    for cut in range(len(whole)):
        assert read_last_words(whole[:cut]) == KILLED
    assert read_last_words(b"[" * 100_000) == KILLED
    assert read_last_words(whole).exit_code == 0
    for field in WORDS:
        for odd in ODD:
            read_last_words(json.dumps({**WORDS, field: odd}).encode())
    for raw in (b"[]", b"3", b"null", b'"x"', b"\xff\xfe", b"{}" * 9):
        assert read_last_words(raw) == KILLED


@pytest.mark.parametrize("raw", [b"[]", b"7", b"[" * 100_000, b'{"job": 7}', b"{", b"\xff"])
def test_a_card_that_is_none_is_an_agent_that_does_not_answer(raw: bytes) -> None:
    with pytest.raises(ValueError):
        _card(raw)


def make_sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 42)


KINDS: Final[dict[str, Callable[[Path], object]]] = {
    "nothing": lambda path: None,
    "link": lambda path: path.symlink_to("/etc/shadow"),
    "loop": lambda path: path.symlink_to(path.name),
    "pipe": os.mkfifo,
    "folder": lambda path: path.mkdir(),
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "sparse": make_sparse,
    "zeros": lambda path: path.write_bytes(bytes(1 << 20)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(20)
def test_files_of_any_kind_are_read_or_refused_at_once(tmp_path: Path, kind: str) -> None:
    folders = Folders(tmp_path)
    folders.open(for_all=False)
    folders.make_job(ENTRY.uid, ME)
    logs = folders.epoch(ENTRY) / "logs"
    logs.mkdir(parents=True)
    for name in ("outcome.json", "agent.json", "agent.log"):
        KINDS[kind](folders.epoch(ENTRY) / name)
    KINDS[kind](logs / "worker-0.log")
    (logs / "worker-99999999999999.log").touch()
    (logs / "worker-\n.log").touch()
    (folders.job(ENTRY.uid) / "epoch-x").touch()
    try:
        with folder_of(folders.job(ENTRY.uid), "epoch-1") as folder:
            assert read_last_words(read_file(folder, "outcome.json", ME)) == KILLED
    except (OSError, WorldError):
        assert kind != "nothing"
    reader = LogReader(folders, lambda: ENTRY, "bench")
    assert not any(b"root" in line.text for line in reader._news(ENTRY, Which(None, tail=1), 1))
    assert cut_logs(folders, ENTRY, 1 << 30) == 0
