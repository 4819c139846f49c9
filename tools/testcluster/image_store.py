"""Images in the form in which a containerd holds them, made once and shared by all nodes.

Importing torch takes half a minute and twice its size. So it is done once for each environment, in
a machine of its own, and the folder that containerd leaves is kept in the cache. A node gets a copy
of its databases and, in the place of each unpacked layer, a link: containers write to layers of
their own, never to these. So a node costs no space, and nodes that run the same image share its
memory.

    python -m tools.testcluster.image_store     makes the images now, if they are not there
"""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Self

from tools.testcluster import images
from tools.testcluster.containerd import Containerd
from tools.testcluster.images import Bases
from tools.testcluster.machine import Machine
from tools.testcluster.oci import Image, Layer

_KEPT: Final = 2
_KEYS: Final = "[0-9a-f]" * 16
_MACHINE: Final = "images"
_SNAPSHOTS: Final = "io.containerd.snapshotter.v1.overlayfs/snapshots"
_BLOBS: Final = "io.containerd.content.v1.content/blobs/sha256"


class ImageStore:
    """The kept folder of this environment; `prepare` makes it if it is not there."""

    def __init__(self, bases: Bases, root: Path) -> None:
        self.bases = bases
        self._root = root

    @classmethod
    def prepare(cls) -> Self:
        """Takes a minute the first time that it is asked for in an environment."""
        folder = cache() / images.key()
        with _locked():
            if (cache() / _MACHINE).exists():  # somebody was killed while making them
                _machine(cache()).remove()
            if not (folder / "bases.json").exists():
                _make(folder)
            _forget_old(folder)
        return cls(_read(folder / "bases.json"), folder / "root")

    def copy_to(self, root: Path) -> None:
        """The folder of a containerd that holds the bases."""
        unpacked = self._root / _SNAPSHOTS
        shutil.copytree(self._root, root, copy_function=_copy, ignore=_all_of(unpacked))
        for layer in unpacked.iterdir():
            (root / _SNAPSHOTS / layer.name).symlink_to(layer)


def _all_of(folder: Path) -> Callable[[str, list[str]], Collection[str]]:
    return lambda parent, names: names if Path(parent) == folder else ()


def _copy(source: str, target: str) -> None:
    """Databases are changed in place; all else is written once."""
    if source.endswith(".db"):
        shutil.copyfile(source, target)
    else:
        os.link(source, target)


def cache() -> Path:
    """Where nodes and their images are, outside of any checkout."""
    base = os.environ.get("WEFT_CACHE") or Path.home() / ".cache" / "weft"
    return Path(base) / "nodes"


def _make(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    bases = images.make_bases(folder)
    with tempfile.TemporaryDirectory(prefix="weft-images-") as scratch:
        _import(bases, Path(scratch), folder / "root")
    for layer in {layer for image in bases.all for layer in image.layers}:
        _empty(folder / "root" / _BLOBS / layer.digest.removeprefix("sha256:"))
        layer.path.unlink()
    (folder / "bases.json").write_text(json.dumps(asdict(bases), default=str))


def _import(bases: Bases, scratch: Path, root: Path) -> None:
    machine = _machine(scratch)
    runtime = Containerd(machine, images.PAUSE, scratch)
    try:
        machine.start()
        runtime.start()
        runtime.wait()
        runtime.load(bases.all)
        machine.kill_program("containerd")
        runtime.root.rename(root)
    finally:
        machine.remove()


def _machine(logs: Path) -> Machine:
    return Machine(_MACHINE, cache() / _MACHINE, logs)


def _empty(blob: Path) -> None:
    """Let go of a layer's tar: it is unpacked, and only its length is ever looked at again."""
    size = blob.stat().st_size
    os.truncate(blob, 0)
    os.truncate(blob, size)


def _read(path: Path) -> Bases:
    def image(body: dict[str, Any]) -> Image:
        stack = tuple(
            Layer(Path(each["path"]), each["digest"], each["size"]) for each in body["layers"]
        )
        return Image(body["name"], stack, tuple(body["command"]), tuple(body["environment"]))

    return Bases(**{name: image(body) for name, body in json.loads(path.read_text()).items()})


def _forget_old(current: Path) -> None:
    """An image with torch is large: only those that were used last are kept."""
    current.touch()
    for folder in sorted(cache().glob(_KEYS), key=lambda each: each.stat().st_mtime)[:-_KEPT]:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked() -> Iterator[None]:
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    ImageStore.prepare()
