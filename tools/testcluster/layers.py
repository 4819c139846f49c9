"""How a layer's tar is filled: every file belongs to root and may be read by anyone.

Times are kept to the second, because that is what ties compiled Python to its source. Libraries of
the distribution that a file needs come along: they lie where they lie on this machine.
"""

import io
import os
import re
import stat
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Final, Self

_LIBRARY: Final = re.compile(r"^\s*(?:\S+ => )?(/(?:usr/)?lib\S+) \(0x", re.MULTILINE)
_BATCH: Final = 200
_PATIENCE_SECONDS: Final = 60.0
# Debian's /lib is a link to /usr/lib, and so on.
_MERGED: Final = ("bin", "sbin", "lib", "lib64")


class LayerWriter:
    """A tar being written; `known` are the names that lower layers hold already."""

    def __init__(self, path: Path, known: Iterable[str] = ()) -> None:
        self._path = path
        self._tar = tarfile.open(path, "w", format=tarfile.GNU_FORMAT)  # noqa: SIM115
        self._lower = frozenset(known)
        self._names: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        self._tar.close()
        if kind:
            self._path.unlink()

    @property
    def names(self) -> frozenset[str]:
        """All that this layer and those below it hold."""
        return self._lower | self._names

    def folder(self, name: str, mode: int = 0o755) -> None:
        if name == "." or name in self._names:
            return
        self.folder(str(PurePosixPath(name).parent))
        self._add(_info(name, tarfile.DIRTYPE, mode))

    def link(self, name: str, target: str) -> None:
        self._prepare(name)
        info = _info(name, tarfile.SYMTYPE, 0o777)
        info.linkname = target
        self._add(info)

    def text(self, name: str, body: str | bytes, mode: int = 0o644) -> None:
        self._prepare(name)
        raw = body.encode() if isinstance(body, str) else body
        info = _info(name, tarfile.REGTYPE, mode)
        info.size = len(raw)
        self._add(info, raw)

    def file(self, name: str, source: Path) -> None:
        """The file that the source is or leads to."""
        self._prepare(name)
        facts = source.stat()
        mode = 0o755 if facts.st_mode & stat.S_IXUSR else 0o644
        info = _info(name, tarfile.REGTYPE, mode)
        info.size, info.mtime = facts.st_size, int(facts.st_mtime)
        self._names.add(name)
        with source.open("rb") as file:
            self._tar.addfile(info, file)

    def system_libraries(self, programs: Iterable[Path]) -> None:
        """Add those libraries of the distribution that the programs and libraries need."""
        for library in sorted(set(_needed(programs))):
            name = merged(library).lstrip("/")
            if name not in self.names:
                self.file(name, Path(library))

    def _prepare(self, name: str) -> None:
        self.folder(str(PurePosixPath(name).parent))

    def _add(self, info: tarfile.TarInfo, body: bytes = b"") -> None:
        self._names.add(info.name)
        self._tar.addfile(info, io.BytesIO(body))


def merged(path: str) -> str:
    """The name of a system file with /usr before it."""
    first = path.lstrip("/").split("/", 1)[0]
    return f"/usr{path}" if first in _MERGED else path


def merged_links(layer: LayerWriter) -> None:
    for name in _MERGED:
        layer.folder(f"usr/{name}")
        layer.link(name, f"usr/{name}")


def _needed(programs: Iterable[Path]) -> Iterator[str]:
    paths = [str(path) for path in programs]
    environment = {**os.environ, "LC_ALL": "C"}
    for start in range(0, len(paths), _BATCH):
        done = subprocess.run(
            ["ldd", *paths[start : start + _BATCH]],
            capture_output=True,
            text=True,
            env=environment,
            timeout=_PATIENCE_SECONDS,
            check=False,  # it complains of files that are static
        )
        yield from _LIBRARY.findall(done.stdout)


def _info(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode = kind, mode
    return info
