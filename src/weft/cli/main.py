"""`weft`: the console script. Whoever only asks what there is waits for no parser."""

import os
import sys

from weft.cli.front import front_page

ASKS_FOR_HELP: list[list[str]] = [[], ["-h"], ["--help"]]


def main(args: list[str] | None = None) -> None:
    """What the words say, and the exit status that comes of it."""
    words = sys.argv[1:] if args is None else args
    if words in ASKS_FOR_HELP and "_WEFT_COMPLETE" not in os.environ:
        sys.stdout.write(front_page(_columns()) + "\n")
        return
    from weft.cli.root import run

    run(words)


def _columns() -> int:
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns
    except (OSError, ValueError):
        return 80


if __name__ == "__main__":
    main()
