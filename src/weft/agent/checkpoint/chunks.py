"""Bytes in chunks of 4 MiB, each with its SHA-256, and one digest over those of all chunks.

One digest over a whole file can only be computed by one core, and is of no use to a worker that
needs a part of the file. Chunks are hashed by several threads at once, and a reader checks those
that it reads. Each chunk is read once into a buffer, hashed there and written from there: what is
on disk is what was hashed, whatever happens to the source meanwhile.
"""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Final

from weft.agent.checkpoint.errors import Damaged

CHUNK_BYTES: Final = 4 << 20
MOST_THREADS: Final = 4

Move = Callable[[int, memoryview], None]


def default_threads() -> int:
    return min(MOST_THREADS, len(os.sched_getaffinity(0)))


def chunk_count(total: int) -> int:
    return -(-total // CHUNK_BYTES)


def root(digests: Sequence[str]) -> str:
    """The one digest of a file: SHA-256 over those of its chunks."""
    return sha256(b"".join(bytes.fromhex(digest) for digest in digests)).hexdigest()


def digests(
    total: int, read: Move, *, write: Move | None = None, threads: int = 1
) -> tuple[str, ...]:
    """Of each chunk that `read` fills; `write` is handed the same bytes."""
    own = threading.local()

    def one(start: int) -> str:
        if not hasattr(own, "buffer"):
            own.buffer = memoryview(bytearray(min(CHUNK_BYTES, total)))
        view = own.buffer[: min(CHUNK_BYTES, total - start)]
        read(start, view)
        if write is not None:
            write(start, view)
        return sha256(view).hexdigest()

    pool = ThreadPoolExecutor(threads, "weft-chunks")
    try:
        return tuple(pool.map(one, range(0, total, CHUNK_BYTES)))
    finally:
        pool.shutdown(cancel_futures=True)


def check(total: int, read: Move, expected: Sequence[str], name: str, *, threads: int = 1) -> None:
    """Refuse bytes that are not the ones that were written."""
    for index, digest in enumerate(digests(total, read, threads=threads)):
        if digest != expected[index]:
            raise Damaged(f"{name} is not what was written: chunk {index} differs")


def check_some(
    view: memoryview, indices: Sequence[int], expected: Sequence[str], name: str, *, threads: int
) -> None:
    """The same for bytes that are in memory, and for some of their chunks."""
    pool = ThreadPoolExecutor(threads, "weft-chunks")
    try:
        parts = (view[index * CHUNK_BYTES : (index + 1) * CHUNK_BYTES] for index in indices)
        for index, found in zip(indices, pool.map(_digest, parts), strict=True):
            if found != expected[index]:
                raise Damaged(f"{name} is not what was written: chunk {index} differs")
    finally:
        pool.shutdown(cancel_futures=True)


def _digest(view: memoryview) -> str:
    return sha256(view).hexdigest()
