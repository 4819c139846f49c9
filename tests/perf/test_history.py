"""What is remembered of earlier runs, and for how long."""

import pytest

from weft.model.ids import TenantId
from weft.perf.history import History

ANN, BOB = TenantId("ann"), TenantId("bob")
LATEST = 3


def _history(*runs: float) -> History[float]:
    history: History[float] = History(LATEST)
    for run in runs:
        history.add(ANN, "train.py", run)
    return history


def test_only_the_latest_runs_of_a_program_are_remembered() -> None:
    assert _history(1.0, 2.0, 3.0, 4.0, 5.0).of(ANN, "train.py") == (3.0, 4.0, 5.0)


def test_programs_not_run_for_longest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.perf.history.PROGRAMS", 2)
    history = _history(1.0)
    history.add(ANN, "other.py", 2.0)
    history.add(ANN, "train.py", 3.0)
    history.add(ANN, "third.py", 4.0)
    assert history.of(ANN, "train.py") == (1.0, 3.0)
    assert history.of(ANN, "other.py") == ()
    assert history.of(ANN, "third.py") == (4.0,)


def test_other_tenants_and_programs_without_a_name_are_strangers() -> None:
    history = _history(1.0)
    history.add(ANN, "", 2.0)
    assert history.of(BOB, "train.py") == () == history.of(ANN, "")


def test_a_copy_goes_its_own_way() -> None:
    history = _history(1.0)
    twin = history.copied()
    twin.add(ANN, "train.py", 2.0)
    assert history.of(ANN, "train.py") == (1.0,)
    assert twin.of(ANN, "train.py") == (1.0, 2.0)
