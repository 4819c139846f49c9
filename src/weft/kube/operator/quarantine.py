"""Nodes that are set aside carry a taint, so that others keep away from them too.

The brain puts no job there anyway. The taint is Weft's own: no other is touched, and it goes when
the node has passed its check, or is Weft's no more. A patch carries the version that it was made
from, because the list of taints can only be written as a whole.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from weft.failure.health import Health
from weft.kube.client.api import Api
from weft.kube.client.errors import ApiError, Conflict, NotFound
from weft.kube.logs import Log
from weft.kube.operator.observation.node import SET_ASIDE, ObservedNode

EFFECT: Final = "NoSchedule"
LOOK_SECONDS: Final = 2.0
NODES: Final = "/api/v1/nodes"

log = Log("quarantine")

Taints = list[dict[str, Any]]


class Quarantine:
    """Keeps the taints as the brain's mind is."""

    def __init__(self, api: Api, nodes: Mapping[str, ObservedNode]) -> None:
        self._api, self._nodes = api, nodes

    async def keep(self, health: Callable[[], Health]) -> None:
        """Until cancelled; what fails is tried again at the next look."""
        while True:
            wanted = {str(one.node): _value(one.lemon) for one in health().aside}
            for name in due(self._nodes, wanted):
                try:
                    await self._write(name, wanted.get(name))
                except (NotFound, Conflict):
                    continue
                except ApiError as error:
                    log.warning("node_not_tainted", node=name, error=str(error))
                    break
            await asyncio.sleep(LOOK_SECONDS)

    async def _write(self, name: str, value: str | None) -> None:
        path = f"{NODES}/{name}"
        raw = await self._api.get(path)
        before = list((raw.get("spec") or {}).get("taints") or ())
        after = changed(before, value)
        if after == before:
            return
        about = {"resourceVersion": raw["metadata"]["resourceVersion"]}
        await self._api.patch(path, {"metadata": about, "spec": {"taints": after or None}})
        log.info("node_tainted" if value else "node_freed", node=name)


def due(nodes: Mapping[str, ObservedNode], wanted: Collection[str]) -> list[str]:
    """Nodes that carry the taint and should not, or the other way round."""
    return sorted(name for name, node in nodes.items() if node.set_aside != (name in wanted))


def changed(before: Taints, value: str | None) -> Taints:
    """With ours, or without it; those of others stay as they are."""
    others = [one for one in before if one.get("key") != SET_ASIDE]
    if value is None:
        return others
    return [*others, {"key": SET_ASIDE, "value": value, "effect": EFFECT}]


def _value(lemon: bool) -> str:
    return "repair" if lemon else "check"
