"""The layers with Python packages: what this environment holds, as far as Weft asks for it.

The packages are copied from the environment that runs the tests, so nothing is downloaded, and a
pod computes with the very versions that the tests know. They lie in a virtual environment, because
that is found in the same way by every interpreter.
"""

import compileall
import importlib.metadata
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from packaging.requirements import Requirement

from tools.testcluster import hollow
from tools.testcluster.layers import LayerWriter
from tools.testcluster.userland import interpreter
from weft.model.errors import WorldError

ROOT: Final = "venv"
"""The virtual environment in the image; its `bin` is on the PATH."""

_SITE: Final = f"{ROOT}/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
_COMPILED: Final = f".cpython-{sys.version_info.major}{sys.version_info.minor}."
_LEFT_OUT_PACKAGES: Final = {"triton"}  # it compiles for GPUs
_LEFT_OUT_FOLDERS: Final = {"tests", "include"}
_LEFT_OUT_TREES: Final = ("torch/share/", "torch/bin/protoc")
_LEFT_OUT_SUFFIXES: Final = {".a", ".h", ".hpp", ".cuh", ".cmake", ".lib", ".pyi", ".pxd", ".cpp"}


@dataclass(frozen=True)
class Package:
    """One installed distribution."""

    name: str
    version: str


def wanted(extra: str) -> frozenset[Package]:
    """Weft's dependencies with this extra, and theirs, but not Weft itself."""
    found: dict[str, Package] = {}
    _collect(Requirement(f"weft[{extra}]"), found, set())
    return frozenset(each for name, each in found.items() if name != "weft")


def write_environment(layer: LayerWriter) -> None:
    """The virtual environment itself, still without packages."""
    python = interpreter()
    layer.text(
        f"{ROOT}/pyvenv.cfg", f"home = {python.parent}\nversion = {sys.version.split()[0]}\n"
    )
    for name in ("python", "python3", python.name):
        layer.link(f"{ROOT}/bin/{name}", str(python))


def write_packages(layer: LayerWriter, packages: Iterable[Package]) -> None:
    """Without what only compilers, testers and GPUs need."""
    files = {name: path for each in packages for name, path in _files(each)}
    kept = hollow.kept_libraries(files)
    for name, path in sorted(files.items()):
        if name.startswith(f"{ROOT}/bin/"):
            layer.text(name, _with_own_python(path), 0o755)
        elif name in kept.hollow:
            layer.text(name, hollow.hollow(path), 0o755)
        elif name not in kept.useless:
            layer.file(name, path)
    layer.system_libraries(path for name, path in files.items() if ".so" in name)


def write_weft(layer: LayerWriter, source: Path) -> None:
    """Weft as it is in this checkout, with its command, and compiled."""
    compileall.compile_dir(source, quiet=2)
    for path in sorted(source.rglob("*")):
        if path.is_file() and (path.suffix != ".pyc" or _COMPILED in path.name):
            layer.file(f"{_SITE}/weft/{path.relative_to(source)}", path)
    for name, path in _files(Package("weft", "")):
        if name.startswith(f"{ROOT}/bin/"):
            layer.text(name, _with_own_python(path), 0o755)
        elif ".dist-info/" in name and path.name in ("METADATA", "entry_points.txt"):
            layer.file(name, path)


def _collect(
    requirement: Requirement, found: dict[str, Package], seen: set[tuple[str, str]]
) -> None:
    installed = _installed(requirement.name)
    name = installed.metadata["Name"].lower()
    found[name] = Package(name, installed.version)
    for extra in ("", *requirement.extras):
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for text in installed.requires or ():
            each = Requirement(text)
            asked = each.marker is None or each.marker.evaluate({"extra": extra})
            if asked and each.name not in _LEFT_OUT_PACKAGES:
                _collect(each, found, seen)


def _installed(name: str) -> importlib.metadata.Distribution:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        raise WorldError(
            f"{name} is not installed, and images are made of what this environment holds",
            hint="pip install -e '.[kube,train]'",
        ) from None


def _files(package: Package) -> Iterator[tuple[str, Path]]:
    """Names in the image with the files that belong there."""
    for file in _installed(package.name).files or ():
        path = Path(str(file.locate()))
        if file.parts[0] == "..":
            if file.parts[-2] == "bin":
                yield f"{ROOT}/bin/{file.name}", path
        elif path.is_file() and not _is_left_out(file):
            yield f"{_SITE}/{file}", path


def _is_left_out(file: PurePosixPath) -> bool:
    return (
        file.suffix in _LEFT_OUT_SUFFIXES
        or not _LEFT_OUT_FOLDERS.isdisjoint(file.parts)
        or str(file).startswith(_LEFT_OUT_TREES)
        or ".opt-" in file.name
    )


def _with_own_python(script: Path) -> bytes:
    """The script, begun with the image's interpreter instead of this machine's."""
    _, _, rest = script.read_bytes().partition(b"\n")
    return f"#!/{ROOT}/bin/python\n".encode() + rest
