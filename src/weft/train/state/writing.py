"""Which part of the state this worker saves: replicas on several machines share it out.

Plain replicas all hold the same, so on each machine whose agent writes one of them saves, and each
saves an equal part of the bytes. Without such agents the first saves all of it. Of a sharded model
each member of the first replica saves what it holds.
"""

from dataclasses import replace

from weft.agent.checkpoint.layout import parted
from weft.agent.messages import Members
from weft.train.groups.group import EpochGroups
from weft.train.state.book import HeldState

Part = tuple[int, int]
"""Its number, and how many there are."""


def part_of(groups: EpochGroups, worker: int, sharers: Members) -> Part | None:
    """What a worker saves, if `sharers` are all that have the state; None: nothing."""
    if groups.shard > 1:
        return None if groups.replica else (groups.place % groups.shard, groups.shard)
    writers = _writers(groups, sharers)
    return (writers.index(worker), len(writers)) if worker in writers else None


def _writers(groups: EpochGroups, sharers: Members) -> list[int]:
    """The first on each machine, or the first of all where not every machine has an agent."""
    nodes = groups.nodes or (0,) * len(groups.members)
    first: dict[int, int] = {}
    for member, node in zip(groups.members, nodes, strict=True):
        if member in sharers:
            first.setdefault(node, member)
    writers = list(first.values())
    return writers[:1] if 0 in first else writers


def held_part(held: HeldState, part: Part) -> HeldState:
    """The part of all that is seen."""
    number, count = part
    if count == 1:
        return held
    records = parted(held.records, number, count)
    tensors = dict(held.tensors)
    for whole, mine in zip(held.records, records, strict=True):
        if mine is not whole and mine.sizes:
            first = mine.offsets[0] - whole.offsets[0]
            tensors[mine.name] = tensors[mine.name].narrow(0, first, mine.sizes[0])
    return replace(held, tensors=tensors, records=records)
