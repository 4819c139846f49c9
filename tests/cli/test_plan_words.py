"""As what a job runs and why, as `show` and `why` tell it."""

from dataclasses import replace
from io import StringIO

from rich.console import Console

from tests.api.memory import a_detail
from weft.api.backend import JobKey
from weft.cli.jobs.plan_words import plan_lines
from weft.cli.jobs.show import as_dict, drawn
from weft.cli.jobs.why_world import _told
from weft.cli.jobs.why_world import as_dict as why_dict
from weft.cli.terminal.age import now
from weft.view.jobs import JobPicture, Standing
from weft.view.plans import Alternative, Considered
from weft.view.wire import from_json, to_json

WAY = Alternative(4, 8.0, "data 2 × tensor 2", 0.625, 19_440.0, "it adds most")
OTHER = Alternative(8, 8.0, "data 8 [x]", 0.9, 13_500.0, "4 GPUs are missing")
FOUND = Considered(WAY, (OTHER,), "its steps were off", "steps")
DETAIL = replace(a_detail(JobKey("me", "job")), plan=FOUND)


def test_show_tells_the_plan_and_what_was_rejected() -> None:
    out = StringIO()
    Console(file=out, width=200).print(drawn(JobPicture(DETAIL), now()))
    said = out.getvalue()
    assert "How it computes" in said
    assert "It runs as 4 GPUs, data 2 × tensor 2 (0.625 steps a second" in said
    assert "Its plan stays: its steps were off." in said
    assert "rejected: 8 GPUs, data 8 [x] (0.9 steps a second" in said
    assert "4 GPUs are missing" in said


def test_its_twin_has_the_same() -> None:
    told = as_dict(JobPicture(DETAIL))["plan"]
    assert told["chosen"]["units_per_second"] == 0.625
    assert [one["why"] for one in told["rejected"]] == ["4 GPUs are missing"]
    assert as_dict(JobPicture(replace(DETAIL, plan=None)))["plan"] is None


def test_why_tells_it_too() -> None:
    standing = Standing(DETAIL)
    assert any("It runs as 4 GPUs" in line for line in _told(standing, (), now()))
    assert why_dict(standing, (), now())["plan"]["note"] == "its steps were off"


def test_a_speed_without_a_unit_is_told_by_what_was_asked_for() -> None:
    (line,) = plan_lines(Considered(WAY, ()))
    assert "0.625 times as fast as asked for" in line


def test_it_goes_over_the_wire_and_older_servers_say_nothing_of_it() -> None:
    told = to_json(DETAIL)
    assert from_json(type(DETAIL), told) == DETAIL
    del told["plan"]
    assert from_json(type(DETAIL), told).plan is None
