"""What lies below a root, by name: `step-<n>.inc-<i>` is a checkpoint of incarnation i.

While it is being written it is called `.tmp-<i>`, and while it is being deleted `.old-<i>`; so what
is called a checkpoint was once complete. Two incarnations that reach the same step do not overwrite
each other: the newer one is preferred.
"""

import os
import re
import shutil
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

_PATTERN: Final = re.compile(r"step-(0|[1-9][0-9]{0,14})\.(inc|tmp|old)-(0|[1-9][0-9]{0,14})")


class Kind(StrEnum):
    """In which part of its life a folder is."""

    WHOLE = "inc"
    GROWING = "tmp"
    GOING = "old"


@dataclass(frozen=True, slots=True, order=True)
class Folder:
    """A folder below the root; the newer the greater."""

    step: int
    incarnation: int
    kind: Kind = Kind.WHOLE

    @property
    def name(self) -> str:
        return f"step-{self.step}.{self.kind}-{self.incarnation}"

    def become(self, kind: Kind, root: int) -> "Folder":
        """Rename it, in one instant; only rubbish can have had that name."""
        renamed = replace(self, kind=kind)
        renamed.remove(root)
        os.rename(self.name, renamed.name, src_dir_fd=root, dst_dir_fd=root)
        return renamed

    def remove(self, root: int) -> None:
        """Delete it with all that it holds; links are deleted, not followed."""
        try:
            os.unlink(self.name, dir_fd=root)
        except OSError:
            shutil.rmtree(self.name, ignore_errors=True, dir_fd=root)


def folder_called(name: str) -> Folder | None:
    found = _PATTERN.fullmatch(name)
    if found is None:
        return None
    return Folder(int(found[1]), int(found[3]), Kind(found[2]))


def listing(root: int) -> list[Folder]:
    """All of them, the newest first."""
    found = [folder_called(name) for name in os.listdir(root)]
    return sorted((folder for folder in found if folder is not None), reverse=True)
