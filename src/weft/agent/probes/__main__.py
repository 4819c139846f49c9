"""`python -m weft.agent.probes [--folder PATH] [NAME…]`: a line of JSON for each."""

import argparse
import sys
from pathlib import Path

from weft.agent.probes.suite import QUICK, as_line, probes_of, ran


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m weft.agent.probes", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where a disk is tried")
    parser.add_argument("names", nargs="*", help=f"which ones; without any: {', '.join(QUICK)}")
    asked = parser.parse_args()
    good = True
    for probe in probes_of(asked.names or QUICK, asked.folder):
        found = ran(probe)
        good = good and found.passed
        sys.stdout.write(f"{as_line(found)}\n")
        sys.stdout.flush()
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
