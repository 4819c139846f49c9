"""Patterns of the safe kind: what is refused, which words are found, and that work is bounded."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.failure.counted import steps_of
from weft.failure.pattern import MOST_STEPS, pattern
from weft.model.errors import SpecError


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has 0 characters"),
        ("word" * 600, "characters"),
        ("word.*", "without a bound"),
        ("word.+", "without a bound"),
        (r"word\d{3,}", "without a bound"),
        ("(?:word){2,9}", "repeats a group"),
        ("(?:word|wort){0,3}", "repeats a group"),
        ("word.{0,40}{0,40}", "repeats a repetition"),
        ("word.{0,40}?", "repeats a repetition"),
        ("word.{0,999}", "repeats 999 times"),
        ("(word)", "group of another kind"),
        ("(?=word)", "group of another kind"),
        ("(?P<a>word)", "group of another kind"),
        (r"word\1", "uses"),
        (r"\Aword", "uses"),
        ("word\\", "ends with a backslash"),
        ("word)", "not opened"),
        ("(?:word", "leaves a group open"),
        ("word[ab", "leaves a set open"),
        ("*word", "repeats nothing"),
        ("word|", "without a plain word"),
        ("word|abc", "without a plain word"),
        (r"\d{1,9}", "without a plain word"),
        ("(?:word)?", "without a plain word"),
        (".{0,200}.{0,200}word", "steps at one place"),
        ("a.{0,90}b.{0,90}c.{0,90}word", "steps at one place"),
        ("word[z-a]", "no regular expression"),
    ],
)
def test_what_could_run_away_or_is_no_pattern_is_refused_with_a_hint(text: str, told: str) -> None:
    with pytest.raises(SpecError, match=re.escape(told)) as raised:
        pattern(text)
    assert raised.value.hint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("No such file", {"no such file"}),
        ("[Ff]ailed to (?:save|write)", {"failed to "}),
        ("CUDA|cudaError", {"cuda", "cudaerror"}),
        (r"\b403\b.{0,40}Forbidden", {"forbidden"}),
        ("(?i:Link DOWN)", {"link down"}),
        ("colou?red", {"colo"}),
        (r"Error\(s\) in", {"error(s) in"}),
        ("x(?:alpha|beta)y", {"alpha", "beta"}),
        ("x(?:alpha|b)y.{0,3}gamma", {"gamma"}),
    ],
)
def test_the_words_of_a_pattern_are_found(text: str, words: set[str]) -> None:
    assert set(pattern(text).words) == words


def test_words_that_exclude_each_other_do_not_multiply_the_work() -> None:
    apart = pattern("(?:wandb|kafka).{0,60}gone missing").steps
    assert apart < pattern("(?:wandb|wandb2).{0,60}gone missing").steps


PIECES = st.sampled_from(
    ["word", "(?:alpha|beta)", ".{0,20}", r"\d{1,6}", "[^:]{0,9}", "(?:x ?y)?", r"\b", "a", "[Ee]"]
)
LINE_CHARS = 100
LETTERS = st.sampled_from(["word", "alpha", "beta", "x y", "a", "E", "7", ":", " ", "aaaa", "wor"])


@given(st.lists(PIECES, min_size=1, max_size=5), st.lists(LETTERS, min_size=1, max_size=6))
def test_a_line_that_fits_holds_one_of_the_words(pieces: list[str], letters: list[str]) -> None:
    try:
        one = pattern("".join(pieces))
    except SpecError:
        return
    line = "".join(letters)
    if one.compiled.search(line):
        assert any(word in line.casefold() for word in one.words)


@given(st.lists(PIECES, min_size=1, max_size=6), st.lists(LETTERS, min_size=1, max_size=3))
def test_a_search_takes_no_more_steps_than_counted_in_advance(
    pieces: list[str], letters: list[str]
) -> None:
    try:
        one = pattern("".join(pieces))
    except SpecError:
        return
    unit = "".join(letters)
    line = (unit * LINE_CHARS)[:LINE_CHARS]
    found, steps = steps_of(one.text, line)
    assert found == bool(one.compiled.search(line)), "the counter is a matcher of the same kind"
    assert steps <= 2 * one.steps * LINE_CHARS, one.text  # twice: a first letter fits more often
    assert one.steps <= MOST_STEPS


def test_the_counter_sees_patterns_that_run_away() -> None:
    line = "a" * LINE_CHARS
    (_, refused), (_, accepted) = (steps_of(text, line) for text in (".{0,90}.{0,90}word", "aword"))
    assert refused > 1_000 * accepted
