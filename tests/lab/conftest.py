"""A small recorded run that several tests look at, made once."""

from pathlib import Path

import pytest

from weft.lab.experiment import Experiment, Outcome
from weft.lab.run_dir import run_into
from weft.lab.workloads.source import Generated

SMALL = Experiment(
    source=Generated(jobs=60, load_factor=1.5), cluster="2x8", recipe="las", seed=3, costs="tacc"
)


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """A run folder and what was in memory when it was written."""
    folder = tmp_path_factory.mktemp("run")
    return folder, run_into(folder, SMALL, command=["weft", "simulate"])


@pytest.fixture(scope="session")
def run_folder(recorded: tuple[Path, Outcome]) -> Path:
    return recorded[0]


@pytest.fixture(scope="session")
def outcome(recorded: tuple[Path, Outcome]) -> Outcome:
    return recorded[1]
