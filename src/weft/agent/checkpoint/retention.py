"""Which checkpoints stay: the last few, and one of every hour.

The last ones serve a restart; more than one, since the newest may turn out to be damaged. The
hourly ones serve a person who finds out late that something went wrong.
"""

from collections.abc import Mapping
from typing import Final

from weft.agent.checkpoint.folders import Folder

LAST: Final = 3
HOUR_SECONDS: Final = 3600.0


def kept(written_seconds: Mapping[Folder, float], *, last: int = LAST) -> set[Folder]:
    """Of the sound ones: the `last` newest, and the newest that was written in each hour."""
    newest = sorted(written_seconds, reverse=True)
    hours: dict[int, Folder] = {}
    for folder in newest:
        hours.setdefault(int(written_seconds[folder] // HOUR_SECONDS), folder)
    return {*newest[:last], *hours.values()}
