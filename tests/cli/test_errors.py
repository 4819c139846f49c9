"""What goes wrong goes to standard error, with a hint, and with the status it deserves."""

from pathlib import Path

import pytest

from tests.cli.called import Weft
from tests.local.daemons import wait_until
from weft.cli.terminal import waiting
from weft.cli.terminal.screen import tell

SMALL = ("--jobs", "5", "--cluster", "1x8")


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (("simulat",), "no command 'simulat'", "weft --help"),
        (("frobnicate",), "no command 'frobnicate'", "weft --help"),
        (("trace", "shows"), "no command 'shows'. Did you mean 'show'?", "weft trace --help"),
        (("simulate", "--seed", "x"), "'x' is not a valid integer", "weft simulate --help"),
        (("simulate", "-r", "lass"), "no recipe 'lass'", "did you mean 'las'?"),
        (("simulate", "-r", "las(x=1)"), "no parameter 'x'", "parameters: hold"),
        (("simulate", "--cluster", "many"), "'many' is no cluster", "52x8"),
        (("simulate", "--costs", "dear"), "no costs 'dear'", "tacc"),
        (("simulate", "no-such.csv"), "no-such.csv", ""),
        (("simulate", "a.csv", "--jobs", "5"), "for a generated workload", "leave"),
        (("simulate", "--load", "1", "--days", "2"), "two things", "one of them"),
        (("compare", "--seeds", "a"), "no whole numbers", "weft compare --help"),
        (("compare", "-r", "las,las"), "given twice", "once"),
        (("why", "job-0", "--at", "5"), "--at is for a recorded run", "weft why --help"),
        (("why", "job-0", "--run", "nowhere"), "holds no journal", "simulate --out"),
    ],
)
def test_usage(weft: Weft, words: tuple[str, ...], message: str, hint: str) -> None:
    called = weft(*words)
    assert called.status == 2
    assert called.out == ""
    first, _, rest = called.err.partition("\nhint: ")
    assert first.startswith("error: ")
    assert message in first
    assert hint in rest


def test_a_folder_is_not_written_over(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    assert weft("simulate", *SMALL, "--out", tmp_path).status == 2
    assert weft("simulate", *SMALL, "--out", tmp_path, "--force").status == 0


def test_a_journal_that_cannot_be_read_is_status_1(weft: Weft, tmp_path: Path) -> None:
    called = weft("replay", tmp_path / "none")
    assert called.status == 1
    assert called.err.startswith("error: ")


def test_an_error_without_a_hint_prints_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert tell("it broke", status=7) == 7
    assert capsys.readouterr().err == "error: it broke\n"


def test_an_interrupt_has_its_own_status(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("weft.lab.experiment.run", interrupt)
    assert weft("simulate", *SMALL).status == 130


def test_no_colour_in_a_pipe_nor_on_demand(weft: Weft) -> None:
    assert "\x1b" not in weft("--no-color", "recipes").out
    assert "\x1b" not in weft("recipes").out


@pytest.mark.parametrize(("patience", "drawn"), [(60.0, False), (0.01, True)])
def test_a_bar_appears_by_itself_before_anything_is_counted(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    patience: float,
    drawn: bool,
) -> None:
    assert waiting.PATIENCE_SECONDS < 1.0
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(waiting, "PATIENCE_SECONDS", patience)
    with waiting.waiting("weaving") as progress:
        assert isinstance(progress, waiting.Bar)
        if drawn:
            wait_until(lambda: progress.is_drawn, "the bar")
        progress(2, 4)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert ("weaving" in captured.err) is drawn


def test_without_a_terminal_there_is_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting.waiting("weaving") as progress:
        progress(1, 4)
    assert capsys.readouterr().err == ""
