"""Objects that tell their state and take it back, as torch has them: by `state_dict()`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import Tensor
from torch.optim import Optimizer


@runtime_checkable
class Stateful(Protocol):
    """What torch calls state: schedulers, scalers, averages, and objects of one's own."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any], /) -> object: ...


@dataclass(frozen=True, slots=True)
class Holder:
    """An object that tells its state and takes it back."""

    read: Callable[[], object]
    write: Callable[[Any], object]


def own_holder(optimizer: Optimizer) -> Holder:
    """As `state_dict()` of torch has it: a key that is no parameter stands as it is."""

    def read() -> dict[object, object]:
        return {key: value for key, value in optimizer.state.items() if not isinstance(key, Tensor)}

    def write(told: dict[Any, Any]) -> None:
        for key in read():
            del optimizer.state[key]  # type: ignore[arg-type]
        optimizer.state.update(told)

    return Holder(read, write)


def scheduler_holder(scheduler: Stateful) -> Holder:
    """As torch does: functions are left out, since they come with the program."""

    def read() -> dict[str, object]:
        state = scheduler.state_dict()
        return {key: value for key, value in state.items() if not callable(value)}

    return Holder(read, scheduler.load_state_dict)


def is_held(name: str, holders: Mapping[str, Holder]) -> bool:
    return any(name == path or name.startswith(f"{path}/") for path in holders)
