"""The daemon dies at every labelled point; whoever comes after finishes as if it had not.

One story passes all points: an elastic job has the machine, gives half of it to another, gets it
back, and goes on while a third job is cancelled. However often the daemon is killed, no step is
lost or done twice, no job is started a second time, and nothing is left behind.
"""

import re
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.local.daemons import Lab, a_lab, wait_until
from tests.waiting import HANG_SECONDS
from weft.api.errors import NoAnswer, Taken
from weft.local.crash import POINTS
from weft.model.errors import WorldError

RECIPE = "maxmin(spacing=0.05, hold=0.0, min_run=0.0)"
EXPECTED = {
    "elastic": ("SUCCEEDED", 1, "each step once"),
    "rival": ("SUCCEEDED", 1, "each step once"),
    "unwanted": ("CANCELLED", 1, "no step"),
}
SECOND_TIME = ("recorded", "launched", "end-recorded", "before-final", "target-recorded")


def test_the_points_are_the_ones_that_the_code_passes() -> None:
    sources = Path(__file__).parents[2].glob("src/weft/local/**/*.py")
    found = [
        label
        for path in sources
        if path.name != "crash.py"
        for call in re.findall(r"crash\.passing\(([^)]*)\)|labels = (\{[^}]*\})", path.read_text())
        for label in re.findall(r'"([a-z-]+)"', " ".join(call))
    ]
    assert set(found) == set(POINTS)


def test_the_story_undisturbed() -> None:
    assert play("") == EXPECTED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("label", "times"),
    [*((label, 1) for label in POINTS), *((label, 2) for label in SECOND_TIME)],
)
def test_the_story_with_a_crash(label: str, times: int) -> None:
    assert play(f"{label}#{times}") == EXPECTED


def play(crash: str) -> dict[str, tuple[str, int, str]]:
    """The whole story; with `crash`, the first daemon must die of it."""
    with a_lab(slots=2, recipe=RECIPE) as lab:
        lab.start(crash)
        with _Relief(lab, crash):
            submit(lab, "elastic", "model total=100000 step=0.04 live join=0.1", gpus="1..2")
            wait_until(lambda: width(lab, "elastic") == 2, "elastic to have all", lab.log)
            submit(lab, "rival", "model total=12 step=0.05 live", gpus=1)
            lab.wait_for("rival", "Succeeded")
            wait_until(lambda: width(lab, "elastic") == 2, "elastic to grow again", lab.log)
            submit(lab, "unwanted", "model total=100000 step=1000 live", gpus=1)
            lab.wait_for("unwanted", "Running")
            cancel(lab, "unwanted")
            lab.wait_for("unwanted", "Cancelled")
            lab.let_finish("elastic")
            for name in EXPECTED:
                lab.wait_for(name, "Succeeded", "Cancelled", "Failed")
        lab.stop()
        assert not lab.leftovers()
        return {name: outcome(lab, name) for name in EXPECTED}


class _Relief:
    """When the first daemon has died of its crash, a second one takes over."""

    def __init__(self, lab: Lab, crash: str) -> None:
        self._lab, self._crash = lab, crash
        self._thread = threading.Thread(target=self._take_over, daemon=True)

    def __enter__(self) -> None:
        if self._crash:
            self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._crash and kind is None:
            self._thread.join(HANG_SECONDS)
            assert not self._thread.is_alive(), f"the daemon never came to {self._crash}"

    def _take_over(self) -> None:
        self._lab.wait_until_dead()
        assert self._lab.status == -9, self._lab.log.read_text()[-3000:]
        self._lab.start()


def submit(lab: Lab, name: str, run: str, **spec: Any) -> None:
    """Until it is taken in: whoever got no answer asks again."""

    def is_in() -> bool:
        try:
            lab.submit(name, run, **spec)
        except Taken:
            return True
        except WorldError:
            return False
        return True

    wait_until(is_in, f"{name} to be taken in", lab.log)


def cancel(lab: Lab, name: str) -> None:
    def is_asked() -> bool:
        try:
            lab.client.cancel(name)
        except (NoAnswer, WorldError):
            return False
        return True

    wait_until(is_asked, f"{name} to be cancelled", lab.log)


def width(lab: Lab, name: str) -> int:
    entry = lab.entry(name)
    return 0 if entry.target else entry.width


def outcome(lab: Lab, name: str) -> tuple[str, int, str]:
    entry = lab.entry(name)
    logs = sorted(lab.folder.glob(f"jobs/{entry.uid}/epoch-*/logs/worker-0.log"))
    steps = [int(line.split()[1]) for log in logs for line in log.read_text().splitlines()]
    exactly = steps == list(range(len(steps)))
    told = "each step once" if exactly and steps else "no step" if exactly else str(steps)
    return entry.state.name, entry.epoch, told
