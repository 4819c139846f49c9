"""Clusters from a short form, from lists of machines, and from a YAML spec."""

import subprocess
import sys
from pathlib import Path

import pytest

from weft.model.cluster import Cluster, Gpu, Links
from weft.model.errors import SpecError, TraceFault, UnknownName
from weft.model.ids import GpuType, QueueId
from weft.model.queue import QueueTree
from weft.trace.cluster_spec import parse_spec
from weft.trace.clusters import read_cluster
from weft.trace.node_list import read_nodes

from .conftest import Write

SPEC = """\
pools:
  - name: a100
    links: {in_node_gbps: 300, in_rack_gbps: 25, in_pool_gbps: 12.5}
    nodes:
      count: 6
      gpus: 8
      gpu_type: A100
      gpu_memory_gib: 80
      cpus: 64
      memory_gib: 512
      racks: 3
  - name: t4
    nodes:
      - {names: [left, right], gpus: 4, gpu_type: T4}
      - {gpus: 0, cpus: 32}
queues:
  - name: research
    guaranteed: 32
    queues:
      - {name: vision, guaranteed: 16, limit: 40, weight: 2, max_slowdown: 3}
      - {name: speech, guaranteed: 8, borrowing: false}
  - name: spare
"""


class TestShortForm:
    def test_nodes_times_gpus(self) -> None:
        setup = read_cluster("52x8")
        assert setup.cluster == Cluster.uniform(52, 8)
        assert setup.queues == QueueTree()

    def test_the_spec_knows_it_too(self) -> None:
        assert parse_spec("nodes: 52x8").cluster == Cluster.uniform(52, 8)

    @pytest.mark.parametrize("text", ["52", "x8", "52x", "a.txt"])
    def test_anything_else_is_refused_with_what_would_do(self, text: str) -> None:
        with pytest.raises(SpecError, match="is no cluster") as caught:
            read_cluster(text)
        assert "52x8" in caught.value.hint

    def test_no_nodes_are_no_cluster(self) -> None:
        with pytest.raises(SpecError, match="has no nodes"):
            read_cluster("0x8")

    @pytest.mark.parametrize("text", ["99999999999x8", "8x99999999999"])
    def test_one_that_would_fill_this_machine_is_refused_at_once(self, text: str) -> None:
        with pytest.raises(SpecError, match="is larger than any cluster") as caught:
            read_cluster(text)
        assert "at most 100,000 nodes" in caught.value.hint

    def test_it_loads_neither_pydantic_nor_yaml(self) -> None:
        code = (
            "import sys; from weft.trace.clusters import read_cluster; read_cluster('2x8');"
            "print({'pydantic', 'yaml'} & set(sys.modules))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        )
        assert done.stdout.strip() == "set()"


class TestNodeLists:
    def test_a_list(self, file: Write) -> None:
        path = file("node,num_gpus,gpu_type,num_cpus,memory_mib", "a,8,V100,64,2048", "b,0,,,")
        one, two = read_cluster(path).cluster.nodes
        assert (one.id, one.gpus, one.gpu) == ("a", 8, Gpu(GpuType("V100")))
        assert (one.cpus, one.memory_gib) == (64.0, 2.0)
        assert (two.gpus, two.gpu, two.cpus, two.memory_gib) == (0, Gpu(), None, None)

    def test_a_node_that_cannot_be_read_is_never_left_out(self, file: Write) -> None:
        with pytest.raises(TraceFault, match="row 3, num_gpus 'x'"):
            read_nodes(file("node,num_gpus", "a,8", "b,x"))

    def test_a_node_listed_twice(self, file: Write) -> None:
        with pytest.raises(SpecError, match="node a is listed twice"):
            read_nodes(file("node,num_gpus", "a,8", "a,8"))

    def test_a_topology_gives_racks_and_pools(self, file: Write) -> None:
        path = file("node,core,agg,tor", "a,G6,P1,S1", "b,G6,P2,S1", name="topology.csv")
        one, two = read_nodes(path, gpus_per_node=8).nodes
        assert (one.pool, one.rack, one.gpus) == ("G6", "P1/S1", 8)
        assert two.rack == "P2/S1"

    def test_a_topology_does_not_know_gpus(self, file: Write) -> None:
        with pytest.raises(SpecError, match="tells switches, not GPUs"):
            read_nodes(file("node,core,agg,tor", "a,G6,P1,S1"))

    def test_a_list_joined_to_its_topology(self, file: Write) -> None:
        topology = file("node,core,agg,tor", "a,G6,P1,S1", name="topology.csv")
        (node,) = read_nodes(file("node,num_gpus", "a,4"), topology=topology).nodes
        assert (node.gpus, node.rack) == (4, "P1/S1")
        with pytest.raises(TraceFault, match="is missing in the topology"):
            read_nodes(file("node,num_gpus", "b,4"), topology=topology)

    def test_a_topology_that_is_none_or_says_two_things(self, file: Write) -> None:
        nodes = file("node,num_gpus", "a,4")
        with pytest.raises(TraceFault, match="is no topology"):
            read_nodes(nodes, topology=nodes)
        twice = file("node,core,agg,tor", "a,G6,P1,S1", "a,G6,P1,S2", name="topology.csv")
        with pytest.raises(TraceFault, match="is listed twice"):
            read_nodes(twice, gpus_per_node=8)

    def test_switches_of_equal_machines(self, file: Write) -> None:
        header = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node"
        cluster = read_cluster(file(header, "2,3,8,128,256")).cluster
        assert (len(cluster.nodes), cluster.gpus) == (6, 48)
        assert [node.rack for node in cluster.nodes] == ["r0"] * 3 + ["r1"] * 3
        assert (cluster.nodes[0].cpus, cluster.nodes[0].memory_gib) == (128.0, 256.0)

    def test_a_file_of_something_else(self, file: Write) -> None:
        with pytest.raises(TraceFault, match="of no known node list"):
            read_nodes(file("a,b", "1,2"))


class TestSpec:
    def test_pools_racks_and_links(self, file: Write) -> None:
        cluster = read_cluster(file(SPEC, name="cluster.yaml")).cluster
        assert (len(cluster.nodes), cluster.gpus) == (9, 56)
        a100 = cluster.nodes[:6]
        assert [node.id for node in a100] == [f"a100-n{number}" for number in range(6)]
        assert [node.rack for node in a100] == [f"a100-r{number // 2}" for number in range(6)]
        assert (a100[0].gpu, a100[0].cpus, a100[0].memory_gib) == (
            Gpu(GpuType("A100"), 80.0),
            64.0,
            512.0,
        )
        assert cluster.pools[0].links == Links(300.0, 25.0, 12.5)

    def test_groups_of_a_pool_are_numbered_through(self) -> None:
        nodes = parse_spec(SPEC).cluster.nodes[6:]
        assert [node.id for node in nodes] == ["left", "right", "t4-n2"]
        assert [node.rack for node in nodes] == ["t4-r0", "t4-r0", "t4-r1"]

    def test_queues_become_a_tree(self) -> None:
        tree = parse_spec(SPEC).queues
        vision = tree.get(QueueId("vision"))
        assert (vision.parent, vision.guaranteed_gpus) == ("research", 16)
        assert (vision.limit_gpus, vision.weight, vision.max_slowdown) == (40, 2.0, 3.0)
        assert not tree.get(QueueId("speech")).borrowing
        assert tree.get(QueueId("spare")).guaranteed_gpus is None

    @pytest.mark.parametrize(
        ("text", "message", "hint"),
        [
            ("nodez: 5x8", "no key 'nodez'", "did you mean 'nodes'?"),
            ("nodes: {gpu: 8}", "nodes.0: no key 'gpu'", "did you mean 'gpus'?"),
            ("nodes: 4x8\nqueues: [{name: a, limits: 4}]", "no key 'limits'", "mean 'limit'?"),
            ("nodes: {gpus: 8, zzz: 1}", "no key 'zzz'", "keys here: count, names"),
        ],
    )
    def test_an_unknown_key_is_refused_with_the_nearest(
        self, text: str, message: str, hint: str
    ) -> None:
        with pytest.raises(UnknownName, match=message) as caught:
            parse_spec(text)
        assert hint in caught.value.hint

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "give either pools or nodes"),
            ("nodes: 4x8\npools: [{name: a, nodes: 4x8}]", "give either pools or nodes"),
            ("[1, 2]", "valid dictionary"),
            ("nodes: 5 by 8", "'5 by 8' is not nodes x GPUs"),
            ("nodes: {count: 5}", "nodes.0.gpus: Field required"),
            ("nodes: {gpus: -1}", "greater than or equal to 0"),
            ("nodes: {gpus: '8'}", "valid integer"),
            ("nodes: {gpus: 8, cpus: .inf}", "nodes.0.cpus"),
            ("nodes: {count: 2, names: [a, b], gpus: 8}", "count or names, not both"),
            ("nodes: 4x8\nnodes: 2x8", "key 'nodes' is given twice"),
            ("nodes: [", "is not YAML"),
            ("pools: [{name: a, nodes: 1x8}, {name: a, nodes: 1x8}]", "a pool is listed twice"),
            ("nodes: 4x8\nqueues: [{name: a}, {name: a}]", "a queue is listed twice"),
            (
                "nodes: 1x4\nqueues: [{name: a, guaranteed: 100, limit: 2}]",
                "queues.0: guaranteed 100 is above limit 2",
            ),
            (
                "nodes: 4x8\n"
                "queues: [{name: a, guaranteed: 4, queues: [{name: b, guaranteed: 8}]}]",
                "queue a is guaranteed 4 GPUs and its children 8",
            ),
        ],
    )
    def test_what_cannot_be_used_as_written(self, text: str, message: str) -> None:
        with pytest.raises(SpecError, match=message) as caught:
            parse_spec(text)
        assert caught.value.hint

    def test_a_guarantee_may_be_the_limit_and_above_that_of_the_parent(self) -> None:
        """As queues of a cluster: what is above may be set by others, and holds all the same."""
        below = "queues: [{name: b, guaranteed: 8, limit: 8}]"
        tree = parse_spec(f"nodes: 4x8\nqueues: [{{name: a, limit: 4, {below}}}]").queues
        assert tree.get(QueueId("b")).guaranteed_gpus == 8

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(SpecError, match="cannot be read"):
            read_cluster(tmp_path / "cluster.yaml")
