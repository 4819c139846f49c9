"""A training job that changes plans while workers and the daemon are killed at moments of a seed.

Each step must have the samples that an undisturbed run gives it, whatever happens.
"""

import os
import signal
import time
from contextlib import suppress
from random import Random
from typing import Final

from tests.local.daemons import Lab
from tests.local.test_plan_cycle import check_samples, comes, lines_in_the_end, trains, workers
from tools.explore.kinds import Found

TROUBLES: Final = 4
MOST_PAUSE_SECONDS: Final = 2.0


def trial(seed: int) -> None:
    random = Random(seed)
    others = [f"other{number}" for number in range(random.randint(0, 2))]
    with trains(others=len(others)) as lab:
        for number in range(TROUBLES):
            time.sleep(random.uniform(0.0, MOST_PAUSE_SECONDS))
            trouble = random.choice((other_arrives, other_leaves, worker_dies, daemon_dies))
            trouble(lab, others, f"more{number}")
        lines = lines_in_the_end(lab)
    check_samples(lines)


def other_arrives(lab: Lab, others: list[str], name: str) -> None:
    others.append(name)
    comes(lab, name, 1)


def other_leaves(lab: Lab, others: list[str], _: str) -> None:
    if others:
        lab.client.cancel(others.pop())


def worker_dies(lab: Lab, *_: object) -> None:
    for pid in workers(lab)[-1:]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def daemon_dies(lab: Lab, *_: object) -> None:
    lab.kill()
    lab.start()


def reproducer(found: Found, until: float) -> str:
    return (
        f'"""Found by `python -m tools.explore --kind plan-cycles`: {found.title}"""\n\n'
        "from tools.explore.plan_cycles import trial\n\n\n"
        f"def test_plan_cycle_of_seed_{found.seed}() -> None:\n"
        f"    trial({found.seed})\n"
    )
