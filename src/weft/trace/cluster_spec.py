"""The cluster spec: a short YAML file of pools, their nodes, and the queues that share them.

    pools:
      - name: a100
        links: {in_node_gbps: 300, in_rack_gbps: 25, in_pool_gbps: 12.5}
        nodes: {count: 52, gpus: 8, gpu_type: A100, cpus: 64, memory_gib: 512, racks: 4}
    queues:
      - name: research
        guaranteed: 256
        queues:
          - {name: vision, guaranteed: 128, limit: 320}
          - {name: speech, guaranteed: 64, borrowing: false, max_slowdown: 3}

One pool needs no name: `nodes: 52x8` is a whole spec. Nodes are dealt over a pool's racks in
blocks. A key that does not exist is an error with the nearest one that does, because a spec whose
misspelt limit is ignored looks exactly like one that works.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from weft.model.cluster import Cluster, Gpu, Links, Node, Pool
from weft.model.errors import SpecError, UnknownName
from weft.model.ids import ANY_GPU, DEFAULT_POOL, GpuType, NodeId, PoolId, QueueId, RackId
from weft.model.queue import Queue, QueueTree
from weft.trace.clusters import MOST_NODE_GPUS, MOST_NODES, ClusterSetup, short_form

UNKNOWN_KEY = "unknown_key"
ABOVE_LIMIT = "above_limit"

Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Strict(BaseModel):
    """A part of the spec: unknown keys are refused, with the nearest known one."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, given: object) -> object:
        for key in given if isinstance(given, dict) else ():
            if key not in cls.model_fields:
                known = list(cls.model_fields)
                near = get_close_matches(str(key), known, n=1)
                hint = f"did you mean '{near[0]}'?" if near else f"keys here: {', '.join(known)}"
                raise PydanticCustomError(
                    UNKNOWN_KEY, "no key '{key}' here", {"key": str(key), "hint": hint}
                )
        return given


def _expand(nodes: object) -> object:
    """`52x8` and a single group are lists of one group."""
    if isinstance(nodes, str):
        short = short_form(nodes)
        if short is None:
            raise PydanticCustomError("short_form", "'{text}' is not nodes x GPUs", {"text": nodes})
        return [{"count": short[0], "gpus": short[1]}]
    return [nodes] if isinstance(nodes, dict) else nodes


class NodeGroup(Strict):
    """Equal machines: so many, or these names."""

    count: Annotated[int, Field(ge=1, le=MOST_NODES)] | None = None
    names: list[str] | None = None
    gpus: Annotated[Count, Field(le=MOST_NODE_GPUS)]
    gpu_type: str | None = None
    gpu_memory_gib: Amount | None = None
    cpus: Amount | None = None
    memory_gib: Amount | None = None
    racks: Annotated[int, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _either(self) -> "NodeGroup":
        if self.count is not None and self.names is not None:
            raise PydanticCustomError("either", "give count or names, not both")
        return self

    @property
    def size(self) -> int:
        return len(self.names) if self.names is not None else self.count or 1


class LinkSpec(Strict):
    """Bandwidth between two GPUs by how far apart they are."""

    in_node_gbps: Amount | None = None
    in_rack_gbps: Amount | None = None
    in_pool_gbps: Amount | None = None


NodeGroups = Annotated[list[NodeGroup], Field(min_length=1), BeforeValidator(_expand)]


class PoolSpec(Strict):
    """A network domain: no gang spans two."""

    name: Annotated[str, Field(min_length=1)]
    links: LinkSpec = LinkSpec()
    nodes: NodeGroups


class QueueSpec(Strict):
    """A queue and the queues below it."""

    name: Annotated[str, Field(min_length=1)]
    guaranteed: Count | None = None
    limit: Count | None = None
    borrowing: bool = True
    weight: Amount = 1.0
    max_slowdown: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None = None
    queues: list["QueueSpec"] = []

    @model_validator(mode="after")
    def _in_order(self) -> "QueueSpec":
        if self.guaranteed is not None and self.limit is not None and self.guaranteed > self.limit:
            raise PydanticCustomError(
                ABOVE_LIMIT,
                "guaranteed {guaranteed} is above limit {limit}",
                {"guaranteed": self.guaranteed, "limit": self.limit},
            )
        return self


class ClusterSpec(Strict):
    """The whole file: pools, or nodes of the one pool; queues if they are divided."""

    pools: list[PoolSpec] = []
    nodes: NodeGroups | None = None
    queues: list[QueueSpec] = []

    @model_validator(mode="after")
    def _some_nodes(self) -> "ClusterSpec":
        if bool(self.pools) == (self.nodes is not None):
            raise PydanticCustomError("either", "give either pools or nodes")
        return self


def read_spec(path: Path) -> ClusterSetup:
    """A YAML file as machines and queues."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: cannot be read: {error}", hint="check path and file") from error
    return parse_spec(text, name=path.name)


def parse_spec(text: str, *, name: str = "cluster spec") -> ClusterSetup:
    """The same from text; `name` is how messages call it."""
    try:
        document = yaml.load(text, Loader=_UniqueKeys)  # a SafeLoader
    except yaml.YAMLError as error:
        raise SpecError(f"{name}: is not YAML: {error}", hint="check its indentation") from error
    try:
        spec = ClusterSpec.model_validate({} if document is None else document)
    except ValidationError as error:
        raise _spec_error(name, error) from None
    return ClusterSetup(_cluster(spec), _queues(spec.queues))


class _UniqueKeys(yaml.SafeLoader):
    """YAML that refuses a key given twice, of which plain YAML keeps the last in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for position, key in enumerate(keys):
            if key in keys[:position]:
                problem = f"key '{key}' is given twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        return super().construct_mapping(node, deep)


def _spec_error(name: str, error: ValidationError) -> SpecError:
    details = error.errors()
    first = details[0]
    where = ".".join(str(part) for part in first["loc"])
    rest = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    message = f"{name}{' ' + where if where else ''}: {first['msg']}{rest}"
    if first["type"] == UNKNOWN_KEY:
        return UnknownName(message, hint=first["ctx"]["hint"])
    return SpecError(message, hint=_hint(first))


def _hint(detail: ErrorDetails) -> str:
    if detail["type"] == "missing":
        return "add the key"
    if detail["type"] == "short_form":
        return "write 52x8, or {count: 52, gpus: 8}"
    if detail["type"] == ABOVE_LIMIT:
        return "raise the limit, or promise less"
    return f"it is {detail['input']!r} now"


def _cluster(spec: ClusterSpec) -> Cluster:
    if spec.nodes is not None:
        return Cluster(tuple(_nodes(DEFAULT_POOL, spec.nodes, prefix="")))
    nodes: list[Node] = []
    pools: list[Pool] = []
    for pool in spec.pools:
        pools.append(Pool(PoolId(pool.name), Links(**pool.links.model_dump())))
        nodes += _nodes(PoolId(pool.name), pool.nodes, prefix=f"{pool.name}-")
    if len({pool.id for pool in pools}) < len(pools):
        raise SpecError("a pool is listed twice", hint="pool names are unique")
    return Cluster(tuple(nodes), tuple(pools))


def _nodes(pool: PoolId, groups: list[NodeGroup], *, prefix: str) -> Iterator[Node]:
    """Nodes of a pool, numbered through; racks too, each group in racks of its own."""
    digits = len(str(sum(group.size for group in groups) - 1))
    number, racks = 0, 0
    for group in groups:
        gpu = Gpu(GpuType(group.gpu_type) if group.gpu_type else ANY_GPU, group.gpu_memory_gib)
        per_rack = -(-group.size // group.racks)
        for index in range(group.size):
            name = group.names[index] if group.names else f"{prefix}n{number:0{digits}d}"
            yield Node(
                id=NodeId(name),
                gpus=group.gpus,
                gpu=gpu,
                cpus=group.cpus,
                memory_gib=group.memory_gib,
                rack=RackId(f"{prefix}r{racks + index // per_rack}"),
                pool=pool,
            )
            number += 1
        racks += group.racks


def _queues(specs: list[QueueSpec]) -> QueueTree:
    return QueueTree(tuple(_flatten(specs, None))) if specs else QueueTree()


def _flatten(specs: list[QueueSpec], parent: QueueId | None) -> Iterator[Queue]:
    for spec in specs:
        queue = Queue(
            id=QueueId(spec.name),
            parent=parent,
            guaranteed_gpus=spec.guaranteed,
            limit_gpus=spec.limit,
            borrowing=spec.borrowing,
            weight=spec.weight,
            max_slowdown=spec.max_slowdown,
        )
        yield queue
        yield from _flatten(spec.queues, queue.id)
