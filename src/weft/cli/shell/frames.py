"""What the two ends of a session say: a letter, a length and so many bytes."""

import struct
from collections.abc import Iterator
from typing import Final

DATA: Final = b"d"  # typed, or printed
WINDOW: Final = b"w"  # rows and columns of the terminal
NOTICE: Final = b"n"  # from Weft and not from the shell
END: Final = b"e"  # the shell's exit status; nothing comes after it
HEAD: Final = struct.Struct(">cI")
SIZE: Final = struct.Struct(">HH")
STATUS: Final = struct.Struct(">B")


def frame(kind: bytes, content: bytes) -> bytes:
    return HEAD.pack(kind, len(content)) + content


class Frames:
    """Puts together what arrives in pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> Iterator[tuple[bytes, bytes]]:
        self._rest += piece
        while len(self._rest) >= HEAD.size:
            kind, length = HEAD.unpack_from(self._rest)
            end = HEAD.size + length
            if len(self._rest) < end:
                return
            content, self._rest = self._rest[HEAD.size : end], self._rest[end:]
            yield kind, content
