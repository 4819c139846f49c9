"""Widths that follow the work: speeds that are measured, targets that are overtaken, restarts."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from tests.local.daemons import Lab, a_lab, wait_until
from weft.api.backend import Farewell, Origin
from weft.lab.journals.journal_file import JournalFile
from weft.local.agents.launch import AGENT

ROOT: Final = Path(__file__).parents[2]
SCRIPT: Final = ROOT / "benchmarks" / "elastic" / "jobs" / "mixed.py"
MEASUREMENTS: Final = 4
ELASTIC: Final = "maxmin(spacing=0.1, hold=0.0, min_run=0.0)"

# One that knows nothing of Weft: it counts in its own file, and tells how wide it is each time.
PLAIN: Final = """
state="$WEFT_CHECKPOINT_PATH/steps.$RANK"
steps=$(cat "$state" 2>/dev/null || echo 0)
while [ "$steps" -lt 1000 ]; do
  steps=$((steps + 1)); echo "$steps" > "$state.new"; mv "$state.new" "$state"
  echo "$RANK of $WORLD_SIZE after $steps"
  sleep 0.1
done
"""


def test_speeds_are_measured_at_each_width_and_counted_in_steps() -> None:
    with a_lab(slots=2, recipe=ELASTIC) as lab:
        lab.start()
        lab.submit("wide", "model total=100000 step=0.05 scale=0.5 live", gpus="1..2")
        wait_until(lambda: has_measured(lab, 2), "its speed on both slots", lab.log)
        lab.submit("other", "model total=100000 step=0.05", gpus=1)
        wait_until(lambda: has_measured(lab, 1), "its speed on one", lab.log)
        standing = lab.client.why("wide")
        growth, left = standing.growth, standing.detail.line.remaining_seconds
        assert growth is not None
        assert growth.gain is not None
        assert (growth.gpus, growth.most, growth.next_gpus) == (1, 2, 2)
        assert growth.gain == pytest.approx(2**0.5 - 1, abs=0.15)
        assert left is not None, "its steps are stated, and its speed is measured"
        assert 100_000 / 20 * 0.5 < left < 100_000 / 20 * 1.5
        lab.kill()
        speeds = best_speeds(lab)
        assert (speeds[1], speeds[2]) == pytest.approx((20.0, 20.0 * 2**0.5))
        (shrunk, *_) = [done for done in told(lab, "InstructionDone") if done["verb"] == "resize"]
        assert shrunk["paused_seconds"] == 0.0
        for event in told(lab, "JobMeasured"):
            assert (event["work_total"], event["nodes"], event["epoch"]) == (100_000.0, 1, 1)
            assert event["work_done"] == int(event["work_done"]) > 0
        done = [one["work_done"] for one in told(lab, "JobReported") if one["job"].endswith("wide")]
        assert done == sorted(done)
        assert all(steps == int(steps) for steps in done[1:]), "steps too, once it has told any"


def test_of_a_burst_of_ends_only_the_newest_target_reaches_the_workers() -> None:
    """While it grows by the first slot that came free, two more come free."""
    with a_lab(slots=4, recipe=ELASTIC) as lab:
        lab.start()
        names = ("first", "second", "third")
        for name in names:
            lab.submit(name, "model total=100000 step=0.05", gpus=1)
        lab.submit("wide", "model total=100000 step=0.05 join=3 live", gpus="1..4")
        wait_until(lambda: is_live(lab), "all to run", lab.log)
        lab.let_finish("first")
        wait_until(lambda: bool(lab.entry("wide").target), "it to begin to grow", lab.log)
        for name in names[1:]:
            lab.let_finish(name)
        for name in names:
            lab.wait_for(name, "Succeeded")
        wait_until(lambda: lab.entry("wide").width == 4, "it to have them all", lab.log)
        wait_until(lambda: not lab.entry("wide").target, "that to be over", lab.log)
        widths = [one.gpus for one in lab.history("wide") if one.what == "Resized"]
        assert widths[:2] == [2, 4]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_job_that_trains_measures_itself_and_trains_on_over_resizes() -> None:
    """Real workers: the one that stays is never started anew."""
    with a_lab(slots=2, recipe=ELASTIC, agent=AGENT) as lab:
        lab.start()
        words = f"{sys.executable} {SCRIPT} --steps=100000 --serial=0.06 --sample=0.005"
        origin = Origin("/tmp", {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT / "src")})
        lab.client.submit({"run": words, "resources": {"gpus": "1..2"}}, "wide", origin=origin)
        wait_until(lambda: has_measured(lab, 2), "its speed on both slots", lab.log, 120.0)
        lab.submit("other", "sleep 1000", gpus=1, grace="1s")
        wait_until(lambda: has_measured(lab, 1), "its speed on one", lab.log)
        lab.client.cancel("other")
        wait_until(lambda: resizes(lab) >= 2, "it to grow again", lab.log)
        assert lab.entry("wide").epoch == 1
        lab.down(Farewell.KILL)
        assert min(best_speeds(lab).values()) > 0.0
        resized = [done for done in told(lab, "InstructionDone") if done["verb"] == "resize"]
        assert len(resized) >= 2
        assert all(done["paused_seconds"] is not None for done in resized)
        reports = [one for one in told(lab, "JobReported") if one["job"].endswith("wide")]
        steps = [one["work_done"] for one in reports]
        assert steps == sorted(steps)


def test_a_plain_job_with_a_range_starts_again_at_another_width() -> None:
    """Given back with four slots and taken up with two: it goes on from its own file."""
    with a_lab(slots=4, recipe=ELASTIC, agent=AGENT) as lab:
        lab.start()
        lab.submit("plain", PLAIN, gpus="1..4", grace="2s")
        wait_until(lambda: "3 of 4 after 3" in printed(lab, 1), "four to work", lab.log)
        assert lab.entry("plain").progress.live is None
        lab.down(Farewell.DRAIN)
        lab.options = replace(lab.options, slots=2)
        lab.start()
        wait_until(lambda: all(steps_of(lab, 2, f"{rank} of 2") for rank in (0, 1)), "two to work")
        first, last = min(steps_of(lab, 2, "0 of 2")), max(steps_of(lab, 1, "0 of 4"))
        assert 0 <= first - last - 1 <= 1, "it may have been ended before it told its last one"
        assert live_ever(lab) == {False}


def test_a_plain_job_that_has_to_give_way_comes_back_narrower() -> None:
    with a_lab(slots=4, recipe=ELASTIC, agent=AGENT) as lab:
        lab.start()
        lab.submit("plain", PLAIN, gpus="1..4", grace="2s", preemptible=True)
        wait_until(lambda: "3 of 4 after 3" in printed(lab, 1), "four to work", lab.log)
        lab.submit("urgent", "sleep 1000", gpus=2, priority=10, grace="1s")
        lab.wait_for("urgent", "Running")
        wait_until(lambda: any(line.startswith("1 of 2") for line in printed(lab, 2)), "two to")
        assert [one.gpus for one in lab.history("plain") if one.what == "Starting"] == [4, 2]


# --- what was told and seen ---------------------------------------------------------------------


def told(lab: Lab, kind: str) -> list[dict[str, Any]]:
    """All events of that kind, as they stand in the journals of all terms."""
    found = []
    for path in sorted(lab.folder.glob("journal*.jsonl")):
        entries = JournalFile(path).entries()
        lines = [orjson.loads(entry.line) for entry in entries]
        found += [fields for name, fields, _ in lines if name == kind]
    return found


def has_measured(lab: Lab, gpus: int) -> bool:
    """Often enough that the best of them was not disturbed."""
    return [event["gpus"] for event in told(lab, "JobMeasured")].count(gpus) >= MEASUREMENTS


def best_speeds(lab: Lab) -> dict[int, float]:
    """By width: whatever disturbs a measurement makes it slower."""
    found: dict[int, float] = {}
    for event in told(lab, "JobMeasured"):
        gpus, speed = event["gpus"], event["units_per_second"]
        found[gpus] = max(speed, found.get(gpus, 0.0))
    return found


def live_ever(lab: Lab) -> set[bool]:
    return {bool(event["live"]) for event in told(lab, "JobReported")}


def is_live(lab: Lab) -> bool:
    names: Sequence[str] = ("first", "second", "third")
    ready = all(lab.state(name) == "Running" for name in names)
    return ready and lab.entry("wide").progress.live is True


def resizes(lab: Lab) -> int:
    return sum(one.what == "Resized" for one in lab.history("wide"))


def steps_of(lab: Lab, epoch: int, worker: str) -> list[int]:
    """What a plain script's worker has told so far."""
    return [int(line.split()[-1]) for line in printed(lab, epoch) if line.startswith(worker)]


def printed(lab: Lab, epoch: int) -> list[str]:
    folder = lab.folder / "jobs" / lab.entry("plain").uid / f"epoch-{epoch}" / "logs"
    return [line for log in folder.glob("worker-*.log") for line in log.read_text().splitlines()]
