"""A lease is kept while nobody wants it, and never over the end of the server that gave it."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.agent.leases.servers import serving, started
from tests.waiting import until
from weft.agent.messages import Granted, Turn
from weft.train.company.lease_line import LeaseLine
from weft.train.membership.contact import Contact

TURN = Turn(1, (0,), (0,), ("gpu",), 5.0, 5.0)
GPU = ("gpu",)


@pytest.fixture
def server(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    process = started(tmp_path)
    serving(tmp_path, process.pid)
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def lines() -> Iterator[list[LeaseLine]]:
    made = [
        LeaseLine(Contact("", "job", 1, 0, "", Path(f"/dev/shm/{name}")), "loop") for name in "ab"
    ]
    yield made
    for line in made:
        line.close()


def asked(line: LeaseLine, folder: Path, turn: Turn = TURN) -> Granted | None:
    return line.ask(str(folder), turn, lambda: False)


@pytest.mark.usefixtures("server")
def test_what_nobody_wants_is_taken_up_again(tmp_path: Path, lines: list[LeaseLine]) -> None:
    first = asked(lines[0], tmp_path)
    lines[0].give_back(GPU, keep=True)
    assert asked(lines[0], tmp_path) == first, "the same grant, without a word to the server"


@pytest.mark.usefixtures("server")
def test_what_rests_is_given_back_at_once(tmp_path: Path, lines: list[LeaseLine]) -> None:
    first = asked(lines[0], tmp_path)
    lines[0].give_back(GPU, keep=True)
    other = asked(lines[1], tmp_path)
    assert first is not None
    assert other is not None
    assert not other.breach
    lines[1].give_back(GPU)
    again = asked(lines[0], tmp_path)
    assert again is not None
    assert again.at_seconds > other.at_seconds


@pytest.mark.usefixtures("server")
def test_another_epoch_is_another_lease(tmp_path: Path, lines: list[LeaseLine]) -> None:
    first = asked(lines[0], tmp_path)
    lines[0].give_back(GPU, keep=True)
    second = asked(lines[0], tmp_path, Turn(2, (0,), (0,), GPU, 5.0, 5.0))
    assert first is not None
    assert second is not None
    assert second.at_seconds > first.at_seconds


def test_a_lease_ends_with_its_server_also_in_the_middle_of_a_stage(
    tmp_path: Path, server: "subprocess.Popen[bytes]", lines: list[LeaseLine]
) -> None:
    """Two that each kept a lease of a dead server would never take turns again."""
    first = asked(lines[0], tmp_path)
    assert first is not None
    server.kill()
    server.wait()
    another = started(tmp_path)
    try:
        serving(tmp_path, another.pid)
        connection = lines[0]._connection
        assert connection is not None
        until(lambda: connection._gone, "the connection to end")
        lines[0].give_back(GPU, keep=True)
        assert asked(lines[0], tmp_path) is None, "the stage begins, without a lease"
        until(
            lambda: (found := asked(lines[0], tmp_path)) and found != first,
            "a lease of the other server",
        )
    finally:
        another.kill()
        another.wait()


@pytest.mark.usefixtures("server")
def test_who_is_told_to_give_up_does_not_wait(tmp_path: Path, lines: list[LeaseLine]) -> None:
    endless = replace(TURN, bound_seconds=600.0, term_seconds=600.0)
    asked(lines[0], tmp_path, endless)
    assert lines[1].ask(str(tmp_path), endless, lambda: True) is None
