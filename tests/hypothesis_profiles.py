"""Hypothesis profiles: `gate` and `fast` repeat the same examples, `explore` draws new ones.

Every profile sets each field that Hypothesis' built-in profiles set. Hypothesis loads its `ci`
profile by itself where the variable `CI` is set, and a profile inherits what it does not set.
"""

import os
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from tests import outside

VARIABLE: Final = "HYPOTHESIS_PROFILE"
EXAMPLES: Final = {"gate": 100, "fast": 10}
EXPLORED_EXAMPLES: Final = 500
DATABASE: Final = Path(__file__).parents[1] / "build" / "explore" / "hypothesis"


def load() -> None:
    """Register the profiles and load the one that the environment names, by default `gate`."""
    for name, examples in EXAMPLES.items():
        settings.register_profile(
            name,
            max_examples=examples,
            derandomize=True,
            database=None,
            # Shared machines are slow at times: no result may depend on how long an example took.
            deadline=None,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow],
        )
    settings.register_profile(
        "explore",
        max_examples=EXPLORED_EXAMPLES,
        derandomize=False,
        database=DirectoryBasedExampleDatabase(DATABASE),
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile(os.environ.get(VARIABLE) or ("fast" if outside.FAST else "gate"))
