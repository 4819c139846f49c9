"""Values that are no tensors survive exactly, and never name code."""

import math
from collections import Counter, OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.agent.checkpoint.document import parse, plain
from weft.agent.checkpoint.errors import StateMismatch, UnsavableState
from weft.agent.checkpoint.facts import fold, together, unfold

SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_values_survive_json_exactly(value: object) -> None:
    again = unfold(parse(plain(fold(value, "extra/x")), "here"))
    assert repr(again) == repr(value)


def test_counters_and_infinities_of_schedulers_survive() -> None:
    state = {"milestones": Counter({30: 1, 80: 2}), "best": math.inf, "$": 1, "o": OrderedDict(a=1)}
    again = unfold(parse(plain(fold(state, "extra/scheduler")), "here"))
    assert again == state
    assert isinstance(again, dict)
    assert isinstance(again["milestones"], Counter)


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", len, 1j, 10**45])
def test_what_has_no_form_is_an_error_that_names_it(value: object) -> None:
    with pytest.raises(UnsavableState, match=r"extra/x/inner/0"):
        fold({"inner": [value]}, "extra/x")


def test_what_could_not_be_read_again_is_not_written() -> None:
    def deep(levels: int) -> object:
        return () if not levels else ({1: deep(levels - 1)},)

    assert unfold(parse(plain(fold(deep(8), "extra/x")), "here")) == deep(8)
    with pytest.raises(UnsavableState, match="too deep"):
        fold(deep(12), "extra/x")


def test_leaves_are_the_callers() -> None:
    value = {"a": [object()]}
    folded = fold(value, "x", lambda path, _: path)
    assert unfold(folded, lambda name: f"<{name}>") == {"a": ["<x/a/0>"]}


@pytest.mark.parametrize(
    "hostile",
    [
        {"$": "object", "of": "os.system"},
        {"$": "leaf", "of": "x"},
        {"$": "float", "of": "1e5"},
        {"$": "float", "of": ["inf"]},
        {"$": "tuple", "of": "ab"},
        {"$": "table", "of": [["a"]]},
        {"$": "table", "of": [[["unhashable"], 1]]},
        {"$": "counter", "of": {"a": 1}},
        {"$": ["tuple"], "of": []},
        {"$": None},
    ],
)
def test_forms_that_are_not_known_are_refused(hostile: object) -> None:
    with pytest.raises(StateMismatch):
        unfold(hostile)


def test_stages_of_a_pipeline_put_their_groups_together_and_what_these_began_as() -> None:
    """A stage that holds nothing of a new group has an empty one, or one that is as prepared."""

    def stage(names: list[list[str]], **began: object) -> dict[str, object]:
        groups = [{"params": of_group, "options": {"lr": 0.1}} for of_group in names]
        return {"optimizer": {"groups": groups, "state": {}, **began}, "frozen": []}

    parts = [stage([["a"], ["b"]], prepared=[["a"]], moved=["c"]), stage([["d"], []])]
    assert together(parts) == parts[0], "stages that do not fit each other are not put together"
    parts[1] = stage([["d"], []], prepared=[["d"]], moved=["e"])
    optimizer = together(parts)["optimizer"]
    assert [group["params"] for group in optimizer["groups"]] == [["a", "d"], ["b"]]
    assert (optimizer["prepared"], optimizer["moved"]) == ([["a", "d"]], ["c", "e"])
    assert "prepared" not in together([stage([["a"]]), stage([["d"]])])["optimizer"]
