"""What a container leaves to be read: how it ended, and the few lines that tell why.

Kubernetes keeps four kilobytes of it. People read it too (`kubectl describe pod`), so it is plain
text: a sentence, a mark, what the agent itself saw, then lines of the log with their ranks. Whoever
owns the container can write it, so all of it counts as the program's word, but for two numbers that
can only speak against the job itself: processes killed for want of memory, and a hang.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from weft.failure.lines import Line, Stream, shown
from weft.failure.observed import Hang, MemoryEvents, Observed, Output, Where
from weft.failure.rule import Role
from weft.failure.rulebook import RuleBook

MARK: Final = "weft-evidence/1"
MOST_BYTES: Final = 4000
MOST_NAMED: Final = 12
LAST_LINES: Final = 12

_FRAME = re.compile(r'^\s{0,40}File "[^"]{1,300}", line \d{1,9}, in ')
_KILLS = re.compile(r"memory cgroup: (\d{1,9}) process")
_HANG = re.compile(r"hang: no progress for (\d{1,9}) s \(limit (\d{1,9})\)")


@dataclass(frozen=True, slots=True)
class LastWords:
    """The sentence, and what stands behind the mark; `told` where there is a mark."""

    why: str
    told: bool
    evidence: str

    def observed(self, where: Where) -> Iterator[Observed]:
        """As what it may count: the program's lines, and the two numbers."""
        rest = []
        for text in self.evidence.splitlines():
            if found := _KILLS.match(text):
                yield MemoryEvents(int(found[1]), where=where)
            elif found := _HANG.match(text):
                yield Hang(float(found[1]), float(found[2]), where=where)
            else:
                rest.append(text)
        yield Output("\n".join(rest), where)


def written(why: str, seen: Iterable[Observed], book: RuleBook) -> str:
    """All that is worth the room, the most telling lines in their order."""
    lines = [line for one in seen for line in one.lines()]
    chosen = sorted(_chosen(lines, book))
    text = "\n".join((shown(why), MARK, *(_written(lines[number]) for number in chosen)))
    return text.encode()[:MOST_BYTES].decode(errors="ignore")


def read(text: str) -> LastWords:
    """What somebody left, if it is of this kind or of none."""
    head, mark, rest = text.partition(f"\n{MARK}")
    return LastWords(shown(head.partition("\n")[0]), bool(mark), rest.lstrip("\n"))


def _chosen(lines: Sequence[Line], book: RuleBook) -> set[int]:
    """Lines that rules name, the causes first, each with the frame above it; else the last ones."""
    named = [(rule.role, number) for number, rule in book.matches(lines) if _counts(rule.role)]
    best = [number for _, number in sorted(named, key=lambda pair: pair[0])[:MOST_NAMED]]
    if not best:
        return set(range(max(len(lines) - LAST_LINES, 0), len(lines)))
    frames = (_frame(lines, number) for number in best)
    return {*best, *(number for number in frames if number is not None)}


def _counts(role: Role) -> bool:
    return role is not Role.HINT


def _frame(lines: Sequence[Line], number: int) -> int | None:
    """The innermost frame shown above it by the same rank: it belongs to the fingerprint."""
    for above in range(number - 1, max(number - 40, -1), -1):
        same = lines[above].rank == lines[number].rank
        if same and _FRAME.match(lines[above].text):
            return above
    return None


def _written(line: Line) -> str:
    told = line.stream is Stream.APP and line.rank is not None
    return f"[{line.rank}] {shown(line.text)}" if told else shown(line.text)
