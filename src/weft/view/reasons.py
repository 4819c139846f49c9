"""Reasons as people read them: one GPU is not several, and a remedy is something one can do.

Sentences have numbers in them, so what is right for 4 may be wrong for 1, and "ask for no more than
is free" is no advice where nothing is.
"""

import re
from typing import Any, Final

from weft.model.reason import Reason

ONE: Final = re.compile(
    r"(?<![\d.])\b1 ((?:suitable )?(?:GPU|node|rack|job|failure|slot))s\b( are)?"
)
ONE_OF: Final = re.compile(r"(?<![\d.])\b(1 of \d+ (?:suitable )?GPUs) are\b")
CLAUSES: Final = re.compile(r", (?:or )?")
FOR_NONE: Final = re.compile(r"\bat most 0\b|\(0\)")
NEEDS_A_VERB: Final = ("fewer ", "less ", "more ")


def as_json(reason: Reason) -> dict[str, Any]:
    """A reason as worlds write it down and show it."""
    code = reason.code
    return {
        "code": code.slug,
        "cause": code.cause.label,
        "text": counted(reason.text),
        "remedy": possible(reason.remedy),
        "anchor": code.anchor,
    }


def counted(text: str) -> str:
    """`1 GPU is free`, not `1 GPUs are free`."""
    text = ONE.sub(lambda found: f"1 {found[1]}{' is' if found[2] else ''}", text)
    return ONE_OF.sub(r"\1 is", text)


def possible(remedy: str) -> str:
    """Without what would mean to ask for nothing; what is left is joined again."""
    if not FOR_NONE.search(remedy):
        return counted(remedy)
    clauses = [clause for clause in CLAUSES.split(remedy) if not FOR_NONE.search(clause)]
    if not clauses:
        return "wait"
    if clauses[0].startswith(NEEDS_A_VERB):
        clauses[0] = f"ask for {clauses[0]}"
    *first, last = map(counted, clauses)
    return f"{', '.join(first)}, or {last}" if first else last
