"""State that another training program has saved, in the names of this one.

A foreign checkpoint knows parameters by their position in an optimizer, by names that a wrapper has
changed, or by one of several names that a shared tensor has. Only the program knows what is meant,
so the names are translated here, when it loads. What a foreign checkpoint cannot know (the kind of
the optimizer, what else the program carries along) stays as the program has it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from weft.agent.checkpoint.document import Json
from weft.agent.checkpoint.errors import StateMismatch
from weft.agent.checkpoint.source import MappedShard, Source
from weft.train.state.book import SCHEDULER, StateBook
from weft.train.state.local_tensors import clean

KEY: Final = "foreign"
DDP: Final = "module."


@dataclass(frozen=True, slots=True)
class Adopted:
    """A source in this program's names, and which of its tensors the source need not have."""

    source: Source
    lacking: frozenset[str] = frozenset()


def adopted(source: Source, book: StateBook) -> Adopted:
    """The same, translated; what Weft itself has saved is as it is."""
    told = source.facts.get(KEY) if isinstance(source.facts, dict) else None
    if not isinstance(told, dict):
        return Adopted(source)
    names = _Names(book, by_position=told.get("by_position") is True)
    seen: set[str] = set()
    shards = [_translated(shard, names, seen) for shard in source.shards]
    facts = _facts(book, told, names, source.facts)
    mine = {record.name for record in book.records()}
    optimizer = told.get("has_optimizer") is True
    lacking = {n for n in mine - seen if not n.startswith(_needed(optimizer=optimizer))}
    return Adopted(replace(source, facts=facts, shards=tuple(shards)), frozenset(lacking))


def _needed(*, optimizer: bool) -> tuple[str, ...]:
    return ("model/", "optimizer/") if optimizer else ("model/",)


class _Names:
    """Theirs to ours."""

    def __init__(self, book: StateBook, *, by_position: bool) -> None:
        self._by_position = by_position
        named = book.parameters()
        self._order = [fqn for group in book.groups.names(named) for fqn in group]
        known = {id(one): name for name, one in named}
        self._alias: dict[str, str] = {}
        for name, one in book.model.named_parameters(remove_duplicate=False):
            self._alias[clean(name)] = known.get(id(one), clean(name))
        seen: dict[int, str] = {}
        for name, buffer in book.model.named_buffers(remove_duplicate=False):
            self._alias[clean(name)] = seen.setdefault(id(buffer), clean(name))

    def of(self, name: str) -> str:
        """A tensor's, in full."""
        root, _, rest = name.partition("/")
        if root == "model":
            return f"model/{self.parameter(rest)}"
        one, _, key = rest.rpartition("/")
        return f"{root}/{self.owner(one)}/{key}"

    def owner(self, told: str) -> str:
        """The parameter that an optimizer's state is of."""
        if not self._by_position:
            return self.parameter(told)
        if not told.isdecimal() or int(told) >= len(self._order):
            raise _mismatch(f"its optimizer has a parameter number {told[:20]}")
        return self._order[int(told)]

    def parameter(self, told: str) -> str:
        for name in (clean(told), clean(told.removeprefix(DDP))):
            if name in self._alias:
                return self._alias[name]
        return clean(told)


def _translated(shard: MappedShard, names: _Names, seen: set[str]) -> MappedShard:
    """With our names; of a shared tensor that they have saved twice one is enough."""
    pieces = []
    for piece in shard.pieces:
        name = names.of(piece.record.name)
        if name not in seen:
            seen.add(name)
            pieces.append(replace(piece, record=replace(piece.record, name=name)))
    return replace(shard, pieces=tuple(pieces))


def _facts(book: StateBook, told: Mapping[str, Any], names: _Names, all_facts: Json) -> Json:
    facts = book.facts()
    theirs = told.get("groups")
    if theirs:
        _take_groups(facts["optimizer"]["groups"], theirs, names)
    facts["optimizer"]["state"] = {
        names.owner(one): state for one, state in (told.get("state") or {}).items()
    }
    scheduler = f"extra/{SCHEDULER}"
    if told.get("scheduler") and scheduler in facts["objects"]:
        facts["objects"][scheduler] = told["scheduler"]
    facts["progress"] = all_facts.get("progress")
    return facts


def _take_groups(ours: list[Json], theirs: Sequence[Any], names: _Names) -> None:
    """Options of groups that are made up alike; those that this optimizer lacks are left out."""
    for mine, other in zip(ours, theirs, strict=False):
        if [names.owner(one) for one in other["params"]] != mine["params"]:
            break
        known = {key: one for key, one in other["options"].items() if key in mine["options"]}
        mine["options"] = {**mine["options"], **known}
    else:
        if len(ours) == len(theirs):
            return
    sizes = [len(group["params"]) for group in theirs]
    raise _mismatch(f"its optimizer has groups of {sizes} parameters, made up otherwise")


def _mismatch(what: str) -> StateMismatch:
    return StateMismatch(
        f"the imported state is not that of this program: {what}",
        hint="give the optimizer its parameters as the program did that saved it",
    )
