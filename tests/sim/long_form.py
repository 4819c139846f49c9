"""`python -m tests.sim.long_form`: a million events and ten thousand faults in random worlds.

Plays worlds that nobody has seen (or those from `--first` on) until there were enough of both and
every kind of fault was met, or until `--seconds` are over. Prints what was met, and of each broken
promise the seed that shows it again. Exit status: 0 if no promise was broken and nothing is
missing, 1 if one was, 2 if the time was too short.

Kinds of fault that belong to other rooms are met there: agents that lie, stop or come twice
(`tests/agent`, `tests/train`), stores that are full, torn or slow (`tests/local`, `tests/agent`),
an API server in bad weather and clocks that jump (`tests/kube`).
"""

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from random import SystemRandom

from tests.sim.hardships import Hardship
from tests.sim.play import Played, play
from tests.sim.random_world import Fault, draw
from tests.sim.troubled import Trouble

EVENTS, FAULTS = 1_000_000, 10_000
NEW_SEEDS = range(1_000_000, 1_000_000_000)  # beyond all that are named anywhere
INJECTED: tuple[str, ...] = (*Fault, *Hardship, Trouble.ILL, Trouble.BAD_NODE, Trouble.OUTAGE)


@dataclass(slots=True)
class Tally:
    """What all worlds came to."""

    first: int
    worlds: int = 0
    events: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    broken: dict[int, str] = field(default_factory=dict)

    @property
    def injected(self) -> int:
        return sum(self.faults.values())

    @property
    def missing(self) -> list[str]:
        return [kind for kind in INJECTED if not self.faults[kind]]

    def add(self, played: Played) -> None:
        self.events += played.events
        for kind in INJECTED:
            self.faults[kind] += played.counts.get(kind, 0) + played.seen.get(kind, 0)  # type: ignore[call-overload]

    def is_enough(self, events: int, faults: int) -> bool:
        return self.events >= events and self.injected >= faults and not self.missing


def main(arguments: list[str]) -> int:
    asked = _parser().parse_args(arguments)
    tally = played_from(
        SystemRandom().choice(NEW_SEEDS) if asked.first is None else asked.first, asked
    )
    sys.stdout.write(as_json(tally) if asked.output == "json" else as_text(tally))
    if tally.broken:
        return 1
    return 0 if tally.is_enough(asked.events, asked.faults) else 2


def played_from(first: int, asked: argparse.Namespace) -> Tally:
    tally, end = Tally(first), time.monotonic() + asked.seconds
    while not tally.is_enough(asked.events, asked.faults) and time.monotonic() < end:
        seed = first + tally.worlds
        tally.worlds += 1
        try:
            tally.add(play(draw(seed)))
        except Exception as broken:
            # Whatever it is: the next world is played, and the seed is told.
            tally.broken[seed] = f"{type(broken).__name__}: {broken}"
    return tally


def as_json(tally: Tally) -> str:
    told = {
        **asdict(tally),
        "faults": dict(tally.faults),  # `asdict` counts the pairs of a counter
        "injected": tally.injected,
        "missing": tally.missing,
    }
    return json.dumps(told, indent=2) + "\n"


def as_text(tally: Tally) -> str:
    lines = [
        f"{tally.worlds:,} worlds from seed {tally.first}: {tally.events:,} events, "
        f"{tally.injected:,} faults, {len(tally.broken)} broken promises",
        *(f"  {count:>8,}  {kind}" for kind, count in sorted(tally.faults.items())),
        *(f"not met: {kind}" for kind in tally.missing),
        *(f"seed {seed}: {what}" for seed, what in tally.broken.items()),
    ]
    if tally.broken:
        lines.append("replay one: python -m tests.sim.replay_seed SEED")
    return "\n".join(lines) + "\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.sim.long_form",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--faults", type=int, default=FAULTS)
    parser.add_argument("--first", type=int, help="the first seed; drawn anew by default")
    parser.add_argument("--seconds", type=float, default=7_200.0, help="stop after so long")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
