"""Lines made harmless: cut, stripped of what steers a terminal, with the rank that they name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.failure.diagnosis import diagnose
from weft.failure.lines import (
    CUT,
    HEAD_CHARS,
    SHOWN_CHARS,
    TAIL_CHARS,
    Line,
    Stream,
    lines_of,
    plain,
    shown,
)
from weft.failure.rulebook import shipped


@given(st.text())
def test_nothing_that_does_not_print_is_left(text: str) -> None:
    assert plain(text).isprintable()
    assert shown(text).isprintable() and len(shown(text)) <= SHOWN_CHARS


@given(st.text(alphabet="\x1b[]0;31mPX^_\x07\\\x9b\x9cab\u202e", max_size=60))
def test_no_sequence_steers_a_terminal(text: str) -> None:
    assert not set(plain(text)) & set("\x1b\x07\x9b\x9c\u202e")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("\x1b[31mRuntimeError\x1b[0m: no", "RuntimeError: no"),
        ("\x1b]0;you are root\x07KeyError: 'a'", "KeyError: 'a'"),
        ("a\tb", "a b"),
        ("\u202eevil", "evil"),
        ("bell\x07", "bell"),
        ("\u00fcber \u4f60\u597d", "\u00fcber \u4f60\u597d"),
    ],
)
def test_what_is_left_is_the_text(raw: str, text: str) -> None:
    assert plain(raw) == text


def test_a_long_line_keeps_its_beginning_and_its_end() -> None:
    line = plain("KeyError" + "x" * 1_000_000 + "the end")
    assert line.startswith("KeyError") and line.endswith("the end")
    assert len(line) == HEAD_CHARS + len(CUT) + TAIL_CHARS


@pytest.mark.parametrize(
    ("raw", "text", "rank"),
    [
        ("[rank3]: KeyError: 'a'", "KeyError: 'a'", 3),
        ("[default12]: KeyError", "KeyError", 12),
        ("[7] KeyError", "KeyError", 7),
        ("4: KeyError", "KeyError", 4),
        ("12:30:01 KeyError", "12:30:01 KeyError", None),
        ("KeyError: 3", "KeyError: 3", None),
    ],
)
def test_the_rank_in_front_of_a_line_is_read(raw: str, text: str, rank: int | None) -> None:
    assert list(lines_of(raw, Line(""))) == [Line(text, rank=rank)]


def test_a_rank_that_is_known_is_not_overruled_by_what_the_line_claims() -> None:
    assert next(lines_of("[rank3]: x", Line("", rank=1))).rank == 1


def test_a_kernel_has_no_ranks() -> None:
    found = next(lines_of("[7] NVRM: x", Line("", Stream.KERNEL)))
    assert (found.text, found.rank) == ("[7] NVRM: x", None)


def test_progress_bars_are_lines_of_their_own() -> None:
    text = " 1%|#\r 2%|#\rTraceback\r\nCUDA out of memory"
    assert [line.text for line in lines_of(text, Line(""))][-1] == "CUDA out of memory"


def test_coloured_errors_are_named_and_shown_without_colour() -> None:
    found = diagnose(
        list(lines_of("\x1b[1;31mModuleNotFoundError\x1b[0m: \x1b[2mapex", Line(""))), shipped()
    )
    assert (found.rule, found.line) == ("import_error", "ModuleNotFoundError: apex")
