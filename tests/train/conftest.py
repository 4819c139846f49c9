"""What holds after every test with real processes: nothing of the job is left."""

import os
from collections.abc import Iterator

import pytest

from tests.train import driving

# Real processes at awkward moments take minutes.
collect_ignore = [] if os.environ.get("WEFT_THOROUGH") else ["membership/test_heads_rarely.py"]


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    driving.FOLDERS.clear()
    yield
    found = [left for folder in driving.FOLDERS for left in driving.leftovers(folder)]
    for folder in driving.FOLDERS:
        driving.clear(folder)
    assert not found, f"left behind: {found}"
