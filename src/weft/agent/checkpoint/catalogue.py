"""What a person sees in a vault: every checkpoint with its size, its age and what is wrong with it.

It only looks. No fence is raised and no lock is taken, so it may be used while a job trains; what
disappears meanwhile is left out. A checkpoint is `whole` if its files are as long as its manifest
says, and `verified` if every byte has been compared with its digest, which takes as long as reading
them.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from weft.agent.checkpoint import beneath, chunks, fence, inspection
from weft.agent.checkpoint.errors import Damaged
from weft.agent.checkpoint.folders import Folder, Kind, folder_called, listing
from weft.agent.checkpoint.manifest import Manifest
from weft.model.errors import SpecError, UnknownName

BELOW: Final = "weft"  # where the vault lies in a job's own folder of checkpoints


class Soundness(StrEnum):
    """How much is known of a checkpoint."""

    WHOLE = "whole"
    VERIFIED = "verified"
    DAMAGED = "damaged"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class Listed:
    """One of a vault."""

    path: Path
    step: int
    incarnation: int
    soundness: Soundness
    why: str = ""
    manifest: Manifest | None = None

    @property
    def usable(self) -> bool:
        return self.soundness in (Soundness.WHOLE, Soundness.VERIFIED)

    @property
    def bytes(self) -> int | None:
        """Of all its shards."""
        return None if self.manifest is None else sum(one.bytes for one in self.manifest.shards)


def root_of(place: Path) -> Path:
    """The vault that somebody means: itself, or the folder that a job was given for it."""
    if place.parts[:1] == ("s3:",):
        raise SpecError(
            f"{place} is in an object store", hint="copy it to a folder, which is as good"
        )
    if not place.is_dir():
        what = "is a file" if place.exists() else "does not exist"
        raise SpecError(f"{place} {what}", hint="name the folder that a job saves its state in")
    for root in (place, place / BELOW):
        if root.is_dir() and _is_vault(root):
            return root
    raise SpecError(
        f"{place} holds no checkpoints of Weft",
        hint="name the folder that --checkpoints or WEFT_CHECKPOINT_PATH named; "
        "weft checkpoint import reads those of others",
    )


def listed(root: Path, *, verify: bool = False) -> Iterator[Listed]:
    """All that is called a checkpoint or is about to be, the newest first."""
    with beneath.folder(root) as within:
        limit = _limit(within)
        for folder in listing(within):
            if folder.kind is not Kind.GOING and (root / folder.name).exists():
                yield _looked_at(root, within, folder, limit, verify=verify)


def chosen(root: Path, step: int | None, *, verify: bool = False) -> Listed:
    """The newest of that step, or the newest sound one; looked at in full if wanted."""
    found = [one for one in listed(root) if one.soundness is not Soundness.UNFINISHED]
    fitting = [one for one in found if (one.usable if step is None else one.step == step)]
    if not fitting:
        raise _absent(root, step, found)
    if not verify:
        return fitting[0]
    folder = folder_called(fitting[0].path.name)
    assert folder is not None
    with beneath.folder(root) as within:
        return _looked_at(root, within, folder, _limit(within), verify=True)


def _absent(root: Path, step: int | None, found: list[Listed]) -> UnknownName:
    if not found:
        return UnknownName(f"{root} holds no checkpoint", hint="its job has not saved yet")
    if step is None:
        return UnknownName(
            f"no checkpoint in {root} is sound; the newest: {found[0].why}",
            hint="weft checkpoint ls tells what is wrong with each",
        )
    there = ", ".join(str(one.step) for one in found[:8])
    return UnknownName(f"{root} has no checkpoint of step {step}", hint=f"it has: {there}")


def _looked_at(
    root: Path, within: int, folder: Folder, limit: tuple[str, int] | None, *, verify: bool
) -> Listed:
    path = root / folder.name
    if folder.kind is Kind.GROWING:
        why = "being written, or left behind by a crash"
        return Listed(path, folder.step, folder.incarnation, Soundness.UNFINISHED, why)
    found: Manifest | None = None
    try:
        with beneath.folder(folder.name, within=within) as inside:
            found = inspection.look(inside)
            job, newest = limit or (found.head.job, folder.incarnation)
            inspection.check_origin(found, folder, job, newest)
            if verify:
                inspection.verify(found, inside, threads=chunks.default_threads())
    except Damaged as error:
        why = str(error)
        return Listed(path, folder.step, folder.incarnation, Soundness.DAMAGED, why, found)
    soundness = Soundness.VERIFIED if verify else Soundness.WHOLE
    return Listed(path, folder.step, folder.incarnation, soundness, "", found)


def _limit(within: int) -> tuple[str, int] | None:
    """Whose they are, and the newest incarnation that may have left something here."""
    with suppress(Damaged):
        return fence.told(within)
    return None


def _is_vault(root: Path) -> bool:
    with beneath.folder(root) as within:
        return bool(listing(within)) or (root / fence.NAME).exists()
