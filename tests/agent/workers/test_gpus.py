"""GPUs by names that keep their meaning, as a CUDA program would see them."""

import stat
from pathlib import Path

import pytest

from weft.agent.workers.gpus import Gpu, listed, parse, visible
from weft.model.errors import WorldError

FOUND = tuple(Gpu(number, f"GPU-{name}") for number, name in enumerate(("aa11", "ab22", "cc33")))


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        (None, ["GPU-aa11", "GPU-ab22", "GPU-cc33"]),
        ("", []),
        ("-1", []),
        ("2,0", ["GPU-cc33", "GPU-aa11"]),
        ("GPU-cc", ["GPU-cc33"]),
        ("1,7,0", ["GPU-ab22"]),
        ("MIG-1,MIG-2", ["MIG-1", "MIG-2"]),
    ],
)
def test_what_is_visible_is_what_cuda_would_show(wanted: str | None, seen: list[str]) -> None:
    found = visible(FOUND, {} if wanted is None else {"CUDA_VISIBLE_DEVICES": wanted})
    assert [gpu.uuid for gpu in found] == seen
    assert len({gpu.number for gpu in found}) == len(found)


def test_lines_of_nvidia_smi() -> None:
    assert parse("0, GPU-aa11\n1, GPU-ab22\nNo devices were found\n") == FOUND[:2]


def a_program(folder: Path, text: str) -> None:
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(stat.S_IRWXU)


def test_they_are_listed_by_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    a_program(tmp_path, 'test "$1" = --query-gpu=index,uuid && echo "0, GPU-aa11"')
    assert listed() == FOUND[:1]
    a_program(tmp_path, "exit 9")
    with pytest.raises(WorldError, match="nvidia-smi") as refused:
        listed()
    assert "--devices none" in refused.value.hint
    monkeypatch.setenv("PATH", "/nowhere")
    assert listed() == ()
