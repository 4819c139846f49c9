"""Whether a folder holds what its manifest says, to the last bit.

`look` reads the manifest and the files' lengths; `verify` reads the bytes. Each raises `Damaged`
with the reason, which is what a person is told about the progress that was lost.
"""

import os

from weft.agent.checkpoint import beneath, chunks, manifest
from weft.agent.checkpoint.errors import Damaged
from weft.agent.checkpoint.folders import Folder
from weft.agent.checkpoint.manifest import Manifest, Shard


def look(within: int) -> Manifest:
    """The manifest of an open folder whose files have the right lengths."""
    found = manifest.decode(beneath.read(manifest.NAME, within, most=manifest.MOST_BYTES))
    for shard in found.shards:
        with beneath.reading(shard.file, within) as file:
            size = os.fstat(file).st_size
        if size != shard.bytes:
            raise Damaged(f"{shard.file} has {size:,} bytes instead of {shard.bytes:,}")
    return found


def check_origin(found: Manifest, folder: Folder, job: str, fence: int) -> None:
    """It must be this job's, of the step and incarnation that it is called by, and permitted."""
    head = found.head
    if head.job != job:
        raise Damaged(f"it belongs to the job {head.job!r}")
    if (head.step, head.incarnation) != (folder.step, folder.incarnation):
        raise Damaged(f"it is step {head.step} of incarnation {head.incarnation}, under a new name")
    if head.incarnation > fence:
        raise Damaged(f"incarnation {head.incarnation} has never been here: the fence is {fence}")


def verify(found: Manifest, within: int, *, threads: int) -> None:
    """Compare every byte with its digest."""
    for shard in found.shards:
        with beneath.reading(shard.file, within) as file:
            _verify(shard, file, threads)


def _verify(shard: Shard, file: int, threads: int) -> None:
    def read(at: int, view: memoryview) -> None:
        beneath.read_into(file, view, at, shard.file)

    chunks.check(shard.bytes, read, shard.chunks, shard.file, threads=threads)
