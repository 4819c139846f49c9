"""What holds after every test with real processes: nothing of the job is left."""

from collections.abc import Iterator

import pytest

from tests.train import driving


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    driving.FOLDERS.clear()
    yield
    found = [left for folder in driving.FOLDERS for left in driving.leftovers(folder)]
    for folder in driving.FOLDERS:
        driving.clear(folder)
    assert not found, f"left behind: {found}"
