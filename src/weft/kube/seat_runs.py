"""The seats of a wide job, written in a few lines that a person can read.

    numbers: 0..511    nodes: node-[0000..0511]    gpus: 8    cpus: 64    memoryGib: 476.5

Seats that follow each other in rank and are of one size make a run. What the names of its nodes
share stands once; what is between is a list in rank order, `a..b` counts up, `*2` says twice. Ten
thousand seats in the plain form are 1.1 MB, which nobody can read and hardly a server will store.
Jobs of few seats stay in the plain form, which every version reads.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, takewhile
from typing import Any, Final

Plain = Mapping[str, Any]

FEW: Final = 128  # seats; up to here the plain form is small enough
SIZE: Final = ("gpus", "cpus", "memoryGib")
FOLDED: Final = re.compile(r"(?P<before>[^\[]*)\[(?P<list>[^\]]*)\](?P<after>.*)", re.DOTALL)
ITEM: Final = re.compile(r"(?P<first>.*?)(?:\.\.(?P<last>\d+))?(?:\*(?P<times>\d+))?", re.DOTALL)
MARKS: Final = re.compile(r"[\[\],*]|\.\.")
MOST_SEATS: Final = 1_000_000  # a list that claims more is no list of ours


def runs_of(seats: Sequence[Plain]) -> list[dict[str, Any]] | None:
    """The runs of these, if they are many and it makes them fewer."""
    if len(seats) <= FEW or any(MARKS.search(seat["node"]) for seat in seats):
        return None
    runs = [
        {
            "numbers": _listed([str(seat["number"]) for seat in run]),
            "nodes": folded([seat["node"] for seat in run]),
            **dict(zip(SIZE, size, strict=True)),
        }
        for size, run in _by_size(seats)
    ]
    return runs if len(runs) <= len(seats) // 4 else None


def seats_of(decision: Plain) -> list[Plain]:
    """The seats of a decision in the plain form, whichever it is written in."""
    runs = decision.get("runs")
    if not runs:
        return list(decision.get("seats") or ())
    return [seat for run in runs for seat in _seats(run)]


def folded(names: Sequence[str]) -> str:
    """What they share, and between brackets what they do not, in their order."""
    before = re.sub(r"\d+$", "", _shared_start(names))
    left = [name[len(before) :] for name in names]
    after = re.sub(r"^\d+", "", _shared_start([rest[::-1] for rest in left])[::-1])
    middles = [rest[: len(rest) - len(after)] for rest in left]
    return f"{before}[{_listed(middles)}]{after}"


def unfolded(text: str) -> list[str]:
    """The names again."""
    found = FOLDED.fullmatch(text)
    if found is None:
        return [text]
    return [f"{found['before']}{middle}{found['after']}" for middle in _unlisted(found["list"])]


def _shared_start(names: Sequence[str]) -> str:
    """What the first and the last in order share, all share."""
    first, last = min(names), max(names)
    shared = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return first[: len(list(shared))]


def _by_size(seats: Sequence[Plain]) -> Iterator[tuple[tuple[Any, ...], list[Plain]]]:
    for size, run in groupby(seats, key=lambda seat: tuple(seat[name] for name in SIZE)):
        yield size, list(run)


def _seats(run: Plain) -> list[Plain]:
    size = {name: run[name] for name in SIZE if name in run}
    numbers, nodes = _unlisted(run["numbers"]), unfolded(run["nodes"])
    return [
        {"number": int(number), "node": node, **size}
        for number, node in zip(numbers, nodes, strict=True)
    ]


def _listed(words: Sequence[str]) -> str:
    """`0..3,7*2,x`: numbers that count up as a range, what is repeated once."""
    items: list[tuple[str, str, int]] = []  # first, last, times
    for word, same in groupby(words):
        times = len(list(same))
        if items and _follows(items[-1], word, times):
            items[-1] = (items[-1][0], word, times)
        else:
            items.append((word, word, times))
    return ",".join(_item(*item) for item in items)


def _follows(item: tuple[str, str, int], word: str, times: int) -> bool:
    first, last, before = item
    if before != times or not (_is_number(first) and _is_number(last)):
        return False
    return word == str(int(last) + 1).zfill(len(first))


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit()


def _item(first: str, last: str, times: int) -> str:
    text = first if first == last else f"{first}..{last}"
    return text if times == 1 else f"{text}*{times}"


def _unlisted(text: str) -> list[str]:
    words: list[str] = []
    for item in text.split(","):
        found = ITEM.fullmatch(item)
        assert found is not None
        times = int(found["times"] or 1)
        once = list(_counted(found["first"], found["last"]))
        if len(words) + times * len(once) > MOST_SEATS:
            raise ValueError(f"more than {MOST_SEATS:,} seats: {text[:40]}")
        words += [word for word in once for _ in range(times)]
    return words


def _counted(first: str, last: str | None) -> Iterator[str]:
    if last is None:
        yield first
        return
    if int(last) - int(first) >= MOST_SEATS:
        raise ValueError(f"more than {MOST_SEATS:,} seats: {first}..{last}")
    for number in range(int(first), int(last) + 1):
        yield str(number).zfill(len(first))
