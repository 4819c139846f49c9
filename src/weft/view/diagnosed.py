"""Failures as people see them, from what was found; apart, since it takes a while to load."""

from typing import Any

from weft.failure.diagnosis import Diagnosis
from weft.failure.written import read
from weft.view.failures import FailureLine


def failure_line(found: Diagnosis, *, given_up: bool = False, **given: Any) -> FailureLine:
    """What was found, with what its world knows besides."""
    rank = "" if found.rank is None else f" --rank {found.rank}"
    return FailureLine(
        kind=found.kind,
        rule=found.rule,
        says=found.says,
        line=found.line,
        fault=found.kind.facts.fault,
        advice=found.counsel(given_up=given_up),
        rank=found.rank,
        node=found.node,
        log=f"weft logs {given['job']} --epoch {given['epoch']}{rank}",
        **given,
    )


def told_failure(told: object, **given: Any) -> FailureLine | None:
    """The same of what is on record; None where that is no diagnosis."""
    found = read(told)
    return None if found is None else failure_line(found, **given)
