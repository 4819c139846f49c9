"""Which nodes are Weft's, as the chart has written it down for whoever lists them.

The operator is told by its command line; people who may read nodes may read this too. Where there
is nothing to read, all nodes are shown, as an operator without such settings uses them.
"""

from collections.abc import Mapping
from os import environ
from typing import TYPE_CHECKING, Any, Final

import orjson

from weft.kube.client.errors import Forbidden, NotFound
from weft.kube.names import NAMESPACE, SETTINGS
from weft.kube.node_rules import EVERYWHERE, NodeRules

if TYPE_CHECKING:
    from weft.kube.client.api import Api

NAMESPACE_VARIABLE: Final = "WEFT_OPERATOR_NAMESPACE"
ENTRY: Final = "nodes.json"


async def read_node_rules(api: "Api", notes: list[str] | None = None) -> NodeRules:
    """As far as the reader may see them; `notes` tell what is missing."""
    namespace = environ.get(NAMESPACE_VARIABLE, NAMESPACE)
    try:
        found = await api.get(f"/api/v1/namespaces/{namespace}/configmaps/{SETTINGS}")
    except NotFound:
        return EVERYWHERE
    except Forbidden:
        if notes is not None:
            notes.append(f"you may not read {SETTINGS} in '{namespace}': all nodes are listed")
        return EVERYWHERE
    return rules_of(orjson.loads((found.get("data") or {}).get(ENTRY, "{}")))


def rules_of(said: Mapping[str, Any]) -> NodeRules:
    """The chart's values, as rules; what is empty is as usual."""
    usual = NodeRules()
    return NodeRules(
        selector=tuple(sorted((said.get("selector") or {}).items())),
        gpu_resources=tuple(said.get("gpuResources") or usual.gpu_resources),
        rack_labels=tuple(said.get("rackLabels") or usual.rack_labels),
        tolerations=tuple(said.get("tolerations") or ()),
        job_tolerations=tuple(said.get("jobTolerations") or ()),
        gpu_class=str(said.get("gpuClass") or ""),
    )
