"""`docs/reasons.md`, written from the reasons themselves: `python -m weft.lab.reasons_page > …`.

Every reason names an anchor in that page; a test holds the page against this text, so that neither
a code nor a sentence can change without its documentation.
"""

import sys
from collections.abc import Iterator
from itertools import groupby

from weft.model.reason import ReasonCode

ABOUT = """\
# Why a job waits

Every job that waits has at least one reason, with numbers and a remedy, from the code that made it
wait; `weft why JOB --run DIR` prints all that apply, the most helpful first. Each waiting second is
booked to exactly one cause.

This page is written by `python -m weft.lab.reasons_page`; words in braces are the numbers that a
reason carries.
"""
CAUSES = {
    "quota": "The queue may not hold more.",
    "capacity": "Too few GPUs are free.",
    "fragmentation": "Enough GPUs are free, but not together.",
    "locality": "It could start spread out and waits a little for a closer placement.",
    "constraint": "What it asks for narrows down the places too far.",
    "reservation": "Free GPUs are kept for a job that has been blocked for long.",
    "priority": "Other jobs come first.",
    "health": "GPUs are missing because nodes are out.",
    "backoff": "It waits for a moment: the next round, or the next try.",
    "breaker": "A service that it needs does not answer.",
}


LOCAL = """\
## Of one machine alone

The daemon of [one machine](local.md#when-things-break) has three reasons of its own:
`Capacity.Disk` (its disk is nearly full), `Capacity.Foreign` (processes that are no job's use free
GPUs) and `Health.Probe` (a probe of the machine fails).
"""


def page() -> str:
    return "\n".join([ABOUT, *_sections(), LOCAL])


def _sections() -> Iterator[str]:
    codes = sorted(ReasonCode, key=lambda code: code.cause)
    for cause, members in groupby(codes, key=lambda code: code.cause):
        yield f"## Cause: {cause.label}\n\n{CAUSES[cause.label]}\n"
        for code in members:
            yield _section(code)


def _section(code: ReasonCode) -> str:
    """The explicit anchor is the one that `ReasonCode.anchor` promises."""
    anchor = code.anchor.partition("#")[2]
    return (
        f'<a id="{anchor}"></a>\n\n### {code.slug}\n\n> {_plain(code.sentence)}\n\n'
        f"Remedy: {_plain(code.remedy)}.\n"
    )


def _plain(sentence: str) -> str:
    """`{delay:.0f}` reads as `{delay}`."""
    return sentence.replace(":.0f}", "}").replace(":.2f}", "}")


if __name__ == "__main__":
    sys.stdout.write(page())
