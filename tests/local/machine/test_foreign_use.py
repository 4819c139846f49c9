"""GPUs that somebody uses outside of Weft, seen by a library that stands where NVML stands."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.local.builders import a_machine, a_started
from tests.local.daemons import Lab, a_lab, wait_until
from weft.local.agents.job_processes import MARK, is_marked
from weft.local.machine import foreign_use as foreign
from weft.local.machine import machine, nvml
from weft.local.machine.foreign_use import BLIND, Foreign, ForeignWatch, foreign_in
from weft.local.machine.machine import parse_devices
from weft.model.errors import WorldError
from weft.model.state import State

SMI = "0, NVIDIA H100 80GB HBM3, 81559\n1, NVIDIA H100 80GB HBM3, 81559\n"
LONG = "model total=100000 step=0.02"


@dataclass
class Running:
    pid: int
    usedGpuMemory: int = 1 << 30  # noqa: N815 - NVML's name


class FakeNvml:
    """Two GPUs; which processes are on them stands in a file, by UUID."""

    def __init__(self, file: Path) -> None:
        self.NVMLError: type[Exception] = RuntimeError
        self.file = file
        self.order = ["GPU-a", "GPU-b"]
        self.fails = False

    def nvmlInit(self) -> None:  # noqa: N802
        if self.fails:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return self.order[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        if self.fails:
            raise self.NVMLError("GPU is lost")
        return uuid

    def nvmlDeviceGetUUID(self, handle: str) -> bytes:  # noqa: N802
        return handle.encode()

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Running]:  # noqa: N802
        return [Running(pid) for pid in json.loads(self.file.read_text()).get(handle, [])]


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvml:
    file = tmp_path / "gpus.json"
    file.write_text("{}")
    return FakeNvml(file)


def test_a_gpu_is_known_by_its_uuid_from_the_first_look_on(fake: FakeNvml) -> None:
    eyes = nvml.GpuProcesses(fake, (0, 1))
    fake.file.write_text(json.dumps({"GPU-b": [7, 7, 9]}))
    assert eyes.look() == {0: (), 1: (7, 9)}
    fake.order.reverse()  # one fell off the bus and came back
    assert eyes.look() == {0: (), 1: (7, 9)}
    fake.fails = True
    with pytest.raises(WorldError, match="GPU is lost"):
        eyes.look()


def test_what_is_foreign() -> None:
    entry = a_started(State.RUNNING, 0)
    accounts = {1: entry.owner.uid, 2: 4242, 3: 4242, 4: None}
    seen = {0: (1, 2, 3, 4), 1: (1, 4)}
    found = foreign_in(seen, (entry,), lambda pid: pid == 3, accounts.get)
    assert [(one.device, one.pid) for one in found] == [(0, 2), (1, 1)]
    assert str(Foreign(1, 2, "bob")) == "GPU 1 by process 2 of bob"


def test_children_of_a_job_are_ours_though_they_clean_their_environment() -> None:
    inner = "env -i sleep 60 & echo $!; wait"
    marked = {**os.environ, MARK: "me:uid:1"}
    with subprocess.Popen(["sh", "-c", inner], env=marked, stdout=subprocess.PIPE) as job:
        assert job.stdout is not None
        child = int(job.stdout.readline())
        try:
            assert (is_marked(child, "me"), is_marked(child, "another")) == (True, False)
        finally:
            os.kill(child, 9)
            job.kill()
    wait_until(lambda: not is_marked(child, "me"), "its end is known")


def test_without_the_library_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "find", lambda: None)
    assert ForeignWatch(a_machine(), "me", (), lambda: None).note == BLIND
    assert ForeignWatch(a_machine(gpus=False), "me", (), lambda: None).note == ""


def test_a_gpu_that_is_used_past_the_queue_is_given_to_nobody(
    monkeypatch: pytest.MonkeyPatch, fake: FakeNvml
) -> None:
    def sabotage() -> None:
        monkeypatch.setattr(machine, "_devices", lambda: parse_devices(SMI))
        monkeypatch.setattr(nvml, "find", lambda: fake)
        monkeypatch.setattr(foreign, "LOOK_SECONDS", 0.1)

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with a_lab() as lab, a_process() as stranger:
        lab.start(sabotage=sabotage)
        lab.submit("first", LONG)
        lab.wait_for("first", "Running")
        assert [seat.devices for seat in lab.entry("first").seats] == [(0,)]
        fake.file.write_text(json.dumps({"GPU-b": [stranger], "GPU-a": lab_pids(lab)}))
        wait_until(lambda: lab.client.nodes().nodes[0].foreign_gpus == 1, "the stranger", lab.log)
        lab.submit("second", LONG)
        wait_until(lambda: bool(lab.client.why("second").detail.reasons), "a reason")
        told = [reason.text for reason in lab.client.why("second").detail.reasons]
        assert f"1 of 2 GPUs are used outside of Weft: GPU 1 by process {stranger}" in told[-1]
        assert f"process {stranger}" in lab.client.nodes().notes[0]
        assert (lab.state("first"), lab.state("second")) == ("Running", "Queued")
        fake.file.write_text("{}")
        lab.wait_for("second", "Running")
        assert lab.client.nodes().nodes[0].foreign_gpus == 0


def lab_pids(lab: Lab) -> list[int]:
    agent = lab.entry("first").agent
    assert agent is not None
    return [agent.pid]


@contextmanager
def a_process() -> Iterator[int]:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        try:
            yield process.pid
        finally:
            process.kill()
