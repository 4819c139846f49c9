"""Libraries for GPUs, hollowed out: every name is there, and nothing behind it.

PyPI's torch for Linux is the build for CUDA. `import torch` loads some 2 GB of NVIDIA's libraries,
of which nothing is ever called where there is no GPU. The loader asks only that each library is
found and defines the symbols that torch names, so a copy of its symbol tables before one function
that returns 0 does as well, in a thousandth of the size. Small libraries are kept as they are.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

_LARGE_BYTES: Final = 16 << 20
_VENDOR: Final = "/nvidia/"
_FRAMEWORK: Final = "/torch/lib/"

# From <elf.h>; all of it is little-endian and of 64 bits.
_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM: Final = struct.Struct("<IIQQQQQQ")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_DYNAMIC: Final = struct.Struct("<qQ")
_DT_NEEDED, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT = 1, 4, 5, 6, 10, 11
_DT_SONAME, _DT_GNU_HASH, _DT_VERSYM = 14, 0x6FFFFEF5, 0x6FFFFFF0
_DT_VERDEF, _DT_VERDEFNUM = 0x6FFFFFFC, 0x6FFFFFFD
_PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK = 1, 2, 0x6474E551
_FUNCTION, _RESOLVER, _THREAD_LOCAL = 2, 10, 6
_RETURN_0: Final = b"\x31\xc0\xc3" + bytes(13)  # xor eax, eax; ret
_TABLES: Final = {
    ".hash": _DT_HASH,
    ".gnu.hash": _DT_GNU_HASH,
    ".dynstr": _DT_STRTAB,
    ".gnu.version": _DT_VERSYM,
    ".gnu.version_d": _DT_VERDEF,
}


@dataclass(frozen=True)
class Kept:
    """By their names in the image."""

    hollow: frozenset[str]
    useless: frozenset[str]


def kept_libraries(files: Mapping[str, Path]) -> Kept:
    """Of what the vendor ships, only libraries that torch cannot be loaded without are kept."""
    vendor = {name for name in files if _VENDOR in name and not name.endswith((".py", ".pyc"))}
    by_file = {Path(name).name: name for name in vendor}
    needed: set[str] = set()
    waiting = [name for name in files if _FRAMEWORK in name and name.endswith(".so")]
    while waiting:
        for library in Library(files[waiting.pop()]).needed:
            name = by_file.get(library)
            if name and name not in needed:
                needed.add(name)
                waiting.append(name)
    large = {name for name in needed if files[name].stat().st_size > _LARGE_BYTES}
    return Kept(frozenset(large), frozenset(vendor - needed))


def hollow(path: Path) -> bytes:
    """A library with the names, versions and hash tables of this one, and no other content."""
    library = Library(path)
    start = _HEADER.size + 3 * _PROGRAM.size
    body = bytearray(_RETURN_0)
    tags: list[tuple[int, int]] = []
    for section, tag in _TABLES.items():
        if section in library.sections:
            body.extend(bytes(-len(body) % 16))
            tags.append((tag, start + len(body)))
            body.extend(library.content(section))
    body.extend(bytes(-len(body) % 16))
    symbols = library.symbols_at(start)
    tags += [(_DT_SYMTAB, start + len(body)), (_DT_SYMENT, _SYMBOL.size)]
    tags += [(_DT_STRSZ, len(library.content(".dynstr")))]
    tags += [(tag, value) for tag, value in library.dynamic if tag in (_DT_SONAME, _DT_VERDEFNUM)]
    body.extend(symbols)
    dynamic = b"".join(_DYNAMIC.pack(*each) for each in (*tags, (0, 0)))
    return _program(start, bytes(body), dynamic)


class Library:
    """As much of a shared library's structure as is needed here."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            self._header = _HEADER.unpack(file.read(_HEADER.size))

    @cached_property
    def sections(self) -> dict[str, tuple[int, int]]:
        """Offset and size in the file, by name."""
        offset, size, count, names = self._header[6], *self._header[11:14]
        raw = self._read(offset, size * count)
        entries = list(_SECTION.iter_unpack(raw))
        text = self._read(entries[names][4], entries[names][5])
        return {_string(text, entry[0]): (entry[4], entry[5]) for entry in entries[1:]}

    @property
    def dynamic(self) -> list[tuple[int, int]]:
        return list(_DYNAMIC.iter_unpack(self.content(".dynamic")))

    @property
    def needed(self) -> Iterator[str]:
        names = self.content(".dynstr")
        for tag, value in self.dynamic:
            if tag == _DT_NEEDED:
                yield _string(names, value)

    def content(self, section: str) -> bytes:
        return self._read(*self.sections[section])

    def symbols_at(self, address: int) -> bytes:
        """Its table of symbols, with all that it defines moved to one address."""
        return b"".join(
            _SYMBOL.pack(*(_moved(entry, address) if entry[3] else entry))
            for entry in _SYMBOL.iter_unpack(self.content(".dynsym"))
        )

    def _read(self, offset: int, size: int) -> bytes:
        with self._path.open("rb") as file:
            file.seek(offset)
            return file.read(size)


def _moved(entry: tuple[int, ...], address: int) -> tuple[int, ...]:
    name, info, other, _, _, _ = entry
    kind = _FUNCTION if info & 0xF in (_RESOLVER, _THREAD_LOCAL) else info & 0xF
    return name, info & 0xF0 | kind, other, 1, address, 0


def _program(start: int, body: bytes, dynamic: bytes) -> bytes:
    """One segment with everything, writable because the loader notes addresses in it."""
    end = start + len(body)
    size = end + len(dynamic)
    header = _HEADER.pack(
        b"\x7fELF\x02\x01\x01" + bytes(9), 3, 62, 1, 0, _HEADER.size, 0, 0,
        _HEADER.size, _PROGRAM.size, 3, _SECTION.size, 0, 0,
    )  # fmt: skip
    segments = (
        _PROGRAM.pack(_PT_LOAD, 7, 0, 0, 0, size, size, 0x1000),
        _PROGRAM.pack(_PT_DYNAMIC, 6, end, end, end, len(dynamic), len(dynamic), 8),
        _PROGRAM.pack(_PT_GNU_STACK, 6, 0, 0, 0, 0, 0, 16),
    )
    return b"".join((header, *segments, body, dynamic))


def _string(table: bytes, offset: int) -> str:
    return table[offset : table.index(b"\0", offset)].decode()
