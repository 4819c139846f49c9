"""Views over the wire: what is written is read again, whatever it holds."""

import math
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta, timezone
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.model.errors import ProtocolError
from weft.view.health import Finding
from weft.view.jobs import JobLine, JobPage, JobPicture, Standing
from weft.view.logs import LogLine, Which
from weft.view.node_page import NodePage
from weft.view.queues import QueueLine
from weft.view.use import Use
from weft.view.wire import from_json, to_json

VIEWS = (JobPage, JobPicture, Standing, NodePage, QueueLine, Use, Finding)
WORDS = st.text(max_size=5)
WHOLE = st.integers(-(2**53), 2**53)  # what every reader of JSON can hold
PLAIN = st.recursive(
    st.none() | st.booleans() | WHOLE | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
ZONES = st.sampled_from((UTC, timezone(timedelta(hours=-5, minutes=-30))))
SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    Any: PLAIN,
    bool: st.booleans(),
    datetime: st.datetimes(datetime(1971, 1, 1), datetime(2999, 1, 1), timezones=ZONES),  # noqa: DTZ001
    float: st.floats(allow_nan=False, allow_infinity=False),
    int: WHOLE,
    NoneType: st.none(),
    str: WORDS,
}


def values(kind: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401 - a type as a value
    """Anything of that type; free-form parts hold plain JSON."""
    inner = get_args(kind)
    if kind in SIMPLE:
        return SIMPLE[kind]
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return st.builds(kind, **{each.name: values(hints[each.name]) for each in fields(kind)})
    if get_origin(kind) is tuple:
        return st.lists(values(inner[0]), max_size=2).map(tuple)
    if get_origin(kind) is dict:
        return st.dictionaries(WORDS, values(inner[1]), max_size=2)
    if get_origin(kind) is UnionType:
        return st.one_of(*map(values, inner))
    return st.sampled_from(kind)


@pytest.mark.parametrize("kind", VIEWS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_a_view_comes_back_as_it_went(kind: type, data: st.DataObject) -> None:
    """The server writes views with orjson, which knows dataclasses by itself and is quick."""
    view = data.draw(values(kind))
    sent = orjson.dumps(to_json(view))
    assert from_json(kind, orjson.loads(sent)) == view
    assert orjson.loads(orjson.dumps(view)) == orjson.loads(sent)


@given(line=st.builds(LogLine, st.integers(0), st.integers(0), st.binary(), st.none() | st.text()))
def test_bytes_come_back(line: LogLine) -> None:
    assert from_json(LogLine, to_json(line)) == line


@given(which=st.builds(Which, st.none() | st.frozensets(st.integers(0)), st.none(), st.integers(0)))
def test_sets_come_back(which: Which) -> None:
    assert from_json(Which, to_json(which)) == which


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_is_null(number: float) -> None:
    @dataclass
    class Loss:
        now: float
        best: float | None = None

    assert to_json(Loss(number, number)) == {"now": None, "best": None}
    read = from_json(Loss, {"now": None, "best": None})
    assert math.isnan(read.now)
    assert read.best is None


@dataclass(frozen=True)
class Newer:
    """A view that has grown since."""

    name: str
    count: int
    extra: str = "none"


def test_versions_apart_understand_each_other() -> None:
    assert from_json(Newer, {"name": "a", "count": 1, "unheard": [1]}) == Newer("a", 1)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"name": "a"}, "lacks 'count'"),
        ({"name": "a", "count": "1"}, "count: '1' is of another type"),
        ({"name": "a", "count": True}, "count: True is of another type"),
        ({"name": 1, "count": 1}, "name: 1 is of another type"),
        ([], "an object is wanted"),
        (None, "an object is wanted"),
    ],
)
def test_what_is_no_view_is_named(told: object, words: str) -> None:
    with pytest.raises(ProtocolError, match="this is no Newer") as raised:
        from_json(Newer, told)
    assert words in str(raised.value)
    assert raised.value.hint


@given(told=PLAIN)
def test_nothing_else_is_raised(told: object) -> None:
    for kind in VIEWS:
        try:
            from_json(kind, told)
        except ProtocolError:
            continue
        pytest.fail(f"{told!r} was taken for a {kind.__name__}")


def test_lines_of_a_list_are_read_quickly_enough_to_wait_for() -> None:
    line: dict[str, Any] = dict.fromkeys(JobLine.__dataclass_fields__)
    line |= {"namespace": "a", "name": "b", "uid": "c", "version": 1, "state": "Running"}
    line |= {"gpus": 8, "asked_gpus": "8", "queue": "q", "priority": 0, "nodes": ["n"]}
    line |= {"ending": False, "submitted_at": "2026-01-01T00:00:00+00:00"}
    page = from_json(JobPage, {"jobs": [line] * 10_000, "version": "1"})
    assert len(page.jobs) == 10_000
