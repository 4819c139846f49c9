"""Files below a folder that others may write to: no link is followed, and only files are opened.

Every name comes from Weft itself, is relative, and is resolved against the folder's descriptor; so
a folder that is swapped for a link in between leads nowhere. FIFOs and devices are refused before
they can block or do anything.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from weft.agent.checkpoint.errors import Damaged

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def folder(path: Path | str, *, within: int | None = None) -> Iterator[int]:
    """The descriptor of a folder, given by path or by its name within another."""
    try:
        descriptor = os.open(path, _FOLDER, dir_fd=within)
    except OSError as error:
        raise Damaged(f"{path} is no folder: {error.strerror}") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def reading(name: str, within: int) -> Iterator[int]:
    """The descriptor of a plain file."""
    try:
        descriptor = os.open(name, _READ, dir_fd=within)
    except OSError as error:
        raise Damaged(f"{name} cannot be opened: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Damaged(f"{name} is no plain file")
        yield descriptor
    finally:
        os.close(descriptor)


def create(name: str, within: int) -> int:
    """A new file; whatever had that name is unlinked first, and if it was a link, only the link."""
    remove(name, within)
    return os.open(name, _CREATE, 0o600, dir_fd=within)


def remove(name: str, within: int) -> None:
    try:
        os.unlink(name, dir_fd=within)
    except FileNotFoundError:
        return


def read(name: str, within: int, *, most: int) -> bytes:
    """All of a file; refused before it is read when it is larger than `most`."""
    with reading(name, within) as descriptor:
        size = os.fstat(descriptor).st_size
        if size > most:
            raise Damaged(f"{name} has {size:,} bytes; the most is {most:,}")
        data = bytearray(size)
        read_into(descriptor, memoryview(data), 0, name)
    return bytes(data)


def read_into(descriptor: int, view: memoryview, at: int, name: str) -> None:
    """Fill `view` from that position; a file that ends before is `Damaged`."""
    done = 0
    while done < len(view):
        try:
            got = os.preadv(descriptor, [view[done:]], at + done)
        except OSError as error:
            raise Damaged(f"{name} cannot be read: {error.strerror}") from error
        if not got:
            raise Damaged(f"{name} ends too early")
        done += got


def write_from(descriptor: int, view: memoryview | bytes, at: int) -> None:
    done = 0
    while done < len(view):
        done += os.pwrite(descriptor, view[done:], at + done)


def write(name: str, within: int, data: bytes) -> None:
    """A new file with its bytes on the disk."""
    descriptor = create(name, within)
    try:
        write_from(descriptor, data, 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
