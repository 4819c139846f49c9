"""What a checkpoint can say of the program that made it."""

import hashlib
from pathlib import Path

import pytest

from weft.agent.workers.program import (
    LAUNCHER_MODULES,
    LAUNCHERS,
    digest_of_scripts,
    launcher_in,
    starts_its_own,
    version_of,
)


def test_the_scripts_of_a_command_are_digested(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("x = 1")
    expected = hashlib.sha256(b"x = 1").hexdigest()
    assert digest_of_scripts(("python", str(script), "--lr", "3")) == expected
    script.write_text("x = 2")
    assert digest_of_scripts(("python", str(script))) != expected


def test_a_command_without_scripts_has_none() -> None:
    assert digest_of_scripts(("bash", "-c", "true")) == ""
    assert digest_of_scripts(("python", "/nowhere/train.py")) == ""


def test_a_version_is_known_without_an_import() -> None:
    assert version_of("pytest")
    assert version_of("no-such-package") == ""


@pytest.mark.parametrize(
    "command",
    [
        ("torchrun", "train.py"),
        ("/opt/conda/bin/torchrun", "--nnodes", "2", "train.py"),
        ("accelerate", "launch", "train.py"),
        ("python", "-m", "torch.distributed.run", "train.py"),
        ("python3.11", "-u", "-m", "torch.distributed.launch", "train.py"),
        ("sh", "-c", "torchrun train.py"),
        ("sh", "-c", "/opt/bin/weft launch -n auto train.py"),
        ("/bin/sh", "-c", "cd /work && LR=3 exec torchrun train.py"),
        ("bash", "-lc", "set -e\npip install .\ndeepspeed train.py"),
        ("sh", "-c", "torchrun \\\n  train.py"),
        ("env", "A=b", "bash", "-c", "mpirun python train.py"),
    ],
)
def test_a_launcher_is_known_by_its_name(command: tuple[str, ...]) -> None:
    assert starts_its_own(command)
    assert launcher_in(command) in {*LAUNCHERS, *LAUNCHER_MODULES, "weft launch"}


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("python", "train.py", "torchrun"),
        ("python", "-m", "train"),
        ("weft", "run", "launch"),
        ("sh", "-c", "echo torchrun"),
        ("sh", "-c", "python train.py # torchrun"),
        ("sh", "-c", 'echo "unbalanced'),
        ("sh", "torchrun.sh"),
        ("./train-with-torchrun", "x"),
    ],
)
def test_a_command_that_only_mentions_one_is_none(command: tuple[str, ...]) -> None:
    assert not starts_its_own(command)
