"""From lines to the one that decides, and what it says.

The first rank to print is often only the first to notice. So what counts is not the order of lines
but what they are: a cause before what confirms one, and that before what others notice of an end.
What the platform did on purpose goes before everything, for then nothing has failed; then what the
kernel says, if it said so shortly before the program's first error; then the program's own words.
Exit statuses decide only where nobody else speaks. A line after which the same rank went on
training was survived, and counts for least, as does what the program itself calls a warning; of two
errors of which one came up while the other was being handled, the later one ended the program, and
an exception that was reported ended it rather than what had merely been printed before.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from weft.failure.classes import FailureClass, NodeAction, Retry
from weft.failure.evidence import Failure
from weft.failure.fingerprint import fingerprint
from weft.failure.lines import Line, Stream, shown
from weft.failure.observed import Observed
from weft.failure.rule import Role, Rule
from weft.failure.rulebook import RuleBook
from weft.failure.tracebacks import tracebacks_in
from weft.model.ids import NodeId

BEFORE_SECONDS: Final = 300.0
SKEW_SECONDS: Final = 5.0
MOST_OTHERS: Final = 5
NO_RULE: Final = "no_signature"

_ON_PURPOSE: Final = frozenset({FailureClass.PREEMPTED, FailureClass.CANCELLED})
_WAITED: Final = frozenset({FailureClass.PEER, FailureClass.HANG})
_PROGRESS = re.compile(
    r"(?i:\b(?:step|epoch|iter|iteration)s?)[ :=#/\[]{1,3}\d|\bit/s\b|\bs/it\b|\d{1,9}/\d{1,9} \["
)
_HANDLING = re.compile(r"During handling of the above exception")
_MILD = re.compile(r".{0,80}?(?<!NCCL )\b(?:WARNING|WARN|INFO|DEBUG)\b")

Weight = tuple[bool, int, bool, float, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """A failure that was looked into: its class, and the line that decided."""

    kind: FailureClass
    rule: str
    says: str
    cure: Retry
    advice: str
    line: str
    fingerprint: str
    stream: Stream | None = None
    node: NodeId | None = None
    node_action: NodeAction = NodeAction.NONE
    rank: int | None = None
    service: str = ""
    others: tuple[str, ...] = ()

    @property
    def failure(self) -> Failure:
        """The same in the words that events use."""
        return Failure(self.kind, str(self), self.node, self.rank)

    def counsel(self, *, given_up: bool) -> str:
        """What to do; where it is not tried again, nobody is told to wait for that."""
        facts = self.kind.facts
        ends = given_up and facts.given_up and self.advice == facts.advice
        return facts.given_up if ends else self.advice

    def __str__(self) -> str:
        return f"{self.says}: {self.line}" if self.line else self.says


@dataclass(frozen=True, slots=True)
class Ranks:
    """Where ranks ran, and how many collectives each has begun where somebody counted."""

    nodes: Mapping[int, NodeId]
    collectives: Mapping[int, int]

    def laggard(self) -> int | None:
        """The only rank that is behind all others."""
        if len(self.collectives) < 2:  # noqa: PLR2004
            return None
        behind = min(self.collectives.values())
        ranks = [rank for rank, count in self.collectives.items() if count == behind]
        return ranks[0] if len(ranks) == 1 else None


NOWHERE = Ranks({}, {})


@dataclass(frozen=True, slots=True)
class _Sign:
    number: int
    line: Line
    rule: Rule
    weight: Weight


def gathered(observed: Iterable[Observed]) -> list[Line]:
    """All lines of all observations; where times are known, in their order."""
    lines = [line for one in observed for line in one.lines()]
    if any(line.at_seconds is None for line in lines):
        return lines
    return sorted(lines, key=lambda line: line.at_seconds or 0.0)


def diagnose(lines: Sequence[Line], book: RuleBook, ranks: Ranks = NOWHERE) -> Diagnosis:
    """What these lines say about an end that was a failure."""
    signs = _signs(lines, list(book.matches(lines)))
    able = [sign for sign in signs if sign.rule.role is not Role.HINT]
    if not able:
        return _unknown(lines, signs)
    best = min(able, key=lambda sign: sign.weight)
    node, rank = _at_fault(best, able, ranks)
    others = dict.fromkeys(s.rule.name for s in signs if s.rule is not best.rule)
    return Diagnosis(
        kind=best.rule.kind,
        rule=best.rule.name,
        says=best.rule.says,
        cure=best.rule.cure,
        advice=best.rule.counsel,
        line=shown(best.line.text),
        fingerprint=fingerprint(best.rule.name, best.line, lines[: best.number]),
        stream=best.line.stream,
        node=node,
        node_action=best.rule.node_action(best.line.stream) if node else NodeAction.NONE,
        rank=rank,
        service=best.rule.service,
        others=tuple(others)[:MOST_OTHERS],
    )


def _signs(lines: Sequence[Line], found: Sequence[tuple[int, Rule]]) -> list[_Sign]:
    """Lines that rules name, each with its weight: less decides."""
    first = _first_error(lines, found)
    named = {number for number, _ in found}
    went_on = _last(_PROGRESS, lines, named)
    handling = _last(_HANDLING, lines, named)
    reports = tracebacks_in(lines if named else ())
    signs = []
    for number, rule in found:
        line = lines[number]
        told = line.stream is Stream.APP
        mild = number in reports.quoted or _MILD.match(line.text) is not None
        survived = told and (mild or number < went_on.get(line.rank, -1))
        handled = told and (
            number < handling.get(line.rank, -1) or reports.goes_before(number, line.rank)
        )
        when = float("inf") if line.at_seconds is None else line.at_seconds
        weight = (survived, _standing(line, rule, first), handled, when, number)
        signs.append(_Sign(number, line, rule, weight))
    return signs


def _standing(line: Line, rule: Rule, first: float | None) -> int:
    if line.stream is Stream.PLATFORM and rule.kind in _ON_PURPOSE and rule.role is Role.ROOT:
        return -2
    if line.stream is Stream.APP or rule.role is not Role.ROOT:
        return rule.role
    at = line.at_seconds
    in_time = at is None or first is None or first - BEFORE_SECONDS <= at <= first + SKEW_SECONDS
    return -1 if in_time else Role.TIE


def _first_error(lines: Sequence[Line], found: Iterable[tuple[int, Rule]]) -> float | None:
    """When a program of the job first said that something is wrong."""
    times = (lines[n].at_seconds for n, _ in found if lines[n].stream is Stream.APP)
    return min((at for at in times if at is not None), default=None)


def _last(what: re.Pattern[str], lines: Sequence[Line], named: set[int]) -> dict[int | None, int]:
    """By rank, the number of the last such line behind the first sign; signs are none."""
    if not named:
        return {}
    begin = min(named)
    return {
        line.rank: number
        for number, line in enumerate(lines[begin:], begin)
        if line.stream is Stream.APP and number not in named and what.search(line.text)
    }


def _at_fault(
    best: _Sign, signs: Iterable[_Sign], ranks: Ranks
) -> tuple[NodeId | None, int | None]:
    """The one node to blame, or none; and the rank that shows it, or the one that decided."""
    line, role = best.line, best.rule.role
    if best.rule.kind in _WAITED or role is Role.CASCADE:
        guilty = ranks.laggard()
    elif line.stream is not Stream.APP and role <= Role.CONFIRM and line.node is not None:
        return line.node, line.rank
    else:
        guilty = _only_rank(best, signs)
    if guilty is None:
        return None, line.rank
    return ranks.nodes.get(guilty) or (line.node if guilty == line.rank else None), guilty


def _only_rank(best: _Sign, signs: Iterable[_Sign]) -> int | None:
    """The rank of the deciding line, if no other shows as much."""
    alike = {sign.line.rank for sign in signs if sign.weight[:2] == best.weight[:2]}
    return best.line.rank if len(alike) == 1 else None


def _unknown(lines: Sequence[Line], signs: Sequence[_Sign]) -> Diagnosis:
    """Nothing decides: the last thing said is kept, for who writes the next rule."""
    last = signs[-1].line if signs else (lines[-1] if lines else Line(""))
    facts = FailureClass.UNKNOWN.facts
    return Diagnosis(
        kind=FailureClass.UNKNOWN,
        rule=NO_RULE,
        says=facts.meaning,
        cure=facts.retry,
        advice=facts.advice,
        line=shown(last.text),
        fingerprint=fingerprint(NO_RULE, last, lines[:-1]),
        stream=last.stream if last.text else None,
        rank=last.rank,
        others=tuple(dict.fromkeys(sign.rule.name for sign in signs))[:MOST_OTHERS],
    )
