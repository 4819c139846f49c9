"""`python -m tools.explore`: search for failures with seeds that no test has.

The tests of the project repeat the same seeds, so that a change is never refused for a defect that
was there before. New seeds are tried here. Of each failure the seed is printed first; then the
input is reduced, where its kind allows that, and written as a test with a fixed seed. Move that
file into `tests/` with the fix. Exit status: 0 where nothing was found, 1 where something was,
2 where nothing was tried.
"""

import argparse
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom
from typing import Final

from tools.explore.kinds import KINDS, Found, Kind

ROOT: Final = Path(__file__).parents[2]
FOUND: Final = ROOT / "build" / "explore"
#: Beyond the seeds that tests name.
FRESH_SEEDS: Final = range(1_000_000_000, 4_000_000_000)
REDUCE_SECONDS: Final = 120.0


@dataclass(slots=True)
class Search:
    """What was tried so far, and what was found."""

    folder: Path
    trials: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    found: list[dict[str, str | int]] = field(default_factory=list)

    def try_seed(self, kind: Kind, seed: int) -> None:
        """Try one seed, and write down how it fails."""
        began = time.monotonic()
        error = failure(kind, seed)
        self.trials[kind.name] += 1
        if error is not None:
            self.keep(kind, Found(kind.name, seed, error))
        self.seconds[kind.name] += round(time.monotonic() - began, 3)  # type: ignore[assignment]

    def keep(self, kind: Kind, found: Found) -> None:
        say(f"{found.kind} seed {found.seed}: {found.title}")
        path = self.folder / f"test_{found.kind.replace('-', '_')}_{found.seed}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(kind.reproducer(found, time.monotonic() + REDUCE_SECONDS), encoding="utf-8")
        say(f"  written as a test: {path}")
        self.found.append(
            {"kind": found.kind, "seed": found.seed, "error": found.title, "test": str(path)}
        )


def failure(kind: Kind, seed: int) -> Exception | None:
    """How the seed fails; None where it passes."""
    try:
        with hang_guard(kind.hang_seconds):
            kind.trial(seed)
    except Exception as error:
        return error
    return None


@contextmanager
def hang_guard(seconds: float) -> Iterator[None]:
    """Raise in the trial when it lasts too long."""

    def too_long(*_: object) -> None:
        raise TimeoutError(f"the trial has not ended after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def main(arguments: Sequence[str]) -> int:
    asked = _parser().parse_args(arguments)
    kinds = [KINDS[name] for name in asked.kind or KINDS]
    search = Search(asked.folder)
    try:
        if asked.seed is not None:
            for kind in kinds:
                search.try_seed(kind, asked.seed)
        else:
            search_for(search, kinds, asked.minutes * 60.0, SystemRandom().choice)
    except KeyboardInterrupt:
        say("interrupted")
    report(search, as_json=asked.output == "json")
    if search.found:
        return 1
    return 0 if search.trials else 2


def search_for(
    search: Search, kinds: Sequence[Kind], seconds: float, choose: Callable[[range], int]
) -> None:
    """Try seeds, always of the kind that has had the least time, until the time is over."""
    end = time.monotonic() + seconds
    seeds = {kind.name: choose(FRESH_SEEDS) for kind in kinds}
    for name, first in seeds.items():
        say(f"{name} from seed {first}")
    while time.monotonic() < end:
        kind = min(kinds, key=lambda kind: search.seconds[kind.name])
        search.try_seed(kind, seeds[kind.name])
        seeds[kind.name] += 1


def report(search: Search, *, as_json: bool) -> None:
    if as_json:
        kinds = {
            name: {"trials": trials, "seconds": round(search.seconds[name], 1)}
            for name, trials in search.trials.items()
        }
        sys.stdout.write(json.dumps({"kinds": kinds, "found": search.found}, indent=2) + "\n")
        return
    for name, trials in search.trials.items():
        sys.stdout.write(f"{name:<12} {trials:>9,} trials  {search.seconds[name]:>9,.1f} s\n")
    sys.stdout.write(f"{len(search.found)} failures found\n")


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _parser() -> argparse.ArgumentParser:
    about = "\n".join(f"  {kind.name:<12} {kind.about}" for kind in KINDS.values())
    parser = argparse.ArgumentParser(
        prog="python -m tools.explore",
        description=f"{__doc__}\nkinds:\n{about}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default 10)")
    parser.add_argument(
        "--kind", action="append", choices=KINDS, metavar="KIND", help="only this; may be repeated"
    )
    parser.add_argument("--seed", type=int, help="try this seed alone")
    parser.add_argument("--folder", type=Path, default=FOUND, help="where failures are written")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
