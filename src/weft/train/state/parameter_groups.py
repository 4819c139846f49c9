"""The parameter groups of an optimizer, by the names of their parameters.

A script may add groups while it trains, and remove or merge them. A resumed run and a worker that
joins start from the groups that `weft.prepare` was given, and do not repeat the step that changed
them. So the groups are part of the state: they are saved with the names of their parameters, and
made up again from these before anything else of the state is loaded.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from weft.agent.checkpoint.document import Json
from weft.agent.checkpoint.errors import StateMismatch, UnsavableState
from weft.agent.checkpoint.facts import fold, unfold

NAMES_SHOWN: Final = 3

Named = Sequence[tuple[str, nn.Parameter]]
Names = list[list[str]]  # of the parameters of each group


@dataclass(frozen=True, slots=True)
class SavedGroups:
    """The groups in a saved state."""

    #: Names of the parameters that this worker holds, by group.
    names: Names
    options: list[dict[str, Json]]
    #: What `weft.prepare` was given in the run that saved it.
    prepared: Names
    #: Every parameter that was ever in a group in that run.
    moved: frozenset[str]

    @classmethod
    def parse(cls, optimizer: Json, elsewhere: Collection[str]) -> Self:
        """Those of this worker; an error that `check_facts` knows if the form is wrong."""
        params = [group["params"] for group in optimizer["groups"]]
        names = [_names(of_group, elsewhere) for of_group in params]
        options = [dict(group["options"]) for group in optimizer["groups"]]
        for of_group in options:
            _unfolded(of_group, ())
        prepared = [_names(group, elsewhere) for group in optimizer.get("prepared", params)]
        moved = {*_names(optimizer.get("moved", ()), elsewhere), *_flat(names), *_flat(prepared)}
        return cls(names, options, prepared, frozenset(moved))


class ParameterGroups:
    """The groups of one optimizer."""

    def __init__(self, optimizer: Optimizer, named: Named) -> None:
        self._optimizer = optimizer
        #: As `weft.prepare` was given them: alike in all workers and runs of one program.
        self.prepared = self.names(named)
        #: Parameters that the script itself has put into groups, up to its present loop.
        self._entered = frozenset(_flat(self.prepared))
        self._moved = set(self._entered)
        self._before_step: list[dict[str, Any]] | None = None

    def enter_loop(self, named: Named) -> None:
        """Note what the script has done before the loop, which a resumed run does again."""
        self._entered = frozenset(_flat(self.names(named)))

    def names(self, named: Named) -> Names:
        """The parameters of each group, by name and in its order."""
        names = {id(one): name for name, one in named}
        return [[names[id(one)] for one in group["params"]] for group in self._groups]

    # ------------------------------------------------------------------------------- saving

    def to_json(self, named: Named) -> dict[str, Json]:
        """The groups with their options, and where the run began if that was elsewhere."""
        names = self.names(named)
        self._moved.update(_flat(names))
        groups = [
            {"params": of_group, "options": _folded(group)}
            for of_group, group in zip(names, self._groups, strict=True)
        ]
        if names == self.prepared:
            return {"groups": groups}
        dropped = self._moved.difference(_flat(names), _flat(self.prepared))
        return {"groups": groups, "prepared": self.prepared, "moved": sorted(dropped)}

    # ------------------------------------------------------------------------------ loading

    def check(self, saved: SavedGroups, named: Named) -> None:
        """Refuse groups that this program cannot have come to."""
        wanted = _flat(saved.names)
        if _sorted(saved.names) == _sorted(self.names(named)):
            return
        if _sorted(saved.prepared) != _sorted(self.prepared):
            raise mismatch("its parameter groups are made up otherwise")
        if unknown := sorted(set(wanted).difference(name for name, _ in named)):
            raise mismatch(f"its optimizer has {some_of(unknown)}")
        if len(set(wanted)) != len(wanted):
            raise mismatch("a parameter is in two of its groups")
        if added := sorted(self._entered - saved.moved):
            raise mismatch(f"only this optimizer has {some_of(added)}")

    def take(self, saved: SavedGroups, named: Named) -> None:
        """Make up the groups as they were saved; groups that are alike stay as they are."""
        present, parameters = self.names(named), dict(named)
        if _sorted(saved.names) == _sorted(present):
            return
        wanted = []
        for number, (names, options) in enumerate(zip(saved.names, saved.options, strict=True)):
            if number < len(present) and sorted(names) == sorted(present[number]):
                wanted.append(_copy(self._groups[number]))
            else:
                params = [parameters[name] for name in names]
                loaded = _unfolded(options, params)
                wanted.append({**self._optimizer.defaults, **loaded, "params": params})
        self._replace(wanted)
        self._moved |= saved.moved

    def take_options(self, saved: SavedGroups) -> None:
        """Options of groups that are made up as they were saved."""
        for group, options in zip(self._groups, saved.options, strict=True):
            for key, value in options.items():
                if key in group and key != "params":
                    group[key] = _instead_of(group[key], unfold(value, _unfold_scalar))
        if self._before_step is not None:  # a newcomer receives its state in the midst of a step
            self.remember()

    # --------------------------------------------------------------------------------- steps

    def remember(self) -> None:
        """A step begins."""
        self._before_step = [_copy(group) for group in self._groups]

    def restore(self) -> None:
        """The step did not count and is made again: groups are as they were before it."""
        if self._before_step is not None:
            self._replace([_copy(group) for group in self._before_step])

    @property
    def _groups(self) -> list[dict[str, Any]]:
        return self._optimizer.param_groups

    def _replace(self, wanted: Sequence[dict[str, Any]]) -> None:
        """Groups and their lists keep their identity, because a script may hold them."""
        groups = self._groups
        del groups[len(wanted) :]
        for group, new in zip(groups, wanted, strict=False):
            params = group["params"]
            params[:] = new["params"]
            group.clear()
            group.update(new, params=params)
        for new in wanted[len(groups) :]:
            type(self._optimizer).add_param_group(self._optimizer, new)


def mismatch(what: str) -> StateMismatch:
    """The refusal of a state."""
    return StateMismatch(
        f"the saved state is not that of this program: {what}",
        hint="resume with the program that saved it, or begin in another folder",
    )


def some_of(names: Sequence[str]) -> str:
    """The first of them, for a message."""
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def fold_scalar(path: str, value: object) -> Json:
    """An option that is a tensor of one element."""
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise UnsavableState(
            f"{path} cannot be saved: it is a {type(value).__name__}",
            hint="options of an optimizer must be numbers or text",
        )
    return [str(value.dtype).removeprefix("torch."), fold(value.item(), path)]


def _folded(group: Mapping[str, Any]) -> dict[str, Json]:
    return {
        key: fold(value, f"optimizer/{key}", fold_scalar)
        for key, value in group.items()
        if key != "params"
    }


def _unfolded(options: Mapping[str, Json], params: Sequence[Tensor]) -> dict[str, Any]:
    """Options of a group that is made up anew; tensors lie where a capturable optimizer wants."""
    beside = bool(options.get("capturable")) and len(params) > 0
    device = params[0].device if beside else torch.device("cpu")

    def scalar(folded: Json) -> Tensor:
        name, number = folded
        return torch.tensor(unfold(number), dtype=getattr(torch, name), device=device)

    return {key: unfold(value, scalar) for key, value in options.items() if key != "params"}


def _unfold_scalar(value: Json) -> object:
    _, number = value
    return unfold(number)


def _instead_of(present: object, value: object) -> object:
    """A tensor keeps its identity: the optimizer may hold it elsewhere too."""
    if not isinstance(present, Tensor) or not isinstance(value, int | float):
        return value
    with torch.no_grad():
        return present.fill_(value)


def _copy(group: Mapping[str, Any]) -> dict[str, Any]:
    return {**group, "params": list(group["params"])}


def _names(found: object, elsewhere: Collection[str]) -> list[str]:
    if not isinstance(found, list | tuple) or not all(isinstance(name, str) for name in found):
        raise TypeError(f"no names: {found!r:.60}")
    return [name for name in found if name not in elsewhere]


def _flat(names: Names) -> list[str]:
    return [name for of_group in names for name in of_group]


def _sorted(names: Names) -> Names:
    """Groups by what is in them: in which order makes no difference."""
    return [sorted(set(of_group)) for of_group in names]
