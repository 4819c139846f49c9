"""safetensors: one file for each kind of state, or several where it is large, as hubs expect it.

`model.safetensors` holds a model's state_dict and nothing else, so that any program can load it.
Files end at 4 GiB; then they are numbered, and an index says which one holds which tensor.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from weft.agent.checkpoint.errors import Damaged
from weft.agent.checkpoint.layout import ITEM_BYTES
from weft.model.errors import SpecError
from weft.train.exchange.foreign import Progress
from weft.train.exchange.whole import Wholes

FILE_BYTES: Final = 4 << 30
SUFFIX: Final = ".safetensors"
INDEX: Final = ".safetensors.index.json"
WITHOUT: Final = frozenset({"complex128"})  # what the format has no name for


def write(wholes: Wholes, folder: Path, tell: Progress) -> dict[str, str]:
    """All tensors, one kind after the other; returns their names there."""
    names: dict[str, str] = {}
    done, total = 0, sum(map(wholes.bytes, wholes.names))
    for name in wholes.names:
        if wholes.record(name).dtype in WITHOUT:
            raise SpecError(
                f"{name} is {wholes.record(name).dtype}, which safetensors does not know",
                hint="use --format dcp",
            )
    for root in sorted({name.partition("/")[0] for name in wholes.names}):
        mine = [name for name in wholes.names if name.startswith(f"{root}/")]
        parts = list(_parts(wholes, mine))
        files = [_file(root, number, len(parts)) for number in range(len(parts))]
        for part, file in zip(parts, files, strict=True):
            _save(wholes, part, folder / file, root)
            done += sum(map(wholes.bytes, part))
            tell(done, total)
        if len(parts) > 1:
            _write_index(wholes, folder / f"{root}{INDEX}", parts, files)
        names.update({name: f"{root}{SUFFIX}/{_their(name)}" for name in mine})
    return names


class SafetensorsFiles:
    """A file, or a folder of files."""

    kind = "safetensors"

    def __init__(self, place: Path) -> None:
        self._where: dict[str, tuple[Path, str]] = {}
        self._types: dict[str, tuple[str, tuple[int, ...]]] = {}
        files = [place] if place.is_file() else sorted(place.glob(f"*{SUFFIX}"))
        for file in files:
            self._look(file)

    @property
    def tensors(self) -> Mapping[str, tuple[str, tuple[int, ...]]]:
        return self._types

    @property
    def paths(self) -> Mapping[str, tuple[str, ...]]:
        """They hold a model and nothing else, if Weft has not written them."""
        roots = sorted({name.partition("/")[0] for name in self._types})
        if len(roots) > 1:
            raise SpecError(
                f"there are several sets of files: {', '.join(roots[:8])}",
                hint="name the one file that holds the model",
            )
        return {name: ("model", name.partition("/")[2]) for name in self._types}

    def plain(self) -> Mapping[tuple[str, ...], Any]:
        return {}

    def read_into(self, targets: Mapping[str, Tensor], tell: Progress) -> None:
        done, total = 0, sum(one.nbytes for one in targets.values())
        by_file: dict[Path, list[str]] = {}
        for name in targets:
            by_file.setdefault(self._where[name][0], []).append(name)
        for file, names in by_file.items():
            with _opened(file) as opened:
                for name in names:
                    targets[name].copy_(opened.get_tensor(self._where[name][1]))
                    done += targets[name].nbytes
                    tell(done, total)

    def _look(self, file: Path) -> None:
        """Files of several parts are one: their number is no part of a tensor's name."""
        root = _root(file)
        with _opened(file) as opened:
            for name in opened.keys():  # noqa: SIM118 - it has no other way of being asked
                part = opened.get_slice(name)
                dtype = _types().get(part.get_dtype())
                if dtype is None:
                    raise SpecError(f"{name} is {part.get_dtype()}, which Weft does not know")
                own = f"{root}{SUFFIX}/{name}"
                if own in self._types:
                    raise SpecError(
                        f"{name} stands in two files of {file.parent}",
                        hint="name one file, or a folder with one set of files",
                    )
                self._where[own] = file, name
                self._types[own] = dtype, tuple(part.get_shape())


def _root(file: Path) -> str:
    """`model` of `model-00001-of-00002.safetensors`."""
    stem = file.name.removesuffix(SUFFIX)
    head, of, count = stem.rpartition("-of-")
    name, dash, number = head.rpartition("-")
    return name if of and dash and number.isdecimal() and count.isdecimal() else stem


def _parts(wholes: Wholes, names: Sequence[str]) -> Iterator[list[str]]:
    part: list[str] = []
    size = 0
    for name in names:
        if part and size + wholes.bytes(name) > FILE_BYTES:
            yield part
            part, size = [], 0
        part.append(name)
        size += wholes.bytes(name)
    if part:
        yield part


def _file(root: str, number: int, count: int) -> str:
    return f"{root}{SUFFIX}" if count == 1 else f"{root}-{number + 1:05}-of-{count:05}{SUFFIX}"


def _their(name: str) -> str:
    return name.partition("/")[2]


def _save(wholes: Wholes, names: Sequence[str], file: Path, root: str) -> None:
    from safetensors.torch import save_file

    tensors = {_their(name): wholes.tensor(name) for name in names}
    save_file(tensors, file, {"format": "pt", "weft": root})


def _write_index(
    wholes: Wholes, path: Path, parts: Sequence[Sequence[str]], files: Sequence[str]
) -> None:
    size = sum(wholes.bytes(name) for part in parts for name in part)
    places = {_their(n): file for part, file in zip(parts, files, strict=True) for n in part}
    path.write_text(json.dumps({"metadata": {"total_size": size}, "weight_map": places}, indent=2))


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as opened:
            yield opened
    except (SafetensorError, OSError) as error:
        raise Damaged(
            f"{file} cannot be read: {str(error)[:120]}", hint="fetch or export it again"
        ) from error


def _types() -> dict[str, str]:
    """Names of the format, as torch has them."""
    from safetensors.torch import _TYPES

    names = {code: str(dtype).removeprefix("torch.") for code, dtype in _TYPES.items()}
    return {code: name for code, name in names.items() if name in ITEM_BYTES}
