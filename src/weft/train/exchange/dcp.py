"""torch.distributed.checkpoint (DCP): written so that torch loads it, and read without its pickle.

A DCP checkpoint describes itself in a pickle, and what is no tensor is pickled too. Both can run
code when torch reads them. Here the description may name the classes of DCP and nothing else, and
all values are read as torch reads weights: a checkpoint that needs more is refused.
"""

import io
import pickle
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.checkpoint.planner import ReadItem, WriteItem
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from weft.agent.checkpoint.document import Json
from weft.agent.checkpoint.errors import Damaged
from weft.agent.checkpoint.facts import unfold
from weft.agent.checkpoint.layout import ITEM_BYTES
from weft.model.errors import SpecError
from weft.train.exchange.foreign import GROUPS, STATE, Progress
from weft.train.exchange.whole import Wholes

METADATA: Final = ".metadata"
_OF_DCP: Final = {
    "torch.distributed.checkpoint.metadata": {
        *("Metadata", "MetadataIndex", "StorageMeta", "TensorProperties", "_MEM_FORMAT_ENCODING"),
        *("BytesStorageMetadata", "ChunkStorageMetadata", "TensorStorageMetadata"),
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.serialization": {"_get_layout"},
    "torch": {"Size", *(name for name, one in vars(torch).items() if type(one) is torch.dtype)},
    "pathlib": {"PosixPath", "PurePosixPath"},
    "pathlib._local": {"PosixPath", "PurePosixPath"},
    "collections": {"OrderedDict"},
}


def write(wholes: Wholes, facts: Json, folder: Path, tell: Progress) -> dict[str, str]:
    """As `dcp.save` of a state_dict with names would have; returns the tensors' names there."""
    state: dict[str, Any] = {"model": {}, "optimizer": {STATE: {}, GROUPS: _groups(facts)}}
    names = {}
    for name in wholes.names:
        root, _, rest = name.partition("/")
        if root == "optimizer":
            one, _, key = rest.rpartition("/")
            state[root][STATE].setdefault(one, {})[key] = wholes.tensor(name)
            names[name] = f"{root}.{STATE}.{one}.{key}"
        else:
            state.setdefault(root, {})[rest] = wholes.tensor(name)
            names[name] = f"{root}.{rest}"
    writer = FileSystemWriter(folder)
    total = sum(map(wholes.bytes, wholes.names))
    with _no_surprises(folder):
        save(state, storage_writer=writer, planner=_Saving(tell, total), no_dist=True)
    return names


class DcpFiles:
    """A folder that `dcp.save` has written."""

    kind = "dcp"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._metadata = _metadata(folder)
        self._paths: dict[str, tuple[str, ...]] = {}
        self._types: dict[str, tuple[str, tuple[int, ...]]] = {}
        for name, one in self._metadata.state_dict_metadata.items():
            if isinstance(one, TensorStorageMetadata):
                self._paths[name] = self._path(name)
                self._types[name] = _type(name, one), tuple(one.size)

    @property
    def tensors(self) -> Mapping[str, tuple[str, tuple[int, ...]]]:
        return self._types

    @property
    def paths(self) -> Mapping[str, tuple[str, ...]]:
        return self._paths

    def plain(self) -> Mapping[tuple[str, ...], Any]:
        names = [name for name in self._metadata.state_dict_metadata if name not in self._types]
        values: dict[str, Any] = dict.fromkeys(names)
        self._load(values, lambda *_: None)
        return {self._path(name): value for name, value in values.items()}

    def read_into(self, targets: Mapping[str, Tensor], tell: Progress) -> None:
        self._load(dict(targets), tell)

    def _path(self, name: str) -> tuple[str, ...]:
        """As it stood in the state_dict; without that, by its dots."""
        told = self._metadata.planner_data
        path = told.get(name) if isinstance(told, dict) else None
        return tuple(map(str, path)) if path else tuple(name.split(".", 1))

    def _load(self, values: dict[str, Any], tell: Progress) -> None:
        if not values:
            return
        total = sum(one.nbytes for one in values.values() if isinstance(one, Tensor))
        with _no_surprises(self._folder):
            load(
                values,
                storage_reader=_Reader(self._folder, self._metadata),
                planner=_Loading(tell, total),
                no_dist=True,
            )


class _Reader(FileSystemReader):
    """With a description that was read before, and carefully."""

    def __init__(self, folder: Path, metadata: Metadata) -> None:
        super().__init__(folder)
        self._read = metadata

    def read_metadata(self, *_: Any, **__: Any) -> Metadata:
        return self._read


class _Loading(DefaultLoadPlanner):
    """Values as weights, and how far it has come."""

    def __init__(self, tell: Progress, total: int) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self._tell, self._total, self._done = tell, total, 0

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        name = read_item.dest_index.fqn
        try:
            self.state_dict[name] = torch.load(value, weights_only=True, map_location="cpu")
        except pickle.UnpicklingError as error:
            raise SpecError(
                f"{name} is neither a tensor, a number, text, nor a collection of these",
                hint="save it without that entry: to read it, code of its own would have to run",
            ) from error

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        self._done += tensor.nbytes
        self._tell(self._done, self._total)


class _Saving(DefaultSavePlanner):
    """The default one, with how far it has come."""

    def __init__(self, tell: Progress, total: int) -> None:
        super().__init__()
        self._tell, self._total, self._done = tell, total, 0

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        data: Tensor | io.BytesIO = super().resolve_data(write_item)
        if isinstance(data, Tensor):
            self._done += data.nbytes
            self._tell(self._done, self._total)
        return data


class _Plain(pickle.Unpickler):
    """Classes of DCP's own description, and no others."""

    def find_class(self, module_name: str, global_name: str) -> Any:  # noqa: ANN401
        if global_name not in _OF_DCP.get(module_name, ()):
            raise Damaged(
                f"{METADATA} names {module_name}.{global_name}, which no checkpoint needs",
                hint="do not load it with torch either before you know where it comes from",
            )
        return super().find_class(module_name, global_name)


def _metadata(folder: Path) -> Metadata:
    try:
        found = _Plain(io.BytesIO((folder / METADATA).read_bytes())).load()
        files = {info.relative_path for info in found.storage_data.values()}
        entries = found.state_dict_metadata.items()
    except Damaged:
        raise
    except Exception as error:
        raise Damaged(
            f"{folder / METADATA} cannot be read: {error!r:.120}",
            hint="its training was killed while it wrote, or another version of torch did",
        ) from error
    strange = [file for file in files if Path(file).name != file]
    missing = [file for file in files if not (folder / file).is_file()]
    if strange or missing or not isinstance(found, Metadata) or not entries:
        raise Damaged(f"{folder} lacks {(strange or missing or [METADATA])[0]}")
    return found


def _type(name: str, one: TensorStorageMetadata) -> str:
    dtype = str(one.properties.dtype).removeprefix("torch.")
    if dtype not in ITEM_BYTES:
        raise SpecError(f"{name} is {dtype}, which Weft does not know", hint="save it otherwise")
    return dtype


def _groups(facts: Json) -> list[dict[str, Any]]:
    """As torch's `get_state_dict` has them: parameters by name, options as they are."""
    groups = facts.get("optimizer", {}).get("groups", [])
    return [
        {**_options(group.get("options", {})), "params": list(group["params"])}
        for group in groups
        if "params" in group
    ]


def _options(options: Mapping[str, Json]) -> dict[str, Any]:
    return {key: unfold(value, lambda pair: unfold(pair[1])) for key, value in options.items()}


@contextmanager
def _no_surprises(folder: Path) -> Iterator[None]:
    """DCP's error is no Exception and hides what was the matter, and it warns of being alone."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")
            yield
    except CheckpointException as error:
        inner = next(iter(error.failures.values()))[0]
        if isinstance(inner, SpecError):
            raise inner from error
        raise Damaged(
            f"{folder} cannot be read or written: {inner!r:.160}",
            hint="see whether all its files are there and whole",
        ) from error
