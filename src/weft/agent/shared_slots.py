"""Slots for snapshots in a folder that the pods of a job share, one below it for each start."""

import shutil
from contextlib import suppress

from weft.agent.settings import Settings


def clear(settings: Settings, *, earlier: bool = False) -> None:
    """Those of this start, and at its begin those that earlier ones have left."""
    mine = settings.shared_slots
    if mine is None:
        return
    for folder in list(mine.parent.glob("inc-*")) if earlier else [mine]:
        number = folder.name.removeprefix("inc-")
        if number.isdecimal() and int(number) <= settings.incarnation:
            shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        mine.parent.rmdir()
