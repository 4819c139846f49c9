"""Entries as people are shown them."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.local.builders import a_started
from weft.failure.diagnosis import Diagnosis, diagnose
from weft.failure.lines import Line, Stream
from weft.failure.rulebook import shipped
from weft.local.answers.views import failure_of, past_failure
from weft.local.record.entry import End, Entry, Happening
from weft.model.state import State


def try_again() -> Diagnosis:
    """As one that ended with 75 is taken for."""
    return diagnose([Line("exit code 75", Stream.PLATFORM)], shipped())


def a_brain(entry: Entry) -> Any:  # noqa: ANN401
    """As much of one as knows what the job failed with last."""
    failures = SimpleNamespace(last={0: try_again()})
    state = SimpleNamespace(
        slot_of={entry.id: 0}, failures=failures, state_of=lambda slot: entry.state
    )
    return SimpleNamespace(state=state)


@pytest.mark.parametrize(
    ("state", "end", "failed"),
    [
        (State.RUNNING, End("infrastructure", 75, "", diagnosis=try_again()), 3),
        (State.QUEUED, None, 3),
        (State.ADMITTED, None, 3),
        (State.STARTING, None, 2),
        (State.RUNNING, None, 2),
        (State.FAILED, End("infrastructure", 75, "", diagnosis=try_again()), 3),
    ],
)
def test_the_log_that_is_named_is_of_the_start_that_failed(
    state: State, end: End | None, failed: int
) -> None:
    entry = a_started(state, epoch=3, end=end)
    line = failure_of(entry, a_brain(entry))
    assert line is not None
    assert (line.epoch, line.log) == (failed, f"weft logs job --epoch {failed}")


def test_advice_is_for_the_state_that_the_job_is_in() -> None:
    end = End("infrastructure", 75, "", diagnosis=try_again())
    told = {}
    for state in (State.RUNNING, State.FAILED):
        entry = a_started(state, end=end)
        line = failure_of(entry, a_brain(entry))
        assert line is not None
        told[state] = line.advice
    assert told[State.RUNNING] == "nothing to do: it is tried again when the service answers"
    assert told[State.FAILED] == "submit it again when the service answers"


@pytest.mark.parametrize(("epoch", "given_up"), [(2, False), (3, True)])
def test_of_all_tries_only_the_last_is_the_one_given_up(epoch: int, *, given_up: bool) -> None:
    failure = End("infrastructure", 75, "", diagnosis=try_again()).to_json()
    tried = Happening(1.0, "Ended", epoch=epoch, failure=failure)
    line = past_failure(a_started(State.FAILED, epoch=3), tried)
    assert line is not None
    assert line.advice.startswith("submit it again") is given_up
