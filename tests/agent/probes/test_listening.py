"""Who asks whether a machine is well has an answer, and asking often costs it nothing."""

import json
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import HANG_SECONDS, until
from weft.agent.probes.listening import MOST_ASKERS, Listening
from weft.agent.probes.probe import Result
from weft.agent.probes.prober import LEAST_SECONDS, Prober
from weft.agent.probes.watch import watch

pytestmark = pytest.mark.enable_socket
GOOD = Result(probe="disk", passed=True)
BAD = Result(probe="disk", passed=False, text="dead")


class Machine:
    """Is probed, and counts how often; its time goes by when told to."""

    def __init__(self, *found: Result, gate: threading.Event | None = None) -> None:
        self.found, self.times, self.now, self._gate = found, 0, 100.0, gate

    def probing(self) -> Sequence[Result]:
        self.times += 1
        if self._gate is not None:
            self._gate.wait(HANG_SECONDS)
        return self.found

    def prober(self) -> Prober:
        return Prober(self.probing, clock=lambda: self.now)


@contextmanager
def listening(prober: Prober) -> Iterator[int]:
    server = Listening(prober, 0)
    try:
        yield server.port
    finally:
        server.close()


def asked(port: int, query: str = "?within=60", path: str = "/probe") -> dict[str, Any]:
    with urllib.request.urlopen(
        f"http://127.0.0.1:{port}{path}{query}", timeout=HANG_SECONDS
    ) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def refused(ask: Callable[[], object]) -> int:
    with pytest.raises(urllib.error.HTTPError) as error:
        ask()
    error.value.close()
    return error.value.code


def test_it_is_probed_where_nothing_recent_is_known() -> None:
    machine = Machine(GOOD)
    with listening(machine.prober()) as port:
        assert asked(port)["passed"] is True
        machine.now += 59.0
        assert asked(port)["passed"] is True
        assert machine.times == 1
        machine.now += 2.0
        asked(port)
        assert machine.times == 2


def test_nobody_keeps_it_busy() -> None:
    machine = Machine(GOOD)
    with listening(machine.prober()) as port:
        for _ in range(20):
            asked(port, "?within=0")
            machine.now += LEAST_SECONDS / 20
        assert machine.times <= 2
        assert refused(lambda: asked(port, "?within=-1")) == 404
        assert refused(lambda: asked(port, "?within=nan")) == 404
        assert refused(lambda: asked(port, path="/else")) == 404
        assert asked(port, "")["passed"] is True


def test_many_wait_for_one_look_and_no_more_than_so_many() -> None:
    gate, statuses = threading.Event(), []
    machine = Machine(GOOD, gate=gate)
    with listening(machine.prober()) as port:
        askers = [
            threading.Thread(target=lambda: statuses.append(status(port)))
            for _ in range(MOST_ASKERS + 1)
        ]
        for asker in askers:
            asker.start()
        until(lambda: statuses, "an answer")
        assert statuses == [503], "one too many"
        gate.set()
        for asker in askers:
            asker.join(HANG_SECONDS)
    assert sorted(statuses) == [200] * MOST_ASKERS + [503]
    assert machine.times == 1


def status(port: int) -> int:
    try:
        asked(port)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    return 200


def test_who_asks_when_it_fails_hears_so_before_the_process_ends(tmp_path: Path) -> None:
    machine = Machine(GOOD)
    prober, well, words = machine.prober(), tmp_path / "well", tmp_path / "words"
    ended: list[int] = []
    with listening(prober) as port:
        watching = threading.Thread(
            target=lambda: ended.append(watch(prober, well, 300.0, last_words=words))
        )
        watching.start()
        until(well.exists, "the first look")
        machine.found, machine.now = (BAD,), machine.now + 100.0
        assert asked(port) == {"passed": False, "words": "disk: dead"}
        watching.join(HANG_SECONDS)
    assert ended == [1] and not well.exists() and words.read_text() == "disk: dead"


def test_a_process_answers_while_it_probes(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    well = tmp_path / "well"
    words = ["--every=300", f"--well={well}", f"--folder={tmp_path}", f"--listen={port}", "memory"]
    process = subprocess.Popen([sys.executable, "-m", "weft.agent.probes", *words])
    try:
        until(lambda: well.exists() or process.poll() is not None, "the first look")
        assert asked(port)["passed"] is True
    finally:
        process.kill()
        process.wait()
