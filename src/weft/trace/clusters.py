"""A cluster from whatever a person has at hand: `52x8`, a node list, or a YAML spec.

Only the last needs pydantic and a YAML parser, so they are loaded with it and not before.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from weft.model.cluster import Cluster
from weft.model.errors import SpecError
from weft.model.queue import QueueTree

MOST_NODES = 100_000
MOST_NODE_GPUS = 10_000
"""More than any cluster has. A slip of the keyboard is not to fill this machine's memory."""

SHORT = re.compile(r"(\d+)\s*[x×]\s*(\d+)")


@dataclass(frozen=True, slots=True)
class ClusterSetup:
    """The machines, and the queues that share them."""

    cluster: Cluster
    queues: QueueTree = field(default_factory=QueueTree)


def read_cluster(source: str | Path) -> ClusterSetup:
    """`52x8` (nodes × GPUs), or the path of a `.csv`, `.csv.gz`, `.yaml` or `.yml` file."""
    short = short_form(str(source))
    if short is not None:
        return ClusterSetup(Cluster.uniform(*short))
    path = Path(source)
    if path.suffix in (".yaml", ".yml"):
        from weft.trace.cluster_spec import read_spec

        return read_spec(path)
    if path.name.endswith((".csv", ".csv.gz")):
        from weft.trace.node_list import read_nodes

        return ClusterSetup(read_nodes(path))
    raise SpecError(
        f"'{source}' is no cluster",
        hint="write nodes x GPUs such as 52x8, or name a .yaml spec or a .csv node list",
    )


def short_form(text: str) -> tuple[int, int] | None:
    """Nodes and GPUs per node of `52x8`, None where the text is something else."""
    found = SHORT.fullmatch(text.strip())
    if found is None:
        return None
    nodes, gpus = int(found[1]), int(found[2])
    if nodes < 1:
        raise SpecError(f"'{text}' has no nodes", hint="write at least one, such as 1x8")
    if nodes > MOST_NODES or gpus > MOST_NODE_GPUS:
        most = f"at most {MOST_NODES:,d} nodes of {MOST_NODE_GPUS:,d} GPUs"
        raise SpecError(f"'{text}' is larger than any cluster", hint=f"write {most}")
    return nodes, gpus
