"""The state of a training program, by name: what must survive, and what a joiner must receive.

Tensors are named after the parameter that they belong to, never by position, so that state fits
whatever order an optimizer was given its parameters in and under every plan:

    model/<parameter or buffer>        optimizer/<parameter>/<key>        extra/<name>/<path>

A parameter that the optimizer moves and no module has is called `outside.<number>`; what an
optimizer keeps under a key that is no parameter is an object of its own, `extra/optimizer.own`.

A tensor that is sharded (FSDP2) appears as the part that this worker holds, with the box that the
part is of the whole. All the rest — hyper-parameters, schedulers, what `state_dict()` of further
objects holds — is JSON. What is neither is an error when it is saved, not when it is needed.

Tensors are handed out alive: whoever writes into them changes the program, and no parameter ever
changes its identity. Objects that gave a copy by `state_dict()` get it back when facts are loaded.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from weft.agent.checkpoint.document import Json, canonical, plain
from weft.agent.checkpoint.errors import UnsavableState
from weft.agent.checkpoint.facts import fold, unfold
from weft.agent.checkpoint.layout import TensorRecord, whole
from weft.train.state.holders import Holder, Stateful, is_held, own_holder, scheduler_holder
from weft.train.state.local_tensors import bytes_of, clean, local_part, record_of
from weft.train.state.parameter_groups import ParameterGroups, SavedGroups, mismatch, some_of
from weft.train.state.progress import Progress

SCHEDULER: Final = "scheduler"
OWN: Final = "extra/optimizer.own"  # what an optimizer keeps for itself, and for no parameter
_OUTSIDE: Final = "outside."
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
# What reading facts raises that were not written by `facts`.
_NOT_AS_SAVED: Final = (
    TypeError,
    KeyError,
    ValueError,
    AttributeError,
    OverflowError,
    RuntimeError,  # of torch
)
# Counters that optimizers keep on the host unless they are captured or fused.
_HOST_SCALARS: Final = frozenset({"step", "mu_product"})


@dataclass(frozen=True, slots=True)
class HeldState:
    """One look at everything: what this worker holds, its description, and the facts."""

    tensors: dict[str, Tensor]
    records: tuple[TensorRecord, ...]
    facts: Json


_Named = list[tuple[str, nn.Parameter]]
_Objects = dict[str, tuple[Json, dict[str, Tensor]]]


class StateBook:
    """All state of a program: its model, optimizer, scheduler, and what was added."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        scheduler: Stateful | None = None,
        *,
        elsewhere: frozenset[str] = frozenset(),
    ) -> None:
        """What is `elsewhere` is of this program too, and held by another stage of it."""
        self.model = model
        self._elsewhere = elsewhere
        self.optimizer = optimizer
        self.progress = Progress()
        self.streams: dict[str, Json] = {}  # where each loader's stream stood, as far as it tells
        self._found: tuple[int, list[tuple[str, nn.Parameter]]] = (-1, [])
        self._holders: dict[str, Holder] = {}
        self._early: list[str] = []
        #: Parameters of no module; each keeps its number, also if it leaves the optimizer.
        self._outside: list[nn.Parameter] = []
        #: The model's tensors as they were before the present loop; None outside of any job.
        self._before_loop: dict[str, object] | None = None
        #: A digest of what state must fit, as of the present loop's beginning; 0 before the first.
        self.program = 0
        self._lent: dict[str, Tensor] = {}
        self._made: dict[str, Tensor] = {}
        for name, module in model.named_modules():
            if type(module).get_extra_state is not nn.Module.get_extra_state:
                path = f"model/{clean(name)}/_extra_state" if name else "model/_extra_state"
                self._holders[path] = Holder(module.get_extra_state, module.set_extra_state)
        self._holders[OWN] = own_holder(optimizer)
        if scheduler is not None:
            self._holders[f"extra/{SCHEDULER}"] = scheduler_holder(scheduler)
        self.groups = ParameterGroups(optimizer, self._named())

    def add(self, name: str, thing: object) -> None:
        """Further state: a tensor, or an object with `state_dict` and `load_state_dict`."""
        path = f"extra/{name}"
        if not _NAME.fullmatch(name) or name == SCHEDULER or path in self._holders:
            raise UnsavableState(
                f"extra state cannot be called {name!r}",
                hint="use letters, digits, _ . - and each name once",
            )
        if isinstance(thing, Tensor):
            self._holders[path] = Holder(lambda: thing, lambda _: None)
            return
        if not isinstance(thing, Stateful):
            raise UnsavableState(
                f"{name} is a {type(thing).__name__}, which has no state_dict()",
                hint="give it state_dict() and load_state_dict(), or add its tensors",
            )
        schedule = isinstance(thing, LRScheduler)
        held = Holder(thing.state_dict, thing.load_state_dict)
        self._holders[path] = scheduler_holder(thing) if schedule else held
        if isinstance(thing, GradScaler):
            self._early.append(path)

    def parameters(self) -> list[tuple[str, nn.Parameter]]:
        """All by name; looked for again when the optimizer has been given more of them."""
        count = sum(len(group["params"]) for group in self.optimizer.param_groups)
        if self._found[0] != count:
            self._found = count, self._named()
        return self._found[1]

    def enter_loop(self) -> None:
        """Note what the script has made before its loop, because a resumed run has no more."""
        named = self._named()
        self.groups.enter_loop(named)
        self._before_loop = self._described(named)
        fitting = [
            type(self.optimizer).__name__,
            [sorted(group) for group in self.groups.prepared],
            sorted(self._holders),
            sorted((name, str(one)) for name, one in self._before_loop.items()),
        ]
        self.program = int.from_bytes(hashlib.sha256(plain(fitting)).digest()[:7]) + 1

    def check_model(self) -> None:
        """Refuse tensors of the model that a resumed run could not load, before they are saved."""
        if self._before_loop is None:
            return
        before, now = self._before_loop, self._described(self._named())
        if odd := sorted(n for n in before.keys() | now.keys() if before.get(n) != now.get(n)):
            outside = f"model/{_OUTSIDE}"
            shown = [f"{n} (of no module)" if n.startswith(outside) else n for n in odd]
            raise UnsavableState(
                "the model changed inside the loop of weft.steps (added, removed or of another "
                f"shape: {some_of(shown)}); a resumed run has it as it is before the loop, and "
                "could not load a checkpoint",
                hint="build all modules, buffers and parameters before the loop",
            )

    def look(self) -> HeldState:
        """All of it at once, to be taken elsewhere; each object gives its state only once."""
        self.check_model()
        return self._held()

    def _held(self) -> HeldState:
        named, objects = self._named(), self._objects()
        live = self._live(named, objects)
        return HeldState(
            {name: local_part(tensor) for name, tensor in live.items()},
            tuple(record_of(name, tensor) for name, tensor in live.items()),
            self._facts(named, objects),
        )

    def tensors(self) -> dict[str, Tensor]:
        """What this worker holds, alive, in the order of names; to be written into if wanted."""
        live = self._live(self._named(), self._objects())
        self._lent = {name: live[name] for name in live if is_held(name, self._holders)}
        return {name: local_part(tensor) for name, tensor in live.items()}

    def records(self) -> tuple[TensorRecord, ...]:
        """The same, described."""
        live = self._live(self._named(), self._objects())
        return tuple(record_of(name, tensor) for name, tensor in live.items())

    def facts(self) -> Json:
        """All that is no tensor."""
        return self._facts(self._named(), self._objects())

    def step_facts(self) -> Json:
        """What the body of a step may change before its gradients are summed."""
        facts = self._facts(self._named(), {})
        return {name: facts[name] for name in ("optimizer", "frozen")}

    def digest(self) -> str:
        """SHA-256 over every name, byte and fact; equal where the state is equal."""
        running, held = hashlib.sha256(), self._held()
        for record, tensor in zip(held.records, held.tensors.values(), strict=True):
            described = [record.name, record.dtype, record.shape, record.offsets, record.sizes]
            running.update(plain(described))
            running.update(bytes_of(tensor))
        common = {name: fact for name, fact in held.facts.items() if name != "streams"}
        running.update(canonical(common))  # only who reads a stream knows where it stands
        return running.hexdigest()

    # ------------------------------------------------------------------------- taking state in

    def fit(
        self, records: Iterable[TensorRecord], *, lacking: Collection[str] = ()
    ) -> tuple[TensorRecord, ...]:
        """What this worker would hold of that state; refused unless it is this program's.

        Tensors that it may be `lacking` stay as they are. An optimizer makes its state for a
        parameter when that is moved for the first time, so what it has made here and not there is
        no difference between programs.
        """
        mine = {record.name: record for record in self.records() if record.name not in lacking}
        theirs = {r.name: r for r in records if not self._is_elsewhere(r.name)}
        missing = sorted(n for n in mine if n not in theirs and not n.startswith("optimizer/"))
        if missing:
            raise mismatch(f"it has no {some_of(missing)}")
        fitted = {name: mine.get(name) or self._future(theirs[name], mine) for name in theirs}
        if unknown := sorted(name for name, record in fitted.items() if record is None):
            raise mismatch(f"this program has no {some_of(unknown)}")
        found = tuple(record for record in fitted.values() if record is not None)
        for record in found:
            their = theirs[record.name]
            if (record.dtype, record.shape) != (their.dtype, their.shape):
                raise mismatch(
                    f"{record.name} is {their.dtype}{list(their.shape)} there "
                    f"and {record.dtype}{list(record.shape)} here"
                )
        return found

    def forget_all_but(self, kept: Collection[str], facts: Json) -> None:
        """What the optimizer keeps for a parameter here and not there will be made when needed."""
        plain_state = facts["optimizer"]["state"]
        for fqn, parameter in self._named():
            state = self.optimizer.state.get(parameter, {})
            known = plain_state.get(fqn, {})
            for key in [k for k in state if f"optimizer/{fqn}/{k}" not in kept and k not in known]:
                del state[key]
            if not state:
                self.optimizer.state.pop(parameter, None)

    def allocate(self, records: Iterable[TensorRecord]) -> None:
        """Make what that state has and this program lacks, so that it can be received."""
        live = self._live(self._named(), self._objects())
        absent = {
            record.name: record
            for record in records
            if record.name not in live and not self._is_elsewhere(record.name)
        }
        mine = {name: record_of(name, tensor) for name, tensor in live.items()}
        if unknown := sorted(n for n, record in absent.items() if not self._future(record, mine)):
            raise mismatch(f"this program has no {some_of(unknown)}")
        owners = self._owners()
        for record in absent.values():
            if is_held(record.name, self._holders):
                self._made[record.name] = self._made_for_holder(record)
            else:
                _make(record, owners, self.optimizer)

    def check_facts(self, facts: Json) -> None:
        """Refuse facts of another program, before anything is changed."""
        try:
            theirs = facts["optimizer"]
            groups = SavedGroups.parse(theirs, self._elsewhere)
            kind, objects = theirs["kind"], set(facts["objects"])
            for state in theirs["state"].values():
                unfold(dict(state))
            unfold(dict(facts["objects"]), str)
            Progress.from_json(facts.get("progress"))
            dict(facts.get("streams") or {})
            frozen = set(facts.get("frozen", ()))
        except _NOT_AS_SAVED as error:
            raise mismatch(f"its facts are not as they must be: {error!r:.100}") from error
        if kind != type(self.optimizer).__name__:
            raise mismatch(f"its optimizer is {kind!s:.64}")
        self.groups.check(groups, self._named())
        known = self._elsewhere.union(name for name, _ in self.parameters())
        if unknown := sorted(frozen - known):
            raise mismatch(f"it has frozen {some_of(unknown)}")
        if odd := sorted((objects ^ set(self._holders)) - {OWN}):
            raise mismatch(f"only one of the two has {some_of(odd)}")

    def take_groups(self, facts: Json) -> None:
        """Let the optimizer have the groups of these facts, which were checked."""
        saved = SavedGroups.parse(facts["optimizer"], self._elsewhere)
        self.groups.take(saved, self._named())

    def load_facts(self, facts: Json) -> None:
        """Take over what is no tensor; tensors that were lent before go back to their objects."""
        self.check_facts(facts)
        self.take_groups(facts)
        self.groups.take_options(SavedGroups.parse(facts["optimizer"], self._elsewhere))
        for fqn, parameter in self._named():
            for key, value in facts["optimizer"]["state"].get(fqn, {}).items():
                self.optimizer.state[parameter][key] = unfold(value)
        for path, holder in self._holders.items():
            if path in facts["objects"]:
                holder.write(unfold(facts["objects"][path], self._returned))
        self.progress = Progress.from_json(facts.get("progress"))
        self.streams = dict(facts.get("streams") or {})
        self.load_early(facts)
        self._lent, self._made = {}, {}

    def load_early(self, facts: Json) -> None:
        """What a newcomer must know before it sees the sum of its first step.

        Who takes part in it, and by how much it is scaled. Facts of an older form say nothing of
        what is frozen.
        """
        for path in self._early:
            if path in facts["objects"]:
                self._holders[path].write(unfold(facts["objects"][path], self._returned))
        if "frozen" not in facts:
            return
        frozen = set(facts["frozen"])
        for name, parameter in self._named():
            if parameter.requires_grad is (name in frozen):
                parameter.requires_grad_(name not in frozen)

    def _is_elsewhere(self, name: str) -> bool:
        """Whether a tensor belongs to another stage of the pipeline."""
        root, _, rest = name.partition("/")
        owner = rest.rpartition("/")[0] if root == "optimizer" else rest
        return root != "extra" and owner in self._elsewhere

    # ------------------------------------------------------------------------------ what there is

    def _named(self) -> _Named:
        """The model's own, and what else the optimizer moves, in its order."""
        named = [(clean(name), one) for name, one in self.model.named_parameters()]
        known = {id(one) for _, one in named}
        seen = known.union(map(id, self._outside))
        moved = (one for group in self.optimizer.param_groups for one in group["params"])
        self._outside += [one for one in moved if id(one) not in seen]
        outside = enumerate(self._outside)
        return named + [
            (f"{_OUTSIDE}{number}", one) for number, one in outside if id(one) not in known
        ]

    def _objects(self) -> _Objects:
        return {path: self._read(path) for path in sorted(self._holders)}

    def _live(self, named: _Named, objects: _Objects) -> dict[str, Tensor]:
        """Every tensor by name; a sharded one as such."""
        parts = [dict(self._of_model(named)), dict(self._of_optimizer(named))]
        parts.extend(tensors for _, tensors in objects.values())
        found = {name: tensor for part in parts for name, tensor in part.items()}
        if len(found) != sum(map(len, parts)):
            raise UnsavableState("two tensors have the same name", hint="rename a module")
        return dict(sorted({**self._made, **found}.items()))

    def _of_model(self, named: _Named) -> Iterator[tuple[str, Tensor]]:
        for fqn, parameter in named:
            yield f"model/{fqn}", parameter
        seen: set[int] = set()
        for prefix, module in self.model.named_modules():
            for name, buffer in module.named_buffers(prefix, recurse=False):
                passing = name.rpartition(".")[2] in module._non_persistent_buffers_set
                if not passing and id(buffer) not in seen:
                    seen.add(id(buffer))
                    yield f"model/{clean(name)}", buffer

    def _described(self, named: _Named) -> dict[str, object]:
        return {name: (one.dtype, tuple(one.shape)) for name, one in self._of_model(named)}

    def _of_optimizer(self, named: _Named) -> Iterator[tuple[str, Tensor]]:
        """Also of parameters that are in no group any more, and may be in one again."""
        for fqn, parameter in named:
            for key, value in self.optimizer.state.get(parameter, {}).items():
                if isinstance(value, Tensor):
                    yield f"optimizer/{fqn}/{key}", value

    def _facts(self, named: _Named, objects: _Objects) -> Json:
        return {
            "optimizer": {
                "kind": type(self.optimizer).__name__,
                **self.groups.to_json(named),
                "state": self._plain_state(named),
            },
            "objects": {path: tree for path, (tree, _) in objects.items()},
            "progress": self.progress.to_json(),
            **({"streams": dict(self.streams)} if self.streams else {}),
            "frozen": sorted(name for name, one in named if not one.requires_grad),
        }

    def _plain_state(self, named: _Named) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for fqn, parameter in named:
            for key, value in self.optimizer.state.get(parameter, {}).items():
                if not isinstance(value, Tensor):
                    path = f"optimizer/{fqn}/{key}"
                    found.setdefault(fqn, {})[key] = fold(value, path)
        return found

    def _read(self, path: str) -> tuple[Json, dict[str, Tensor]]:
        """An object's state: the tree, in which a tensor stands by its name, and the tensors."""
        tensors: dict[str, Tensor] = {}

        def leaf(name: str, value: object) -> str:
            if not isinstance(value, Tensor) or name in tensors:
                raise UnsavableState(
                    f"{name} cannot be saved: it is a {type(value).__name__}",
                    hint="state_dict() must hold tensors, numbers, text, lists, tuples and dicts",
                )
            tensors[name] = value
            return name

        return fold(self._holders[path].read(), path, leaf), tensors

    # ------------------------------------------------------------------------ what is to come

    def _future(
        self, record: TensorRecord, mine: Mapping[str, TensorRecord]
    ) -> TensorRecord | None:
        """What this worker will hold of a tensor that it does not have yet; None: it never will."""
        if is_held(record.name, self._holders):
            return whole(record.name, record.dtype, record.shape)
        root, _, rest = record.name.partition("/")
        owner = mine.get(f"model/{rest.rpartition('/')[0]}")
        if root != "optimizer" or owner is None:
            return None
        if record.shape == owner.shape:
            return TensorRecord(record.name, record.dtype, record.shape, owner.offsets, owner.sizes)
        if record.shape and owner.sizes != owner.shape:
            return None
        return whole(record.name, record.dtype, record.shape)

    def _owners(self) -> dict[str, tuple[Tensor, bool]]:
        """Each parameter by name, and whether its counters are kept beside it."""
        beside = {
            id(parameter): bool(group.get("capturable") or group.get("fused"))
            for group in self.optimizer.param_groups
            for parameter in group["params"]
        }
        return {fqn: (one, beside.get(id(one), False)) for fqn, one in self._named()}

    def _made_for_holder(self, record: TensorRecord) -> Tensor:
        device = next((one.device for one in self.model.parameters()), None)
        return torch.zeros(record.shape, dtype=getattr(torch, record.dtype), device=device)

    def _returned(self, name: Json) -> Tensor:
        """A tensor that was lent, for the object that it belongs to."""
        live = {**self._made, **self._lent}
        if not isinstance(name, str) or name not in live:
            raise mismatch(f"its facts speak of {name!s:.64}, which is not there")
        return live[name]


def _make(
    record: TensorRecord, owners: Mapping[str, tuple[Tensor, bool]], optimizer: Optimizer
) -> None:
    """State that an optimizer would have made in its first step."""
    fqn, _, key = record.name.removeprefix("optimizer/").rpartition("/")
    parameter, beside = owners[fqn]
    dtype, device = getattr(torch, record.dtype), parameter.device
    if key in _HOST_SCALARS and not record.shape:
        made = torch.zeros((), dtype=dtype, device=device if beside else "cpu")
    elif record.shape == tuple(parameter.shape):
        made = torch.zeros_like(parameter, dtype=dtype, requires_grad=False)
    else:
        made = torch.zeros(record.shape, dtype=dtype, device=device)
    optimizer.state[parameter][key] = made
