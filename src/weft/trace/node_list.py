"""Machines from a list: `node, num_gpus, gpu_type, num_cpus, …`, a topology, or a uniform spec.

A node list is a cluster, not a sample: a row that cannot be read is raised, never left out. Nodes
without GPUs stay, for jobs that need none. A topology file names a node's switches; its top-of-rack
switch is the rack and its core group the pool, and it can be joined to a list of the same nodes.
"""

from collections.abc import Mapping
from pathlib import Path

from weft.model.cluster import Cluster, Gpu, Node
from weft.model.errors import SpecError, TraceFault
from weft.model.ids import ANY_GPU, DEFAULT_POOL, DEFAULT_RACK, GpuType, NodeId, PoolId, RackId
from weft.trace.reading import Reading
from weft.trace.sheet import Sheet, load

LIST_COLUMNS = frozenset({"node", "num_gpus"})
TOPOLOGY_COLUMNS = frozenset({"node", "core", "agg", "tor"})
UNIFORM_COLUMNS = frozenset({"num_switch", "num_node_p_switch", "num_gpu_p_node"})
MIB_PER_GIB = 1024.0

Place = tuple[PoolId, RackId]
NOWHERE: Place = (DEFAULT_POOL, DEFAULT_RACK)


def read_nodes(
    path: Path, *, topology: Path | None = None, gpus_per_node: int | None = None
) -> Cluster:
    """The cluster of a file; `topology` adds racks, `gpus_per_node` what a topology leaves out."""
    sheet = load(path)
    header = set(sheet.header)
    if header >= LIST_COLUMNS:
        return _listed(sheet, _read_topology(topology) if topology else {})
    if header >= TOPOLOGY_COLUMNS:
        return _from_topology(sheet, gpus_per_node)
    if header >= UNIFORM_COLUMNS:
        return _uniform(sheet)
    raise TraceFault(
        f"{path.name}: the header ({', '.join(sheet.header)}) is of no known node list",
        hint="a node list has node, num_gpus, and perhaps gpu_type, num_cpus, memory_mib",
    )


def _listed(sheet: Sheet, places: Mapping[str, Place]) -> Cluster:
    reading = Reading(sheet)
    names = reading.texts("node", missing="name every node")
    gpus = reading.wholes("num_gpus", missing="write 0 where it has none")
    types = reading.texts("gpu_type")
    cpus = reading.numbers("num_cpus")
    memory = reading.numbers("memory_mib", per=MIB_PER_GIB)
    for index, name in enumerate(names):
        if places and name not in places:
            problem = "is missing in the topology"
            reading.log.error(index, "node", name, problem=problem, remedy="add its switches")
    reading.log.settle("raise")
    return Cluster(
        tuple(
            _node(
                name,
                gpus[index] or 0,
                place=places.get(name, NOWHERE),
                gpu_type=types[index],
                cpus=cpus[index],
                memory_gib=memory[index],
            )
            for index, name in enumerate(names)
        )
    )


def _from_topology(sheet: Sheet, gpus_per_node: int | None) -> Cluster:
    if gpus_per_node is None:
        raise SpecError(
            f"{sheet.path.name} tells switches, not GPUs", hint="give gpus_per_node, such as 8"
        )
    places = _places(sheet)
    return Cluster(tuple(_node(name, gpus_per_node, place=places[name]) for name in places))


def _read_topology(path: Path) -> dict[str, Place]:
    sheet = load(path)
    if not set(sheet.header) >= TOPOLOGY_COLUMNS:
        raise TraceFault(f"{path.name} is no topology", hint="it has node, core, agg and tor")
    return _places(sheet)


def _places(sheet: Sheet) -> dict[str, Place]:
    reading = Reading(sheet)
    names, cores, aggregations, racks = (
        reading.texts(column, missing="name it") for column in ("node", "core", "agg", "tor")
    )
    places: dict[str, Place] = {}
    for index, name in enumerate(names):
        if name in places:
            remedy = "list every node once"
            reading.log.error(index, "node", name, problem="is listed twice", remedy=remedy)
        # A switch number counts within its aggregation group only.
        rack = RackId(f"{aggregations[index]}/{racks[index]}")
        places[name] = (PoolId(cores[index]), rack)
    reading.log.settle("raise")
    return places


def _uniform(sheet: Sheet) -> Cluster:
    """Tiresias' shape: a row of equal machines under each of a number of switches."""
    reading = Reading(sheet)
    switches, nodes, gpus = (
        reading.wholes(column, least=least, missing="write a number")
        for column, least in (("num_switch", 1), ("num_node_p_switch", 1), ("num_gpu_p_node", 0))
    )
    cpus = reading.numbers("num_cpu_p_node")
    memory = reading.numbers("mem_p_node")
    reading.log.settle("raise")
    machines: list[Node] = []
    rack = 0
    for row in range(len(reading)):
        for _ in range(switches[row] or 0):
            place = (DEFAULT_POOL, RackId(f"r{rack}"))
            machines += [
                _node(
                    f"r{rack}n{number}",
                    gpus[row] or 0,
                    place=place,
                    cpus=cpus[row],
                    memory_gib=memory[row],
                )
                for number in range(nodes[row] or 0)
            ]
            rack += 1
    return Cluster(tuple(machines))


def _node(
    name: str,
    gpus: int,
    *,
    place: Place,
    gpu_type: str = "",
    cpus: float | None = None,
    memory_gib: float | None = None,
) -> Node:
    pool, rack = place
    return Node(
        id=NodeId(name),
        gpus=gpus,
        gpu=Gpu(GpuType(gpu_type) if gpu_type else ANY_GPU),
        cpus=cpus,
        memory_gib=memory_gib,
        pool=pool,
        rack=rack,
    )
