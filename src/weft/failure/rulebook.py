"""A book of rules, and how a line finds the one that fits.

Nearly all lines of a log tell of progress. A line is searched for the words of all patterns first,
which a computer does quickly, and a pattern is tried only where one of its words stands.
"""

import re
import tomllib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from weft.failure.classes import FailureClass, NodeAction, Retry
from weft.failure.lines import Line, Stream, plain, unranked
from weft.failure.pattern import pattern
from weft.failure.rule import Role, Rule
from weft.model.errors import SpecError

SHIPPED: Final = "rules.toml"
BLOCK_LINES: Final = 512

_LINE_END = re.compile("\n")


class RuleBook:
    """Rules in order: the first that fits names a line."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self.by_name = {rule.name: rule for rule in self.rules}
        if len(self.by_name) < len(self.rules):
            names = [rule.name for rule in self.rules]
            twice = next(name for name in names if names.count(name) > 1)
            raise SpecError(f"two rules are called {twice}", hint="give each a name of its own")
        self._words = _by_word(self.rules)
        self._gates = {stream: _gate(self._words, self.rules, stream) for stream in Stream}

    def match(self, line: Line) -> Rule | None:
        """The rule that names a line; its text is taken as `lines.plain` leaves it."""
        return next((rule for _, rule in self.matches([line])), None)

    def matches(self, lines: Sequence[Line]) -> Iterator[tuple[int, Rule]]:
        """The numbers of lines that a rule names, in order, with the rule."""
        for begin in range(0, len(lines), BLOCK_LINES):
            block = lines[begin : begin + BLOCK_LINES]
            suspects = {n for stream in Stream for n in self._suspects(block, stream)}
            for number in sorted(suspects):
                if (rule := self._tried(block[number])) is not None:
                    yield begin + number, rule

    def _suspects(self, block: Sequence[Line], stream: Stream) -> Iterator[int]:
        """Numbers of lines of that stream in which a word of its rules stands.

        All lines are searched for one word at a time: that is one fast pass over their text.
        """
        mine = [number for number, line in enumerate(block) if line.stream is stream]
        if not mine:
            return
        text = "\n".join(block[number].text for number in mine).casefold()
        ends = [found.start() for found in _LINE_END.finditer(text)]
        for word in self._gates[stream]:
            at = text.find(word)
            while at >= 0:
                which = bisect_left(ends, at)
                yield mine[which]
                at = text.find(word, ends[which]) if which < len(ends) else -1

    def _tried(self, line: Line) -> Rule | None:
        folded = line.text.casefold()
        found = {one for word, tries in self._words.items() if word in folded for one in tries}
        for number, which in sorted(found):
            rule = self.rules[number]
            if line.stream in rule.streams and rule.patterns[which].compiled.search(line.text):
                return rule
        return None

    def with_rules(self, rules: Iterable[Rule]) -> "RuleBook":
        """With others in front, which may take over what was named otherwise so far."""
        own = tuple(rules)
        for rule in own:
            if rule.name in self.by_name:
                raise SpecError(
                    f"a built-in rule is called {rule.name}",
                    hint="call yours otherwise: it is tried first all the same",
                )
        book = RuleBook([*own, *self.rules])
        book.check(own)
        return book

    def check(self, rules: Iterable[Rule] = ()) -> None:
        """Every example (of these rules) is named by its own one, on every stream that it has."""
        for rule in tuple(rules) or self.rules:
            for example in rule.examples:
                for stream in sorted(rule.streams):
                    self._check_example(rule, example, stream)

    def _check_example(self, rule: Rule, example: str, stream: Stream) -> None:
        found = self.match(Line(unranked(plain(example))[0], stream))
        if found is not rule:
            taken = f"is named {found.name} by another rule" if found else "does not fit it"
            raise SpecError(
                f"rule {rule.name}: its example {example!r} {taken}",
                hint="change the pattern, or give a line that it is meant for",
            )


@cache
def shipped() -> RuleBook:
    """Weft's own rules."""
    text = files("weft.failure").joinpath(SHIPPED).read_text("utf-8")
    return RuleBook(map(rule_of, tomllib.loads(text)["rule"]))


def rule_of(fields: Mapping[str, Any]) -> Rule:
    """A rule from plain values whose kinds have been checked."""
    given = dict(fields)
    return Rule(
        name=given.pop("name"),
        says=given.pop("says"),
        kind=FailureClass(given.pop("kind")),
        patterns=tuple(map(pattern, given.pop("patterns"))),
        examples=tuple(given.pop("examples")),
        role=Role[given.pop("role", "root").upper()],
        streams=frozenset(map(Stream, given.pop("streams", ["app"]))),
        node=NodeAction[given.pop("node").upper()] if "node" in given else None,
        retry=Retry(given.pop("retry")) if "retry" in given else None,
        **given,
    )


Tries = list[tuple[int, int]]


def _by_word(rules: tuple[Rule, ...]) -> dict[str, Tries]:
    """For each word the patterns that need it, by the number of their rule and their own."""
    found: dict[str, Tries] = {}
    for number, rule in enumerate(rules):
        for which, one in enumerate(rule.patterns):
            for word in one.words:
                found.setdefault(word, []).append((number, which))
    return found


def _gate(words: Mapping[str, Tries], rules: tuple[Rule, ...], stream: Stream) -> tuple[str, ...]:
    """Words of which one is in every line that a rule of this stream could name; the fewest."""
    needed = [
        word for word, tries in words.items() if any(stream in rules[n].streams for n, _ in tries)
    ]
    kept: list[str] = []
    for word in sorted(needed, key=len):
        if not any(shorter in word for shorter in kept):
            kept.append(word)
    return tuple(kept)
