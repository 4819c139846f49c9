"""Packing: which nodes a job gets.

Fewest nodes first, then the best fit by what is left over, which fills broken nodes before whole
ones and so keeps whole nodes for gangs. A job that no single node can hold looks for the fewest
nodes in one rack, then in one pool. `first_fit` and `anywhere` are the simpler rules of
published simulators, kept for conformance.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from weft.model.kind import Kind
from weft.model.snapshot import Bools, Ints
from weft.policy.place.fabric import Fabric, Tier
from weft.policy.place.room import Room, Share

NOWHERE = 1 << 40


@dataclass(frozen=True, slots=True)
class Offer:
    """A placement that is possible now, and how much slower it is than one on one node would be.

    What `least` says no placement of that width can do without: nobody waits for less.
    """

    shares: tuple[Share, ...]
    racks: int
    slowdown: float
    speed: float
    least: float = 1.0

    @property
    def avoidable(self) -> float:
        """How much slower it is than the tightest that there could be."""
        return self.slowdown / self.least


class Place(Protocol):
    """Finds a placement, or says that there is none."""

    def __call__(
        self, room: Room, fabric: Fabric, kind: Kind, width: int, *, avoid: Bools | None = None
    ) -> Offer | None: ...


def best_fit(
    room: Room, fabric: Fabric, kind: Kind, width: int, *, avoid: Bools | None = None
) -> Offer | None:
    """The offer that runs fastest: tight and on a fast type if possible."""
    if not fabric.count:
        return None
    if width == 0:
        return _host_only(room, fabric, kind, avoid)
    best: Offer | None = None
    for tier in fabric.site(kind).tiers:
        offer = _in_tier(room, fabric, kind, width, tier=tier, avoid=avoid)
        if offer is None:
            continue
        if best is None or offer.speed / offer.slowdown > best.speed / best.slowdown:
            best = offer
    return best


def first_fit(
    room: Room, fabric: Fabric, kind: Kind, width: int, *, avoid: Bools | None = None
) -> Offer | None:
    """The first node with room; wider jobs the first whole nodes and one for the rest."""
    if width == 0:
        return _host_only(room, fabric, kind, avoid)
    tier = next(iter(fabric.site(kind).tiers), None)
    size = 0 if tier is None else int(tier.capacity.max(initial=0))
    if tier is None or not size:
        return None
    offered = _allowed(room.offered(kind, tier), avoid)
    whole, rest = divmod(width, size)
    shares: list[Share] = []
    if whole:
        nodes = np.flatnonzero(offered == size)[:whole]
        if len(nodes) < whole:
            return None
        shares += [(int(node), size) for node in nodes]
    if rest:
        taken = {node for node, _ in shares}
        found = next((n for n in np.flatnonzero(offered >= rest).tolist() if n not in taken), None)
        if found is None:
            return None
        shares.append((found, rest))
    return _offer(fabric, kind, width, shares, tier)


def packed_fit(
    room: Room, fabric: Fabric, kind: Kind, width: int, *, avoid: Bools | None = None
) -> Offer | None:
    """One node, or whole nodes: no network card serves two jobs (AFS's network packing).

    A width that these nodes can never hold in that way is placed as it comes.
    """
    if width == 0:
        return _host_only(room, fabric, kind, avoid)
    for tier in fabric.site(kind).tiers:
        size = int(tier.capacity.max(initial=0))
        if not size or not _can_be_packed(fabric, tier, size, width):
            return best_fit(room, fabric, kind, width, avoid=avoid)
        offered = _allowed(room.offered(kind, tier), avoid)
        shares = _on_one(offered, width)
        if not shares and width > size:
            shares = _spread(fabric, kind, np.where(offered == size, offered, 0), width)
        if shares:
            return _offer(fabric, kind, width, shares, tier)
    return None


def _can_be_packed(fabric: Fabric, tier: Tier, size: int, width: int) -> bool:
    """Whether it fits a node, or so many nodes as large as the largest of one pool."""
    if width <= size:
        return True
    whole = np.bincount(fabric.nodes.pool, tier.capacity == size)
    return width % size == 0 and int(whole.max()) * size >= width


def anywhere(
    room: Room, fabric: Fabric, kind: Kind, width: int, *, avoid: Bools | None = None
) -> Offer | None:
    """Any free GPUs, counted over the whole cluster in node order."""
    if width == 0:
        return _host_only(room, fabric, kind, avoid)
    tier = next(iter(fabric.site(kind).tiers), None)
    if tier is None:
        return None
    offered = _allowed(room.offered(kind, tier), avoid)
    reached = np.cumsum(offered)
    if not len(reached) or reached[-1] < width:
        return None
    last = int(np.searchsorted(reached, width))
    nodes = np.flatnonzero(offered[: last + 1])
    shares = [(int(node), int(offered[node])) for node in nodes]
    shares[-1] = (last, width - int(reached[last] - offered[last]))
    return _offer(fabric, kind, width, shares, tier)


def _host_only(room: Room, fabric: Fabric, kind: Kind, avoid: Bools | None) -> Offer | None:
    fits = fabric.usable & (room.cpus >= kind.cpus) & (room.memory_gib >= kind.memory_gib)
    suiting = fabric.suiting(kind)
    fits = fits if suiting is None else fits & suiting
    if avoid is not None:
        fits = fits & ~avoid
    nodes = np.flatnonzero(fits)
    if not len(nodes):
        return None
    emptiest_of_gpus = nodes[np.lexsort((room.cpus[nodes], room.gpus[nodes]))[0]]
    return Offer(((int(emptiest_of_gpus), 0),), 1, 1.0, 1.0)


def _in_tier(
    room: Room, fabric: Fabric, kind: Kind, width: int, *, tier: Tier, avoid: Bools | None
) -> Offer | None:
    offered = _allowed(room.offered(kind, tier), avoid)
    shares = _on_one(offered, width) or _spread(fabric, kind, offered, width)
    return _offer(fabric, kind, width, shares, tier) if shares else None


def _on_one(offered: Ints, width: int) -> list[Share]:
    """The node with least to spare."""
    leftover = np.where(offered >= width, offered, NOWHERE)
    node = int(leftover.argmin())
    return [] if leftover[node] == NOWHERE else [(node, width)]


def _spread(fabric: Fabric, kind: Kind, offered: Ints, width: int) -> list[Share]:
    """Several nodes of one rack if possible, and always of one pool."""
    if width == 1 or kind.max_nodes == 1 or int(offered.sum()) < width:
        return []
    if not fabric.one_rack and (shares := _pack(offered, width, fabric.nodes.rack, kind.max_nodes)):
        return shares
    if fabric.one_pool:
        return _pack_all(offered, width, kind.max_nodes)
    return _pack(offered, width, fabric.nodes.pool, kind.max_nodes)


def _pack_all(offered: Ints, width: int, max_nodes: int | None) -> list[Share]:
    """Fewest nodes of the whole cluster that hold `width`."""
    nodes = np.flatnonzero(offered)
    nodes = nodes[np.argsort(-offered[nodes], kind="stable")]
    gpus = offered[nodes]
    reached = np.cumsum(gpus)
    last = int(np.searchsorted(reached, width))
    if last == len(nodes) or (max_nodes is not None and last + 1 > max_nodes):
        return []
    shares = list(zip(nodes[:last].tolist(), gpus[:last].tolist(), strict=True))
    rest = width - int(reached[last] - gpus[last])
    smallest = last + int(np.count_nonzero(gpus[last:] >= rest)) - 1
    shares.append((int(nodes[smallest]), rest))
    return shares


def _pack(offered: Ints, width: int, domain: Ints, max_nodes: int | None) -> list[Share]:
    """Fewest nodes of one domain that hold `width`; ties to the domain with least to spare."""
    nodes = np.flatnonzero(offered > 0)
    nodes = nodes[np.lexsort((nodes, -offered[nodes], domain[nodes]))]
    gpus, where = offered[nodes], domain[nodes]
    first = np.flatnonzero(np.r_[True, where[1:] != where[:-1]])
    begin = np.repeat(first, np.diff(np.r_[first, len(nodes)]))
    running = np.cumsum(gpus)
    inside = running - (running[begin] - gpus[begin])
    reached = np.flatnonzero((inside >= width) & (inside - gpus < width))
    if not len(reached):
        return []
    needed = reached - begin[reached] + 1
    total = np.bincount(where, gpus)[where[reached]]
    pick = int(np.lexsort((total, needed))[0])
    if max_nodes is not None and needed[pick] > max_nodes:
        return []
    last, start = int(reached[pick]), int(begin[reached[pick]])
    shares = [(int(nodes[i]), int(gpus[i])) for i in range(start, last)]
    rest = width - sum(share for _, share in shares)
    end = last + int(np.sum(where[last:] == where[last]))
    enough = np.flatnonzero(gpus[last:end] >= rest)
    shares.append((int(nodes[last + int(enough[-1])]), rest))
    return shares


def _allowed(offered: Ints, avoid: Bools | None) -> Ints:
    return offered if avoid is None else offered * ~avoid


def _offer(fabric: Fabric, kind: Kind, width: int, shares: list[Share], tier: Tier) -> Offer:
    if len(shares) == 1:
        return Offer(tuple(shares), 1, 1.0, tier.speed)
    racks = len({int(fabric.nodes.rack[node]) for node, _ in shares})
    fewest = fabric.fewest_nodes(kind, width) or 1
    slowdown = kind.locality.slowdown(nodes=len(shares), fewest_nodes=fewest, racks=racks)
    least = 1.0
    if racks > 1:
        tightest = min(fabric.fewest_racks(kind, width) or 1, racks)
        least = kind.locality.slowdown(nodes=fewest, fewest_nodes=fewest, racks=tightest)
    return Offer(tuple(shares), racks, slowdown, tier.speed, least)
