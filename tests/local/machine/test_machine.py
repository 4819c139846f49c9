"""What is found on a machine, and what it becomes for the brain."""

from pathlib import Path

import pytest

from tests.local.builders import a_machine, an_entry
from weft.local.machine import machine
from weft.local.machine.machine import Device, parse_devices, this_machine
from weft.local.reconcile.parsed_request import notes_on, parse_request, refuse_impossible
from weft.model.errors import InfeasibleSpec, SpecError
from weft.spec.job_file import JobSpec

SMI = "0, NVIDIA H100 80GB HBM3, 81559\n1, NVIDIA H100 80GB HBM3, 81559\nno line\n"


@pytest.fixture
def no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_devices", tuple)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_devices", lambda: parse_devices(SMI))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_what_nvidia_smi_answers_is_read() -> None:
    assert parse_devices(SMI) == (
        Device(0, "H100", 81559 / 1024),
        Device(1, "H100", 81559 / 1024),
    )


def test_addresses_are_known_where_the_driver_tells_them(monkeypatch: pytest.MonkeyPatch) -> None:
    told = "0, NVIDIA A100, 40960, 00000000:4B:00.0\n1, NVIDIA A100, 40960, 00000000:4C:00.0\n"
    monkeypatch.setattr(machine, "_devices", lambda: parse_devices(told))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    found = this_machine()
    assert found.slots == (1,)
    assert found.pci == {0: "0000:4b:00", 1: "0000:4c:00"}, "those of others too"


def test_device_files_are_counted_where_there_is_no_program(tmp_path: Path) -> None:
    for name in ("nvidia1", "nvidia0", "nvidiactl", "nvidia-uvm", "nvidia10"):
        (tmp_path / name).touch()
    assert [device.number for device in machine._device_files(tmp_path)] == [0, 1, 10]


@pytest.mark.usefixtures("two_gpus")
def test_every_gpu_is_a_slot_unless_fewer_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (this_machine().slots, this_machine().has_gpus) == ((0, 1), True)
    assert this_machine(1).slots == (0,)
    with pytest.raises(SpecError, match="has 2 GPUs"):
        this_machine(3)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert this_machine().slots == (1,)


@pytest.mark.usefixtures("no_gpus")
def test_without_gpus_slots_stand_for_them() -> None:
    found = this_machine(3)
    assert (found.slots, found.has_gpus, found.node.gpus) == ((0, 1, 2), False, 3)
    assert len(this_machine().slots) == len(found.cpus)
    assert found.memory_gib is not None
    with pytest.raises(SpecError):
        this_machine(0)


def test_cpus_are_cut_into_slices() -> None:
    assert a_machine(slots=4, cpus=8).cpus_of((1, 3)) == (2, 3, 6, 7)
    assert a_machine(slots=4, cpus=2).cpus_of((1, 3)) == ()


def test_a_range_is_cut_to_what_there_is() -> None:
    spec = {"run": "x", "resources": {"gpus": "2..16"}, "queue": "research"}
    job = parse_request(an_entry(spec=spec), a_machine(slots=4)).job
    assert (job.width.min_gpus, job.width.max_gpus, job.width.asked_gpus) == (2, 4, 4)
    assert job.queue == "default"
    assert job.tenant == "alice"


@pytest.mark.parametrize(
    ("resources", "what"),
    [
        ({"gpus": 5}, "5 GPUs"),
        ({"gpus": 2, "cpus_per_gpu": 5}, "10 CPUs"),
        ({"gpus": 4, "memory_per_gpu": "20GiB"}, "80 GiB of memory"),
        ({"gpus": 0, "cpus": 9}, "9 CPUs"),
        ({"gpus": 1, "gpu_type": ["A100"]}, "accepts A100"),
    ],
)
def test_what_can_never_be_is_refused(resources: dict[str, object], what: str) -> None:
    job = parse_request(an_entry(spec={"run": "x", "resources": resources}), a_machine()).job
    with pytest.raises(InfeasibleSpec, match=what):
        refuse_impossible(job, a_machine())


def test_what_has_no_meaning_on_one_machine_is_said() -> None:
    spec = JobSpec.model_validate(
        {
            "run": "x",
            "image": "team/train:1",
            "queue": "research",
            "resources": {"gpus": 1, "gpu_type": "H100"},
            "volumes": [{"claim": "pvc", "path": "/ckpt"}],
        }
    )
    assert len(list(notes_on(spec, a_machine(gpus=False)))) == 5
    assert len(list(notes_on(JobSpec(run="x"), a_machine()))) == 1
