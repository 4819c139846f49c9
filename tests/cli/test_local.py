"""A world on this machine from up to down, with the real daemon in a process of its own."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.served import Served, serving
from tests.cli.called import Weft, expect_json_shape
from weft.api.backend import Farewell
from weft.cli.local import down as local_down
from weft.cli.local import up as local_up
from weft.cli.worlds.contexts import answers


@pytest.fixture
def place(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where a daemon may be started, with a short name for the sockets below; it is left empty."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        monkeypatch.setenv("WEFT_LOCAL_SOCKET", str(folder / "weft.sock"))
        monkeypatch.setenv("PYTHONPATH", str(Path(local_up.__file__).parents[3]))
        yield folder
        if answers(folder / "weft.sock"):
            weft("local", "down", "--now")


def test_up_status_down(weft: Weft, place: Path) -> None:
    """Started, asked, given a job, stopped."""
    folder = place / "folder"
    up = weft("local", "up", "--slots", "2", "--folder", folder)
    assert up.status == 0, up.err
    assert str(place / "weft.sock") in up.out
    assert "weft submit JOB.yaml" in up.err
    closed = "warning: users: jobs of other users: cannot start as nobody: no permission for"
    assert (closed in up.err) == (os.geteuid() == 0), "pytest's folder is closed to others"
    assert "WEFT_LOCAL_SOCKET" not in up.err, "it is where commands look for it"
    again = weft("local", "up", "--folder", folder, "-o", "json")
    assert "it is up already" in again.err
    other = weft("local", "up", "--slots", "7", "--keep-days", "3")
    assert other.status == 2
    assert "with other options: slots 2, keep_days as it is by default" in other.err
    expect_json_shape("local-status.json", again.json)
    status = weft("local", "status", "-o", "json").json
    assert (status["pid"], status["gpus"]) == (again.json["pid"], 2)
    assert status["pid"] != os.getpid()
    (place / "job.yaml").write_text("run: echo woven\n")
    assert weft("submit", place / "job.yaml").status == 0
    followed = weft("logs", "-f", "job")
    assert (followed.status, followed.out) == (0, "woven\n"), followed.err
    down = weft("local", "down")
    assert down.status == 0
    assert down.err.endswith("it is down\n")
    assert weft("local", "status").status == 5


def test_a_socket_of_its_own_is_told_how_to_find(
    weft: Weft, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = place / "own.sock"
    words = ("--slots", "1", "--folder", place / "folder", "--socket", own)
    called = weft("local", "up", *words)
    assert f"export WEFT_LOCAL_SOCKET={own} " in called.err
    monkeypatch.setenv("WEFT_LOCAL_SOCKET", str(own))
    assert weft("local", "down", "--now").status == 0


def test_a_daemon_that_cannot_start_says_why(weft: Weft, place: Path) -> None:
    called = weft("local", "up", "--recipe", "lass", "--folder", place / "folder")
    assert called.status == 2, "something written cannot be used"
    assert "the daemon ended with status" in called.err
    assert "no recipe 'lass'" in called.err
    assert "daemon.log" in called.err
    (place / "file").touch()
    assert weft("local", "up", "--folder", place / "file").status == 2


def test_in_the_foreground_it_gets_what_was_said(
    weft: Weft, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    monkeypatch.setattr("weft.local.main.serve", given.append)
    words = ("--slots", "3", "--recipe", "las", "--group", "gpu", "--folder", place / "f")
    assert weft("local", "up", "--foreground", *words).status == 0
    options = given[0]
    assert (options.slots, options.recipe, options.group) == (3, "las", "gpu")
    assert (options.folder, options.socket) == (place / "f", place / "weft.sock")
    assert options.foreground
    assert weft("local", "up", "--foreground").status == 0
    assert given[1].slots is None
    kept = ("--keep-days", "0", "--keep-gib", "5", "--journal", "j", "--log-level", "debug")
    monkeypatch.chdir(place)
    assert weft("local", "up", "--foreground", *kept).status == 0
    assert (given[2].keep_days, given[2].keep_gib) == (0, 5)
    assert (given[2].journal, given[2].log_level) == (place / "j", "DEBUG")


def test_without_the_extra_there_is_a_hint(
    weft: Weft, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_up, "EXTRA", ("fastapi", "no_such_package"))
    called = weft("local", "up")
    assert called.status == 1
    assert "no_such_package" in called.err
    assert "pip install '.[local]'" in called.err


@pytest.mark.parametrize(
    ("words", "farewell"),
    [
        ((), Farewell.DRAIN),
        (("--now",), Farewell.KILL),
        (("--keep-running",), Farewell.KEEP),
    ],
)
def test_ways_to_stop(
    weft: Weft,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    words: tuple[str, ...],
    farewell: Farewell,
) -> None:
    with serving(place / "weft.sock") as served:
        gone = iter([True, False])
        monkeypatch.setattr(local_down, "answers", lambda _path: next(gone))
        called = weft("local", "down", *words)
        assert called.status == 0
        assert served.world.stopped == [farewell]
        assert local_down.WORDS[farewell] in called.err


def test_ways_that_exclude_each_other(weft: Weft, place: Path) -> None:
    assert weft("local", "down", "--now", "--keep-running").status == 2
    assert weft("local", "down").status == 5


def test_only_its_owner_may_stop_it(weft: Weft, place: Path) -> None:
    with serving(place / "weft.sock", admins=()) as served:
        called = weft("local", "down")
        assert called.status == 5
        assert "may not stop this world" in called.err
        assert not served.world.stopped


def test_the_status_of_a_machine(weft: Weft, place: Path) -> None:
    with serving(place / "weft.sock") as served:
        _check_status(weft, served)


def _check_status(weft: Weft, served: Served) -> None:
    called = weft("local", "status")
    assert called.status == 0
    assert "4 GPUs of H100" in called.out
    assert "0 of 4" in called.out
    assert "look at  gpus: no GPUs" in called.out
    assert str(served.socket) in called.out
