"""Real training processes go through five plans by the scheduler's decisions, and lose nothing.

Jobs that come and go decide how many slots a language model has, and that decides how it computes
(`tests.five_plans`). In the middle the daemon dies, and the next one finds a slot more. Then others
of its kind: whoever dies while it goes to shards of split tensors, and whoever comes meanwhile,
each step has the samples that an undisturbed run gives it.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import Final

import pytest

from tests.five_plans import (
    BATCH,
    BOTH,
    CYCLE,
    MODEL,
    MOST_GPUS,
    SAMPLES,
    SHAPE,
    SHARED,
    STAGES,
    WHOLE,
    WORDS,
)
from tests.local.daemons import Lab, a_lab, wait_until
from tests.local.test_elastic import told
from tests.local.test_plans import PATIENCE, RECIPE, ROOT, SCRIPT, newest, taken, under
from tests.train.alone import undisturbed_samples
from tests.train.lines import Line, check_each_once, in_order, read_lines
from weft.local.agents.launch import AGENT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TOTAL: Final = 20_000  # so long that no change is too dear for what it has before it


@contextmanager
def trains(*, others: int) -> Iterator[Lab]:
    """A language model on what so many others leave of four slots, ready to follow a plan."""
    with a_lab(slots=MOST_GPUS, recipe=RECIPE, agent=AGENT) as lab:
        lab.start()
        for number in range(others):
            lab.submit(f"other{number}", "sleep 1000", grace="1s")
            lab.wait_for(f"other{number}", "Running")
        words = (sys.executable, str(SCRIPT), f"--total={TOTAL}", *WORDS)
        lab.submit(
            "lm",
            " ".join(words),
            gpus=f"1..{MOST_GPUS}",
            model=MODEL,
            env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
            checkpoint={"every": "2s"},
            grace="5s",
        )
        wait_until(lambda: bool(told(lab, "JobMeasured")), "its speed", lab.log, PATIENCE)
        assert told(lab, "PlansOffered")
        yield lab


def trains_as(lab: Lab, way: tuple[int, str]) -> None:
    width, plan = way
    under(lab, plan, width)


def comes(lab: Lab, name: str, slots: int) -> None:
    lab.submit(name, "sleep 1000", gpus=slots, grace="1s")
    lab.wait_for(name, "Running", seconds=PATIENCE)


def lines_in_the_end(lab: Lab) -> list[Line]:
    """All but those of the last step, which some may have been in."""
    lab.client.cancel("lm")
    lab.wait_for("lm", "Cancelled", seconds=PATIENCE)
    lines = read_lines(lab.folder)
    last = max(line["step"] for line in lines if line.get("stepped"))
    return [line for line in lines if line.get("step", line.get("of", last)) < last]


def check_samples(lines: list[Line]) -> None:
    """Every step has had its own, and no others."""
    found = taken(lines)
    assert found == in_order(len(found), batch=BATCH, size=SAMPLES)


def stretches(lines: list[Line]) -> list[tuple[int, str]]:
    """Width and plan of each time that it has trained so without a change."""
    done = [line for line in lines if line.get("stepped")]
    done.sort(key=lambda line: float(line["time"]))
    return [way for way, _ in groupby(done, key=lambda line: (line["width"], line["plan"]))]


def test_five_switches_by_decision() -> None:
    with trains(others=3) as lab:
        trains_as(lab, WHOLE)
        for number in range(3):
            lab.client.cancel(f"other{number}")
            trains_as(lab, CYCLE[number + 1])
        lab.kill()
        lab.options = replace(lab.options, slots=MOST_GPUS + 1)
        lab.start()
        comes(lab, "fifth", 1)
        for name, slots, way in (("pair", 2, STAGES), ("single", 1, WHOLE)):
            comes(lab, name, slots)
            trains_as(lab, way)
        assert lab.entry("lm").epoch == 1, "it was never started anew"
        lines = lines_in_the_end(lab)
    check_each_once(lines, total=len(taken(lines)), batch=BATCH, size=SAMPLES)
    check_samples(lines)
    some = undisturbed_samples(SCRIPT.name, "--total=100", *SHAPE)
    assert some == in_order(100, batch=BATCH, size=SAMPLES), "what is its own is what one takes"
    assert stretches(lines) == list(CYCLE)


def is_switching(lab: Lab) -> bool:
    return bool(lab.entry("lm").target)


@contextmanager
def in_a_switch() -> Iterator[Lab]:
    """From shards of the whole to shards of split tensors, which has just been decided."""
    with trains(others=1) as lab:
        trains_as(lab, SHARED)
        lab.client.cancel("other0")
        wait_until(lambda: is_switching(lab), "a switch", lab.log, PATIENCE)
        yield lab


def workers(lab: Lab) -> list[int]:
    """Those that have begun to run the script, the newest last."""
    begun = [line for line in read_lines(lab.folder) if "began" in line]
    return [int(line["began"]) for line in sorted(begun, key=lambda line: line["time"])]


def test_a_worker_of_the_new_plan_that_dies_in_it_costs_no_sample() -> None:
    """Where it counts as a fault of the plan, the old one is what goes on."""
    with in_a_switch() as lab:
        before = len(workers(lab))
        wait_until(lambda: len(workers(lab)) > before, "one of the new plan", lab.log, PATIENCE)
        os.kill(workers(lab)[-1], signal.SIGKILL)
        goal = newest(lab) + 5
        wait_until(
            lambda: not is_switching(lab) and newest(lab) >= goal, "it to go on", lab.log, PATIENCE
        )
        lines = lines_in_the_end(lab)
    check_samples(lines)
    assert stretches(lines)[-1] in (SHARED, BOTH)


def test_a_daemon_that_dies_in_it_is_followed_by_one_that_waits_for_it() -> None:
    with in_a_switch() as lab:
        lab.kill()
        lab.start()
        trains_as(lab, BOTH)
        assert lab.entry("lm").epoch == 1
        lines = lines_in_the_end(lab)
    check_each_once(lines, total=len(taken(lines)), batch=BATCH, size=SAMPLES)
    check_samples(lines)


def test_a_job_that_comes_meanwhile_gets_its_slots_after_it() -> None:
    with in_a_switch() as lab:
        comes(lab, "triple", 3)
        trains_as(lab, WHOLE)
        assert lab.entry("lm").epoch == 1
        before = newest(lab)
        wait_until(lambda: newest(lab) > before + 3, "it to train on", lab.log, PATIENCE)
        lines = lines_in_the_end(lab)
    check_each_once(lines, total=len(taken(lines)), batch=BATCH, size=SAMPLES)
    check_samples(lines)
