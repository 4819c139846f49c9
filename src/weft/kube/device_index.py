"""Slices by the node that they are of, and claims of others by the pool that they hold of.

A cluster has about as many slices as nodes: whoever looks at a node must not look at all of them.
"""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from weft.kube.devices import ObservedClaim, ObservedSlice

Pool = tuple[str, str]
"""Driver and name."""

Key = TypeVar("Key")
Value = TypeVar("Value")


class DeviceIndex:
    """Of all slices and claims that are followed; it is kept up like the index of pods."""

    def __init__(self) -> None:
        self._on_node: dict[str, dict[str, ObservedSlice]] = {}
        self._nodes_of: dict[Pool, dict[str, str]] = {}  # by the slice's uid
        self._of_pool: dict[Pool, dict[str, ObservedClaim]] = {}

    @property
    def nodes(self) -> Iterable[str]:
        return self._on_node

    def slice_changed(self, old: ObservedSlice | None, new: ObservedSlice | None) -> None:
        if old is not None:
            _drop(self._on_node, old.node, old.uid)
            _drop(self._nodes_of, (old.driver, old.pool), old.uid)
        if new is not None:
            self._on_node.setdefault(new.node, {})[new.uid] = new
            self._nodes_of.setdefault((new.driver, new.pool), {})[new.uid] = new.node

    def claim_changed(self, old: ObservedClaim | None, new: ObservedClaim | None) -> None:
        """Claims of Weft's jobs are left out: their seats account for those devices."""
        if old is not None and not old.job:
            for pool in old.pools():
                _drop(self._of_pool, pool, old.uid)
        if new is not None and not new.job:
            for pool in new.pools():
                self._of_pool.setdefault(pool, {})[new.uid] = new

    def slices_on(self, node: str) -> Iterable[ObservedSlice]:
        return self._on_node.get(node, {}).values()

    def claims_on(self, node: str) -> Iterator[ObservedClaim]:
        """Of devices in pools of the node."""
        for pool in dict.fromkeys((one.driver, one.pool) for one in self.slices_on(node)):
            yield from self._of_pool.get(pool, {}).values()

    def nodes_of(self, claim: ObservedClaim) -> Iterable[str]:
        """Whose devices it holds, each once."""
        pools = sorted(claim.pools())
        return dict.fromkeys(node for p in pools for node in self._nodes_of.get(p, {}).values())


def _drop(index: dict[Key, dict[str, Value]], key: Key, uid: str) -> None:
    index[key].pop(uid)
    if not index[key]:
        del index[key]
