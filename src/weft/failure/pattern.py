"""Patterns that cannot run away: a part of Python's regular expressions, measured before use.

A backtracking matcher can be made to work for minutes by one line. Here every repetition has a
bound, groups are repeated once at most, nothing looks around or back, and what is left is counted:
how many steps one place of a line can cost at worst. A pattern that could cost more is refused, as
is one without a plain word in each of its alternatives: lines are first searched for those words,
and a pattern is only tried where one of them is.

Two figures of a part are followed while it is read. Its `steps` bound the work at one place. Its
`ways` bound in how many places it can end, which multiplies whatever follows; but a word behind a
gap fits at fewer places than the gap has, at most one for each `period` of the word.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NoReturn

from weft.model.errors import SpecError

MOST_CHARS: Final = 2_000
MOST_REPEATS: Final = 200
MOST_STEPS: Final = 1_000
LEAST_WORD: Final = 4

_SETS: Final = frozenset("dwsDWSb")
_SPECIAL: Final = frozenset("|)")
_BOUNDS = re.compile(r"\{(\d{1,4})(?:,(\d{1,4}))?\}")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern, the words of which one stands in every line that fits, and its cost."""

    text: str
    compiled: re.Pattern[str]
    words: tuple[str, ...]
    steps: float


def pattern(text: str) -> Pattern:
    """Read and measured; SpecError where it is not of the safe kind."""
    if not text or len(text) > MOST_CHARS:
        _refuse(text[:60], f"has {len(text)} characters", f"write 1 to {MOST_CHARS}")
    parts = _Reader(text).whole()
    steps = sum(max(1.0, part.begins * part.steps) for part in parts)
    words = _together(parts).words
    if words is None:
        _refuse(
            text,
            "has an alternative without a plain word",
            f"give each a word of at least {LEAST_WORD} characters that must be there",
        )
    if steps > MOST_STEPS:
        _refuse(
            text,
            f"could take {steps:,.0f} steps at one place, allowed are {MOST_STEPS:,d}",
            "use shorter gaps, fewer of them, and a plain word in front of the first",
        )
    try:
        compiled = re.compile(text)
    except re.error as error:
        _refuse(text, f"is no regular expression: {error}", "check the brackets and backslashes")
    return Pattern(text, compiled, words, steps)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a pattern: its words, its cost, and the share of places where it can begin."""

    words: tuple[str, ...] | None
    steps: float
    ways: float
    begins: float = 1.0
    exact: str = ""  # what it is, where it is that text and nothing else


_NOTHING = _Part(None, 0.0, 1.0)
_ANY = _Part(None, 1.0, 1.0)
_PLACES = {"^": _Part(None, 0.0, 1.0, 0.001), "$": _NOTHING, ".": _ANY}  # ^ is one place of a line


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def whole(self) -> list[_Part]:
        """Its alternatives."""
        parts = self._alternatives()
        if self.at < len(self.text):
            _refuse(self.text, "closes a group that was not opened", r"write \) for a bracket")
        return parts

    def _alternatives(self) -> list[_Part]:
        found = [self._sequence()]
        while self._take("|"):
            found.append(self._sequence())
        return found

    def _sequence(self) -> _Part:
        parts: list[_Part] = []
        while self.at < len(self.text) and self.text[self.at] not in _SPECIAL:
            parts.append(self._repeated(self._atom()))
        return _joined(parts)

    def _atom(self) -> _Part:
        letter = self.text[self.at]
        self.at += 1
        if letter in _PLACES:
            return _PLACES[letter]
        if letter == "(":
            return self._group()
        if letter == "[":
            return self._set()
        if letter == "\\":
            return self._escaped()
        if letter in "*+?{":
            _refuse(self.text, f"repeats nothing with {letter!r}", rf"write \{letter} for the sign")
        return _Part(None, 1.0, 1.0, exact=letter.casefold())

    def _group(self) -> _Part:
        if not (self._take("?:") or self._take("?i:")):
            _refuse(self.text, "has a group of another kind than (?: ) or (?i: )", "use (?:…)")
        part = _together(self._alternatives())
        if not self._take(")"):
            _refuse(self.text, "leaves a group open", "close it with )")
        return part

    def _set(self) -> _Part:
        """One letter of several; if they are one letter in both cases, that letter."""
        begin = self.at
        self.at += self.text.startswith("^", self.at)
        self.at += self.text.startswith("]", self.at)
        while self.at < len(self.text) and self.text[self.at] != "]":
            self.at += 2 if self.text[self.at] == "\\" else 1
        if self.at >= len(self.text):
            _refuse(self.text, "leaves a set open", "close it with ]")
        inside = self.text[begin : self.at]
        self.at += 1
        alike = set(inside.casefold())
        letter = alike.pop() if len(alike) == 1 and inside.isalpha() else ""
        return _Part(None, 1.0, 1.0, exact=letter)

    def _escaped(self) -> _Part:
        if self.at >= len(self.text):
            _refuse(self.text, "ends with a backslash", r"write \\ for one")
        letter = self.text[self.at]
        self.at += 1
        if letter == "b":
            return _NOTHING
        if letter in _SETS:
            return _ANY
        if letter.isalnum():
            _refuse(self.text, f"uses \\{letter}", r"only \d \w \s \D \W \S \b are known")
        return _Part(None, 1.0, 1.0, exact=letter)

    def _repeated(self, part: _Part) -> _Part:
        if self._take("?"):
            least, most = 0, 1
        elif bounds := _BOUNDS.match(self.text, self.at):
            self.at = bounds.end()
            least, most = int(bounds[1]), int(bounds[2] or bounds[1])
        elif self.text[self.at : self.at + 1] in ("*", "+", "{"):
            _refuse(self.text, "repeats without a bound", "write {0,40} or {1,40}")
        else:
            return part
        self._check(part, most)
        ways = part.ways * (most - least + 1)
        return _Part(part.words if least else None, max(1.0, part.steps * most), ways)

    def _check(self, part: _Part, most: int) -> None:
        if most > MOST_REPEATS:
            _refuse(self.text, f"repeats {most} times", f"allowed are {MOST_REPEATS}")
        if most > 1 and (part.steps != 1.0 or part.ways != 1.0):
            _refuse(self.text, "repeats a group", "only (?:…)? is allowed; write it out")
        if self.text[self.at : self.at + 1] in ("*", "+", "?", "{"):
            _refuse(self.text, "repeats a repetition", "leave out the second sign")

    def _take(self, sign: str) -> bool:
        there = self.text.startswith(sign, self.at)
        self.at += len(sign) * there
        return there


def _together(parts: list[_Part]) -> _Part:
    """One part or the other."""
    words = [part.words for part in parts]
    known = None if None in words else tuple(word for one in words if one for word in one)
    ways = 1.0 if _exclude_each_other(parts) else sum(part.ways for part in parts)
    begins = min(1.0, sum(part.begins for part in parts))
    return _Part(known, sum(part.steps for part in parts), ways, begins)


def _exclude_each_other(parts: list[_Part]) -> bool:
    """Whether they are words of which no two fit at one place."""
    words = sorted(part.exact for part in parts)
    return all(words) and not any(b.startswith(a) for a, b in pairwise(words))


def _joined(parts: list[_Part]) -> _Part:
    """One part after the other; letters side by side are a word."""
    steps, ways = 0.0, 1.0
    whole = _worded(parts)
    for part in whole:
        steps += ways
        ways = max(1.0, ways * part.begins)
        steps += ways * part.steps
        ways *= part.ways
    begins = next((part.begins for part in whole if part is not _NOTHING), 1.0)
    sure = [part.words for part in whole if part.words and _shortest(part.words) >= LEAST_WORD]
    exact = whole[0].exact if len(whole) == 1 else ""
    return _Part(max(sure, key=_telling, default=None), steps, ways, begins, exact)


def _telling(words: tuple[str, ...]) -> tuple[int, int]:
    return _shortest(words), -len(words)


def _shortest(words: tuple[str, ...]) -> int:
    return min(map(len, words))


def _worded(parts: list[_Part]) -> list[_Part]:
    found: list[_Part] = []
    word = ""
    for part, after in pairwise([*parts, _NOTHING]):
        if len(part.exact) != 1:
            found.append(part)
            continue
        word += part.exact
        if len(after.exact) != 1:
            found.append(_word(word))
            word = ""
    return found


def _word(word: str) -> _Part:
    return _Part((word,), float(len(word)), 1.0, 1.0 / _period(word), word)


def _period(word: str) -> int:
    """How far apart two places at which a word fits are at least."""
    size = len(word)
    return next(shift for shift in range(1, size + 1) if word[shift:] == word[: size - shift])


def _refuse(text: str, what: str, hint: str) -> NoReturn:
    raise SpecError(f"pattern {text!r} {what}", hint=hint)
