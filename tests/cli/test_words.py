"""Small words: ages, counts, what a job asks for, and text that might steer a terminal."""

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.cli.called import Weft
from tests.cli.objects import a_queue
from tests.work import calls_of
from weft.cli.exit_status import Exit, of_job
from weft.cli.jobs.job_words import asked, facts, failing, queueing
from weft.cli.jobs.logs import shown
from weft.cli.jobs.show import SHOWN_EVENTS, latest
from weft.cli.overview.top import bar
from weft.cli.terminal.age import age, lasting
from weft.cli.terminal.grid import Grid
from weft.cli.terminal.screen import cell, harmless
from weft.cli.worlds.place import Place
from weft.kube.reading.queues import queue_line
from weft.view.queues import in_tree_order
from weft.view.workers import EventLine


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-3, "0s"),
        (0, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (61, "1m1s"),
        (599, "9m59s"),
        (3599, "59m"),
        (3600, "1h"),
        (11_520, "3h12m"),
        (86_399, "23h"),
        (90_000, "1d1h"),
        (864_000, "10d"),
        (864_000 + 7200, "10d"),
    ],
)
def test_ages(seconds: float, words: str) -> None:
    assert lasting(seconds) == words
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert age(now - timedelta(seconds=seconds), now) == words


def test_what_has_no_age() -> None:
    assert (age(None, datetime(2026, 1, 1, tzinfo=UTC)), lasting(None)) == ("", "")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "1 GPU"),
        ({"resources": {"gpus": 8}, "nodes": 1}, "8 GPUs, on at most 1 node"),
        ({"resources": {"gpus": 0, "cpus": 16, "memory": "100GB"}}, "no GPU, 16 CPUs and 100GB"),
        ({"resources": {"gpus": 2, "memory_per_gpu": "1GB"}}, "2 GPUs, 1GB each"),
    ],
)
def test_what_a_job_asks_for(spec: dict[str, Any], words: str) -> None:
    assert asked(spec) == words


def test_the_other_facts_of_a_job() -> None:
    assert queueing({"duration": "2h"}) == "default, priority 0, expected to run 2h"
    assert failing({"retry": {"limit": 1}, "checkpoint": {}}) == (
        "1 retry, saves every 30m, 30s to stop"
    )
    volume = {"claim": "data", "path": "/data", "read_only": True}
    assert facts({"volumes": [volume]})["volumes"] == "data at /data (read only)"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x07", "link"),
        ("\x1b]0;title\x1b\\after", "after"),
        ("\x1bPdevice\x1b\\x", "x"),
        ("\x1b(B\x1b=x", "x"),
        ("bell\x07 back\x08 c1\x9b31m", "bell back c1"),
        ("left\u202eright", "leftright"),
        ("\x1b", ""),
        ("\x1b]0;never ended", ""),
    ],
)
def test_text_that_would_steer_a_terminal(text: str, left: str) -> None:
    assert harmless(text) == left


def test_a_line_is_shown_as_a_terminal_would_leave_it() -> None:
    assert shown(b"10%\r20%\r") == b"20%"
    assert shown(b"") == b""


def test_a_cell_shows_brackets_and_dashes() -> None:
    assert (cell(None), cell(""), cell(0)) == ("–", "–", "0")
    assert cell("[red]x") == r"\[red]x"


@pytest.mark.parametrize(("share", "drawn"), [(-1, "····"), (0.5, "██··"), (9, "████")])
def test_a_bar_stays_in_its_bounds(share: float, drawn: str) -> None:
    assert bar(share, 4) == drawn


def test_a_cycle_of_queues_is_shown_all_the_same() -> None:
    lines = [
        queue_line(a_queue(name, spec={"parent": parent}))
        for name, parent in (("a", "b"), ("b", "a"), ("c", "gone"), ("d", "c"))
    ]
    order = [(depth, line.name) for depth, line in in_tree_order(lines)]
    assert order == [(0, "c"), (1, "d"), (0, "a"), (1, "b")]


def test_a_grid_has_colours_only_where_they_are_seen() -> None:
    grid = Grid(("job", "state", "GPUs"), frozenset({"GPUs"}))
    grid.add("a\x1b[2J", "Running (ending)", 16)
    grid.add("long-name", None, "two\nlines")
    assert grid.text().splitlines() == [
        "job         state                   GPUs",
        "────────────────────────────────────────",
        "a           Running (ending)          16",
        "long-name   –                  two lines",
    ]
    painted = grid.text(colours=True, most=3).splitlines()
    assert painted[2].startswith("a     \x1b[32mRunning (ending)\x1b[0m")
    assert len(painted) == 3


def test_the_work_of_a_grid_grows_with_its_rows() -> None:
    def shown(rows: int) -> None:
        grid = Grid(("job", "state"))
        for number in range(rows):
            grid.add(f"job-{number}", "Running")
        assert grid.text().count("\n") == rows + 1

    assert calls_of(lambda: shown(10_000)) < 11 * calls_of(lambda: shown(1_000))


def test_an_empty_grid_is_its_titles() -> None:
    assert Grid(("a", "b")).text() == "a   b\n─────"


def test_statuses_of_jobs() -> None:
    ends = {state: of_job(state) for state in ("Succeeded", "Failed", "Cancelled", None)}
    assert ends == {
        "Succeeded": Exit.OK,
        "Failed": Exit.FAILED,
        "Cancelled": Exit.CANCELLED,
        None: Exit.CANCELLED,
    }


def test_next_commands_lead_to_the_same_place() -> None:
    place = Place("my team", "c", "k")
    assert place.command("why", "x") == "weft why x -n 'my team' --context c --kubeconfig k"


def test_without_the_extra_there_is_a_hint(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("weft.kube.client.api")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    called = weft("ls", "--context", "cluster")
    assert called.status == 1
    assert called.err == (
        "error: this needs a package that is not installed: aiohttp\n"
        "hint: in Weft's checkout: pip install '.[kube]'\n"
    )


def test_without_a_kubeconfig_there_is_a_hint(
    weft: Weft, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    called = weft("why", "job-0", "--context", "cluster")
    assert called.status == 5
    assert "hint: Set KUBECONFIG" in called.err


@pytest.mark.parametrize("newest_first", [True, False])
def test_the_latest_events_are_shown_in_their_order(newest_first: bool) -> None:
    first = datetime(2026, 1, 1, tzinfo=UTC)
    times = [first + timedelta(seconds=number) for number in range(30)]
    made = [EventLine(at=at, reason="Resized", message="", times=1, warning=False) for at in times]
    found = latest(reversed(made) if newest_first else made)
    assert found == made[-SHOWN_EVENTS:]
