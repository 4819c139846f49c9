"""`python -m weft.agent.probes [--folder PATH] [NAME…]`: a line of JSON for each.

With `--every SECONDS --well FILE` they are run again and again, and the file is there while all
pass; with `--listen PORT` whoever asks there hears how it stands.
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from weft.agent.probes.listening import Listening
from weft.agent.probes.prober import Prober
from weft.agent.probes.suite import QUICK, as_line, probes_of, ran, run_apart
from weft.agent.probes.watch import watch


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m weft.agent.probes", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where a disk is tried")
    parser.add_argument("names", nargs="*", help=f"which ones; without any: {', '.join(QUICK)}")
    parser.add_argument("--every", type=float, default=0.0, help="seconds; without it, once")
    parser.add_argument("--well", type=Path, help="there while all pass, where they go on")
    parser.add_argument("--listen", type=int, default=0, help="port; without it, nowhere")
    asked = parser.parse_args()
    names = asked.names or QUICK
    if asked.every > 0.0 and asked.well is not None:
        sys.exit(_watch(names, asked))
    good = True
    for probe in probes_of(names, asked.folder):
        found = ran(probe)
        good = good and found.passed
        sys.stdout.write(f"{as_line(found)}\n")
        sys.stdout.flush()
    sys.exit(0 if good else 1)


def _watch(names: Sequence[str], asked: argparse.Namespace) -> int:
    prober = Prober(lambda: run_apart(names, asked.folder))
    with ExitStack() as open_until_then:
        if asked.listen:
            open_until_then.callback(Listening(prober, asked.listen).close)
        return watch(prober, asked.well, asked.every)


if __name__ == "__main__":
    main()
