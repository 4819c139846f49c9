"""Slurm scripts as job files: what is translated, and that nothing is lost in silence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.model.errors import SpecError
from weft.spec.reading import parse_job_file
from weft.spec.slurm import SRUN, from_slurm

SCRIPT = """#!/bin/bash
#SBATCH --job-name=Llama_SFT
#SBATCH -N 2 --ntasks-per-node=8
#SBATCH --gres=gpu:a100:8   # eight each
#SBATCH -c 12
#SBATCH --mem=512G
#SBATCH --time=1-12:30:00
#SBATCH -p gpu_long --mail-type=END
#SBATCH --no-requeue
#SBATCH --chdir=/home/me

  module load cuda
srun torchrun train.py
"""


def test_a_script_is_translated() -> None:
    job = parse_job_file(from_slurm(SCRIPT))
    assert job.name == "llama-sft"
    assert job.spec == {
        "run": "  module load cuda\nsrun torchrun train.py\n",
        "resources": {
            "gpus": 16,
            "gpu_type": ["a100"],
            "cpus_per_gpu": 12,
            "memory_per_gpu": "64GiB",
        },
        "nodes": 2,
        "queue": "gpu-long",
        "duration": "1d12h30m",
        "preemptible": False,
        "workdir": "/home/me",
    }


def test_what_has_no_counterpart_stays_as_a_comment() -> None:
    text = from_slurm(SCRIPT + "#SBATCH --array=1-10 --time=UNLIMITED junk\n#SBATCH 'open\n")
    assert "# not translated: --mail-type END" in text
    assert "# not translated: --array 1-10" in text
    assert "# not translated: --time UNLIMITED" in text
    assert "# not understood: junk" in text
    assert "# not understood: #SBATCH 'open" in text
    assert f"# {SRUN}" in text


@pytest.mark.parametrize(
    ("options", "resources"),
    [
        ("", {"gpus": 0, "cpus": 1}),
        ("-n 4 -c 8 --mem=64G", {"gpus": 0, "cpus": 32, "memory": "64GiB"}),
        ("-n 4 --mem=65536", {"gpus": 0, "cpus": 4, "memory": "64GiB"}),
        ("--gpus=4", {"gpus": 4}),
        ("-G h100:4", {"gpus": 4, "gpu_type": ["h100"]}),
        ("--gres=gpu", {"gpus": 1}),
        ("--gres gpu:2 -N2", {"gpus": 4}),
        ("--gpus-per-node=8 --nodes=2-4", {"gpus": 32}),
        ("--gpus-per-task=1 --ntasks=8", {"gpus": 8}),
        (
            "--gpus=2 --cpus-per-gpu=6 --mem-per-gpu=500M",
            {"gpus": 2, "cpus_per_gpu": 6, "memory_per_gpu": "500MiB"},
        ),
    ],
)
def test_what_is_asked_for(options: str, resources: dict[str, object]) -> None:
    text = from_slurm(f"#SBATCH {options}\npython train.py")
    assert parse_job_file(text).spec["resources"] == resources


@pytest.mark.parametrize(
    ("options", "command", "expected"),
    [
        ("--gpus-per-task=1 --ntasks=8", "srun python train.py", "gpu"),
        ("-N2 --gres=gpu:4 --ntasks-per-node=4", "srun --mpi=none python train.py", "gpu"),
        ("-N2 --gres=gpu:4 --ntasks-per-node=1", "srun python train.py", None),
        ("--gpus-per-task=1 --ntasks=8", "python train.py", None),
        ("-N2 --gres=gpu:4 --ntasks-per-node=4", "srun torchrun train.py", None),
        ("--gpus=1", "srun python train.py", None),
        ("-n 4", "srun python train.py", None),
    ],
)
def test_a_task_for_each_gpu_is_a_process_for_each(
    options: str, command: str, expected: str | None
) -> None:
    text = from_slurm(f"#SBATCH {options}\n{command}")
    assert parse_job_file(text).nproc_per_node == expected


def test_other_numbers_of_tasks_stay_as_a_comment() -> None:
    text = from_slurm("#SBATCH --gpus=8 --ntasks=4\nsrun python train.py")
    assert "# not translated: 4 tasks on 8 GPUs" in text
    assert parse_job_file(text).nproc_per_node is None


@pytest.mark.parametrize(
    ("time", "duration"),
    [
        ("90", "1h30m"),
        ("90:30", "1h30m"),
        ("1:30:00", "1h30m"),
        ("2-12", "2d12h"),
        ("2-12:30", "2d12h30m"),
    ],
)
def test_times(time: str, duration: str) -> None:
    assert parse_job_file(from_slurm(f"#SBATCH -t {time}\nx")).duration == duration


@given(
    st.lists(st.text() | st.sampled_from(["#SBATCH --mem=", "#SBATCH -N", "#SBATCH --gres=gpu:"]))
)
def test_any_script_gives_a_text(lines: list[str]) -> None:
    text = from_slurm("\n".join(lines))
    try:
        parse_job_file(text)
    except SpecError as error:
        assert error.hint
