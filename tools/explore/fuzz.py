"""Job files that are bent and torn; a failing one is reduced to the fields that it needs."""

import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from typing import Any, Final

from tests.kube.resources.fuzzing import check_spec, check_text
from tests.spec.hostile import Spec, specs, texts
from tools.explore.kinds import Found

SPECS: Final = 100
TEXTS: Final = 50


def trial(seed: int) -> None:
    for spec in specs(Random(seed), SPECS):
        check_spec(spec)
    for text in texts(Random(seed), TEXTS):
        check_text(text)


def reproducer(found: Found, until: float) -> str:
    for spec in specs(Random(found.seed), SPECS):
        if (error := _error(check_spec, spec)) is not None:
            return _source(found, "check_spec", _reduced(spec, type(error), until))
    failing = [text for text in texts(Random(found.seed), TEXTS) if _error(check_text, text)]
    return _source(found, "check_text", failing[0])


def _source(found: Found, check: str, given: object) -> str:
    return (
        f'"""Found by `python -m tools.explore --kind fuzz`: {found.title}"""\n\n'
        f"from tests.kube.resources.fuzzing import {check}\n\n\n"
        f"def test_job_file_{found.seed}() -> None:\n"
        f"    {check}({given!r})\n"
    )


def _error(check: Callable[[Any], object], given: object) -> Exception | None:
    try:
        check(given)
    except Exception as error:
        return error
    return None


def _reduced(spec: Spec, kind: type[Exception], until: float) -> Spec:
    """The spec without every field that the failure does not need."""
    smaller = True
    while smaller and time.monotonic() < until:
        smaller = False
        for shorter in _without_one_field(spec):
            if isinstance(_error(check_spec, shorter), kind):
                spec, smaller = shorter, True
                break
    return spec


def _without_one_field(spec: Spec) -> Iterator[Spec]:
    for name, value in spec.items():
        yield {key: inner for key, inner in spec.items() if key != name}
        if isinstance(value, dict):
            for inner in _without_one_field(value):
                yield {**deepcopy(spec), name: inner}
