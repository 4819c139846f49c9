"""A matcher that counts its steps, for the patterns that `weft.failure.pattern` accepts.

It tries what `re` tries, in the same order, and finds the same. A step is one comparison of a
letter of the line with one place of the pattern.
"""

import re
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

#: From one place of the line, the places where a part of the pattern can end, in order.
Matcher = Callable[[int], Iterator[int]]

PLACES = {"AT_BEGINNING": r"\A", "AT_END": r"$", "AT_BOUNDARY": r"\b"}
CATEGORIES = {
    f"CATEGORY_{negation}{name}": f"\\{sign.upper() if negation else sign}"
    for name, sign in (("DIGIT", "d"), ("WORD", "w"), ("SPACE", "s"))
    for negation in ("", "NOT_")
}


def steps_of(pattern: str, line: str) -> tuple[bool, int]:
    """Whether a search finds the pattern in the line, and how many steps that takes."""
    counter = _Counter(line)
    matches = counter.sequence(_parsed(pattern), ignores_case=False)
    found = any(True for at in range(len(line) + 1) for _ in matches(at))
    return found, counter.steps


@cache
def _parsed(pattern: str) -> list[Any]:
    return list(parser.parse(pattern))


class _Counter:
    def __init__(self, line: str) -> None:
        self.line, self.steps = line, 0

    def sequence(self, parts: Sequence[Any], *, ignores_case: bool) -> Matcher:
        if not parts:
            return lambda at: iter((at,))
        first = self._part(parts[0], ignores_case)
        if len(parts) == 1:
            return first
        others = self.sequence(parts[1:], ignores_case=ignores_case)
        return lambda at: (end for behind in first(at) for end in others(behind))

    def _part(self, part: Any, ignores_case: bool) -> Matcher:  # noqa: ANN401 - a parser's tuple
        match str(part[0]), part[1]:
            case "AT", place:
                return self._place(str(place))
            case "SUBPATTERN", (_, added, _, inside):
                inner = bool(added & re.IGNORECASE) or ignores_case
                return self.sequence(list(inside), ignores_case=inner)
            case "BRANCH", (_, ways):
                each = [self.sequence(list(way), ignores_case=ignores_case) for way in ways]
                return lambda at: (end for way in each for end in way(at))
            case "MAX_REPEAT", (least, most, inside):
                once = self.sequence(list(inside), ignores_case=ignores_case)
                return self._repeated(once, int(least), int(most))
            case _:
                return self._letter(part, ignores_case)

    def _place(self, place: str) -> Matcher:
        compiled = re.compile(PLACES[place])
        return lambda at: iter((at,) if compiled.match(self.line, at) else ())

    def _repeated(self, once: Matcher, least: int, most: int) -> Matcher:
        """Of a single letter often, or of a group at most once."""

        def ends(at: int) -> Iterator[int]:
            if most == 1:
                yield from once(at)
                if least == 0:
                    yield at
                return
            reached = [at]
            while len(reached) <= most and (behind := next(once(reached[-1]), None)) is not None:
                reached.append(behind)
            yield from reversed(reached[least:])

        return ends

    def _letter(self, part: Any, ignores_case: bool) -> Matcher:  # noqa: ANN401
        allowed = {one for one in set(self.line) if _is(part, one, ignores_case)}

        def ends(at: int) -> Iterator[int]:
            if at < len(self.line):
                self.steps += 1
                if self.line[at] in allowed:
                    yield at + 1

        return ends


def _is(part: Any, letter: str, ignores_case: bool) -> bool:  # noqa: ANN401
    """Whether a place of a pattern allows this letter."""
    both = {letter, letter.swapcase()} if ignores_case else {letter}
    return any(_allows(part, ord(one)) for one in both if len(one) == 1)


def _allows(part: Any, code: int) -> bool:  # noqa: ANN401
    match str(part[0]), part[1]:
        case "ANY", _:
            return code != ord("\n")
        case "LITERAL", wanted:
            return bool(code == wanted)
        case "NOT_LITERAL", unwanted:
            return bool(code != unwanted)
        case "RANGE", (low, high):
            return bool(low <= code <= high)
        case "CATEGORY", category:
            return re.fullmatch(CATEGORIES[str(category)], chr(code)) is not None
        case "IN", each:
            negated = str(each[0][0]) == "NEGATE"
            return negated != any(_allows(one, code) for one in each[negated:])
        case kind, _:
            raise ValueError(f"{kind} is not of the safe kind")
