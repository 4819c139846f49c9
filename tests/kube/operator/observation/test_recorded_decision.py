"""What a job's status records of a decision is read back field by field."""

import pytest

from weft.kube.operator.observation.recorded_decision import NOTHING_DECIDED, read_decision
from weft.model.capability import Capability

ALLOCATION = {"number": 2, "node": "n0", "gpus": 4, "cpus": 1.0, "memoryGib": 2.0}


def test_no_decision_is_recorded_as_none() -> None:
    assert read_decision(None) == NOTHING_DECIDED


@pytest.mark.parametrize(("recorded", "expected"), [(True, True), (False, False)])
def test_whether_a_job_can_be_resized_live_is_kept(recorded: bool, expected: bool) -> None:
    assert read_decision({"live": recorded}).live is expected


def test_a_status_that_says_nothing_of_live_resizing_is_unknown() -> None:
    assert read_decision({"epoch": 1}).live is None


def test_the_next_allocation_has_a_number_that_was_never_used() -> None:
    assert read_decision({"seats": [ALLOCATION]}).next_seat == 3
    assert read_decision({"seats": [ALLOCATION], "nextSeat": 7}).next_seat == 7
    assert read_decision({"seats": [ALLOCATION], "nextSeat": 1}).next_seat == 3


def test_numbers_and_names_are_kept() -> None:
    found = read_decision({"epoch": 3, "serial": 5, "joining": [1, 2], "party": "team/one"})
    assert (found.epoch, found.serial, found.party) == (3, 5, "team/one")
    assert found.joining == frozenset({1, 2})


def test_capabilities_of_another_version_are_left_out() -> None:
    found = read_decision({"offers": [Capability.DATA.value, "of-a-later-version"]})
    assert found.offers == (Capability.DATA,)
