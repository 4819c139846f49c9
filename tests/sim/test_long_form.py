"""What the long form says at its end, which takes too long to wait for twice."""

import json
from collections import Counter

from tests.sim.long_form import Tally, as_json, as_text
from tests.sim.random_world import Fault

TALLY = Tally(
    first=7,
    worlds=2,
    events=5,
    faults=Counter({Fault.NODE_LOST: 2}),
    broken={8: "InvariantBreach: two on one seat"},
)


def test_it_can_be_read_by_programs() -> None:
    told = json.loads(as_json(TALLY))
    assert told["faults"] == {"node lost": 2}
    assert (told["events"], told["injected"]) == (5, 2)
    assert told["broken"] == {"8": "InvariantBreach: two on one seat"}
    assert "node gone for good" in told["missing"]


def test_it_can_be_read_by_people() -> None:
    told = as_text(TALLY)
    assert "2 worlds from seed 7: 5 events, 2 faults, 1 broken promises" in told
    assert "not met: node gone for good" in told
    assert "seed 8: InvariantBreach: two on one seat" in told
