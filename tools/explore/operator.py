"""Sequences of changes to queues, namespaces and jobs, and terms of an operator that stumbles."""

import asyncio

from tests.kube.operator.test_tenancy import played
from tests.kube.operator.test_trouble import Trouble
from tools.explore.kinds import Found

SEQUENCES = 10


def trial(seed: int) -> None:
    played(range(seed, seed + SEQUENCES))
    asyncio.run(Trouble(seed).play())


def reproducer(found: Found, until: float) -> str:
    return (
        f'"""Found by `python -m tools.explore --kind operator`: {found.title}"""\n\n'
        "from tools.explore.operator import trial\n\n\n"
        f"def test_operator_of_seed_{found.seed}() -> None:\n"
        f"    trial({found.seed})\n"
    )
