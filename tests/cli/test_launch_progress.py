"""The line that tells how far a job is, and the screen that it shares with the workers."""

from pathlib import Path

import pytest

from weft.agent.messages import Pulse
from weft.cli.launch.progress import Mark, Meter, words
from weft.cli.launch.screen import STDERR, STDOUT, Screen, Source

WIDE = {"COLUMNS": "80", "LINES": "24"}
OUT, ERR = Source(0, 0, STDOUT), Source(0, 0, STDERR)


def pulse(step: int, **metrics: float) -> Pulse:
    return Pulse(1, step, "", 0.0, samples=8 * step, total=300, metrics=metrics)


def test_steps_loss_speed_width_and_time_left() -> None:
    meter = Meter()
    for second in range(30):
        meter.hear(Mark(float(second), steps=4 * second, samples=32 * second))
    assert words(pulse(120, loss=0.43215), meter, width=2, target=2) == (
        "step 120/300  loss 0.4321  32 samples/s  2 workers  45s left"
    )
    assert words(pulse(0), Meter(), width=1, target=3) == "step 0/300  1 of 3 workers"


def test_speed_is_that_of_the_last_seconds_and_of_this_life() -> None:
    meter = Meter()
    meter.hear(Mark(0.0, 0, 0))
    for second in range(100, 105):
        meter.hear(Mark(float(second), 10 * second, 0))
    assert meter.steps_per_second == 10
    meter.hear(Mark(105.0, 7, 0))
    assert meter.steps_per_second == 0


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    monkeypatch.setenv("COLUMNS", "20")
    return Screen(lambda worker: worker == 0, marks=False, live=True)


def test_output_goes_above_the_line_which_is_cut_to_the_screen(
    screen: Screen, capfd: pytest.CaptureFixture[str]
) -> None:
    screen.draw("step 1/300 and much more")
    screen.write(OUT, b"epoch 1\n")
    screen.write(Source(1, 1, STDOUT), b"not shown\n")
    screen.close()
    out, err = capfd.readouterr()
    assert out == "epoch 1\n"
    line = "\r\x1b[Kstep 1/300 and much"
    assert err == f"{line}\r\x1b[K{line}\r\x1b[Kstep 1/300 and much more\n"


def test_a_bar_of_the_scripts_own_is_not_drawn_over(
    screen: Screen, capfd: pytest.CaptureFixture[str]
) -> None:
    screen.write(ERR, b"\r10 %|=  |")
    screen.draw("step 1/300")
    assert capfd.readouterr().err == "\r10 %|=  |"
    screen.write(ERR, b"\r99 %|==|\n")
    assert capfd.readouterr().err == "\r99 %|==|\n\r\x1b[Kstep 1/300"
    screen.write(ERR, b"open")
    screen.say("words")
    assert capfd.readouterr().err.endswith("open\nweft: words\n")


def test_of_several_tracebacks_the_first_is_shown_and_a_blamed_one_is_looked_up(
    screen: Screen, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    screen.several = True
    log = tmp_path / "log"
    log.write_text("step 1\nTraceback (most recent call last):\nValueError: hidden\n")
    for source in (Source(1, 1, STDERR), ERR):
        screen.write(source, b"Traceback (most recent call last):\n")
        screen.write(source, b"ValueError: of %d\n" % source.worker)
    assert screen.blame(0, 0, log).worker == 1
    screen.write(ERR, b"Traceback (most recent call last):\n")
    screen.close()
    assert capfd.readouterr().err == (
        "[1] Traceback (most recent call last):\n[1] ValueError: of 1\n"
    )
    other = Screen(lambda worker: worker == 0, marks=False, live=False)
    other.several = True
    other.blame(3, 3, log)
    assert "[3] ValueError: hidden" in capfd.readouterr().err
