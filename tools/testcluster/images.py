"""The images that pods of the test cluster run, and the layers that they share.

`weft/operator` has Python and Weft with what a cluster needs, `weft/train` also torch. All layers
but the topmost hold what the environment holds and change with it alone; Weft's own source is the
topmost, with the examples, so that a change of it costs a second.
"""

import hashlib
import inspect
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tools.testcluster import hollow, layers, oci, packages, userland
from tools.testcluster.layers import LayerWriter
from tools.testcluster.oci import Image, Layer

PAUSE: Final = "docker.io/weft/pause:test"
OPERATOR: Final = "docker.io/weft/operator:test"
TRAIN: Final = "docker.io/weft/train:test"

_SOURCE: Final = Path(__file__).parents[2] / "src" / "weft"
_EXAMPLES: Final = Path(__file__).parents[2] / "examples"
_RECIPE: Final = (hollow, layers, oci, packages, userland)
_ENVIRONMENT: Final = (
    f"PATH=/{packages.ROOT}/bin:/usr/bin",
    "HOME=/tmp",  # the only place that uid 1000 may surely write to
    "PYTHONUNBUFFERED=1",
    "PYTHONDONTWRITEBYTECODE=1",
)
_SLEEP: Final = ("/usr/bin/busybox", "sleep", "2147483647")


@dataclass(frozen=True)
class Bases:
    """The images without Weft, which are made once for each environment."""

    pause: Image
    operator: Image
    train: Image

    @property
    def all(self) -> tuple[Image, ...]:
        return self.pause, self.operator, self.train


def key() -> str:
    """Names what the bases are made of."""
    parts: list[Any] = [sys.version, str(userland.interpreter()), platform.libc_ver()]
    parts += sorted(f"{each.name}=={each.version}" for each in _kube() | packages.wanted("train"))
    parts += [inspect.getsource(module) for module in _RECIPE]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def make_bases(folder: Path) -> Bases:
    """Write their layers into the folder."""
    busybox, python, kube, train = _stack(folder, tuple(_LAYERS))
    return Bases(
        Image(PAUSE, (busybox,), _SLEEP),
        _base(OPERATOR, busybox, python, kube),
        _base(TRAIN, busybox, python, kube, train),
    )


def make_one(name: str, folder: Path, *, train: bool, user: str) -> Image:
    """An image to give away, with Weft's present source on top, as the Dockerfile has it."""
    layers = tuple(_LAYERS) if train else tuple(_LAYERS)[:-1]
    stack = (*_stack(folder, layers), _top(folder))
    return Image(name, stack, ("python",), _ENVIRONMENT, user)


def _stack(folder: Path, wanted: tuple[str, ...]) -> tuple[Layer, ...]:
    """These layers, each without what those below it hold."""
    names: frozenset[str] = frozenset()
    for name in wanted:
        with LayerWriter(folder / f"{name}.tar", names) as writer:
            _LAYERS[name](writer)
            names = writer.names
    return tuple(Layer.of(folder / f"{name}.tar") for name in wanted)


def with_weft(bases: Bases, folder: Path) -> tuple[Image, ...]:
    """The images that pods run: the bases with Weft's present source on top."""
    top = _top(folder)
    return tuple(
        replace(base, name=name, layers=(*base.layers, top))
        for base, name in ((bases.operator, OPERATOR), (bases.train, TRAIN))
    )


def _top(folder: Path) -> Layer:
    path = folder / "weft.tar"
    with LayerWriter(path) as writer:
        packages.write_weft(writer, _SOURCE)
        for script in sorted(_EXAMPLES.glob("*.py")):
            writer.file(f"examples/{script.name}", script)
    return Layer.of(path)


def _base(name: str, *stack: Layer) -> Image:
    return Image(name.replace(":test", ":base"), stack, ("python",), _ENVIRONMENT)


def _kube() -> frozenset[packages.Package]:
    return packages.wanted("kube")


def _write_kube(writer: LayerWriter) -> None:
    packages.write_environment(writer)
    packages.write_packages(writer, _kube())


def _write_train(writer: LayerWriter) -> None:
    packages.write_packages(writer, packages.wanted("train") - _kube())


_LAYERS: Final[dict[str, Callable[[LayerWriter], None]]] = {
    "busybox": userland.write_busybox,
    "python": userland.write_python,
    "kube": _write_kube,
    "train": _write_train,
}
"""From the lowest up."""
