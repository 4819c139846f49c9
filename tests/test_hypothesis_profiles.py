"""Tests of a change repeat the same examples everywhere; only `explore` draws new ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase

from tests.hypothesis_profiles import VARIABLE

ROOT = Path(__file__).parents[1]
SHOW = """
from hypothesis import settings
from tests import hypothesis_profiles
hypothesis_profiles.load()
print(settings.default)
"""


def loaded_by(profile: str, *, ci: bool) -> str:
    """The settings that a process with these variables has by default."""
    variables = {name: value for name, value in os.environ.items() if name not in ("CI", VARIABLE)}
    variables |= {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"} | ({"CI": "true"} if ci else {})
    variables |= {VARIABLE: profile} if profile else {}
    done = subprocess.run(
        [sys.executable, "-c", SHOW], env=variables, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize("name", ["gate", "fast"])
def test_a_profile_of_the_gate_repeats_its_examples(name: str) -> None:
    found = settings.get_profile(name)
    assert found.derandomize
    assert found.database is None
    assert found.deadline is None
    assert found.print_blob


def test_exploration_draws_new_examples_and_keeps_failures() -> None:
    found = settings.get_profile("explore")
    assert not found.derandomize
    assert isinstance(found.database, DirectoryBasedExampleDatabase)
    assert found.max_examples > settings.get_profile("gate").max_examples


@pytest.mark.parametrize("profile", ["", "explore"])
def test_a_profile_is_the_same_in_ci_and_elsewhere(profile: str) -> None:
    at_home = loaded_by(profile, ci=False)
    assert loaded_by(profile, ci=True) == at_home
    assert ("derandomize=True" in at_home) == (profile == "")
