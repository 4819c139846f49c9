"""Which processes are on which GPU, asked of the driver's own library (NVML).

The library is optional: `pip install nvidia-ml-py`. Without it nobody can tell, and that is said.
A GPU is known by its UUID from the first look on, because numbers change when one falls off the
bus.
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from weft.model.errors import WorldError

HINT = "nvidia-smi tells more; jobs go on"


class Library(Protocol):
    """As much of NVML as is used, under its own names."""

    NVMLError: type[Exception]

    def nvmlInit(self) -> None: ...  # noqa: N802
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any: ...  # noqa: ANN401, N802
    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any: ...  # noqa: ANN401, N802
    def nvmlDeviceGetUUID(self, handle: Any) -> str | bytes: ...  # noqa: ANN401, N802
    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> list[Any]: ...  # noqa: ANN401, N802


def find() -> Library | None:
    """The library, where it is installed."""
    try:
        return cast(Library, importlib.import_module("pynvml"))
    except ImportError:
        return None


class GpuProcesses:
    """Looks at the GPUs of these numbers; a WorldError where the driver does not answer."""

    def __init__(self, library: Library, slots: Sequence[int]) -> None:
        self._library = library
        self._slots = tuple(slots)
        self._uuids: dict[int, str] = {}

    def look(self) -> Mapping[int, tuple[int, ...]]:
        """Numbers of processes, by GPU."""
        try:
            if not self._uuids:
                self._uuids = self._named()
            return {slot: self._on(uuid) for slot, uuid in self._uuids.items()}
        except self._library.NVMLError as error:
            raise WorldError(f"the GPUs cannot be looked at: {error}", hint=HINT) from error

    def _named(self) -> dict[int, str]:
        library = self._library
        library.nvmlInit()
        found = {}
        for slot in self._slots:
            uuid = library.nvmlDeviceGetUUID(library.nvmlDeviceGetHandleByIndex(slot))
            found[slot] = uuid.decode() if isinstance(uuid, bytes) else uuid
        return found

    def _on(self, uuid: str) -> tuple[int, ...]:
        handle = self._library.nvmlDeviceGetHandleByUUID(uuid)
        running = self._library.nvmlDeviceGetComputeRunningProcesses(handle)
        return tuple(sorted({int(process.pid) for process in running}))
