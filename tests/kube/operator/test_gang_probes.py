"""Nodes are asked before a gang starts on them: on a real control plane, by real probes."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kube.heads import Head, free_port
from tests.kube.installed import install_chart
from tests.kube.operators import Lab, OperatorProcess, wait_until
from tests.waiting import HANG_SECONDS, until_async
from tools.testcluster import ControlPlane
from tools.testcluster.rest import MERGE_PATCH
from weft.agent.probes.listening import Listening
from weft.agent.probes.probe import Result
from weft.agent.probes.prober import Prober
from weft.kube.operator import gang_probes
from weft.kube.operator.gang_probes import GangProbes, Wires, ask

pytestmark = pytest.mark.enable_socket
GOOD, BAD = Result(probe="disk", passed=True), Result(probe="disk", passed=False, text="dead")
OPTIONS: Final = {"gang_probe_gpus": 8, "backoff_seconds": 1.0}
ELASTIC: Final = "maxmin(hold=0.0, spacing=0.1, min_run=0.0)"
NODES: Final = 32


class Probed:
    """A machine that is probed; `open` lets the probe end, and so do the `others` it waits for."""

    def __init__(self) -> None:
        self.found: Sequence[Result] = (GOOD,)
        self.times = 0
        self.others: threading.Barrier | None = None
        self.open = threading.Event()
        self.open.set()

    def probing(self) -> Sequence[Result]:
        self.times += 1
        if self.others is not None:
            self.others.wait(HANG_SECONDS)
        self.open.wait(HANG_SECONDS)
        return self.found


@contextmanager
def listening(*machines: Probed) -> Iterator[list[int]]:
    servers = [Listening(Prober(machine.probing), 0) for machine in machines]
    try:
        yield [server.port for server in servers]
    finally:
        for machine in machines:
            machine.open.set()
        for server in servers:
            server.close()


# --- asking ------------------------------------------------------------------------------------


def answered(port: int) -> str | None:
    return asyncio.run(ask("127.0.0.1", port))


def test_a_node_says_whether_it_is_well() -> None:
    well, ill = Probed(), Probed()
    ill.found = (GOOD, BAD)
    with listening(well, ill) as ports:
        assert [answered(port) for port in ports] == ["", "disk: dead"]


def test_where_nobody_listens_nobody_can_tell() -> None:
    with listening(Probed()) as (port,):
        pass
    assert answered(port) is None


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"hello",
        b"HTTP/1.0 200 OK\r\n\r\n",
        b'HTTP/1.0 200 OK\r\n\r\n{"passed": true}',
        b'HTTP/1.0 503 No\r\n\r\n{"passed": true, "words": ""}',
        b"HTTP/1.0 200 OK\r\n\r\n" + b"[" * 200_000,
        b"HTTP/1.0 200 OK\r\n\r\n" + b"[" * 60_000,
        b'HTTP/1.0 \xff OK\r\n\r\n{"passed": true, "words": ""}',
    ],
)
def test_who_is_there_and_does_not_say_that_all_is_well_has_failed(said: bytes) -> None:
    async def serve() -> str | None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            writer.write(said)
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            return await ask("127.0.0.1", server.sockets[0].getsockname()[1])

    assert asyncio.run(serve()) == "its probe did not answer"


# --- asking for gangs --------------------------------------------------------------------------


class Desk:
    """Who hears of answers, and where the nodes are."""

    def __init__(self, ports: dict[str, int], bound: float = 60.0) -> None:
        self.ports, self.now = ports, 0.0
        self.jobs: list[str] = []
        self.nodes: list[str] = []
        wires = Wires(self.address_of, lambda: self.now, self.jobs.append, self.nodes.append)
        self.probes = GangProbes(wires, bound)

    def address_of(self, node: str) -> tuple[str, int] | None:
        return ("127.0.0.1", self.ports[node]) if node in self.ports else None

    async def until_told(self, job: str) -> None:
        await until_async(lambda: job in self.jobs, f"the answers for {job}")


def played(scene: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(scene())  # type: ignore[arg-type]


def test_a_job_is_looked_at_again_when_all_its_nodes_have_answered() -> None:
    slow, quick = Probed(), Probed()
    slow.open.clear()

    async def scene() -> None:
        desk = Desk(dict(zip(("slow", "quick"), ports, strict=True)))
        desk.probes.ask("lab/gang", ["slow", "quick", "bare"])
        desk.probes.ask("lab/other", ["quick"])
        await desk.until_told("lab/other")
        known = desk.probes.known()
        assert known["bare"].answered is not None, "where nothing probes nothing is waited for"
        assert known["slow"].answered is None and desk.jobs == ["lab/other"]
        slow.open.set()
        await desk.until_told("lab/gang")
        desk.probes.ask("lab/third", ["slow", "quick"])
        assert (slow.times, quick.times) == (1, 1), "what was answered holds for a while"
        desk.now += 121.0
        assert not desk.probes.known()
        desk.probes.close()

    with listening(slow, quick) as ports:
        played(scene)


def test_a_node_that_fails_takes_nobody_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_probes, "HOLDS_SECONDS", 0.0)
    ill = Probed()
    ill.found = (BAD,)

    async def scene() -> None:
        desk = Desk({"ill": port})
        desk.probes.ask("lab/gang", ["ill"])
        await until_async(lambda: desk.nodes, "the node's failure")
        desk.now -= 1.0
        assert desk.probes.unfit("ill") == "disk: dead"
        await until_async(lambda: len(desk.nodes) == 2, "the later look")
        desk.now += 2.0
        assert not desk.probes.unfit("ill"), "its own pod has the word from here on"
        desk.probes.close()

    with listening(ill) as (port,):
        played(scene)


def test_a_node_that_fails_again_is_looked_at_once_more_and_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gang_probes, "HOLDS_SECONDS", 0.0)
    ill = Probed()
    ill.found = (BAD,)

    async def scene() -> None:
        desk, faults = Desk({"ill": port}), list[object]()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, fault: faults.append(fault))
        for times in (1, 2, 3):
            desk.probes.ask(f"lab/gang-{times}", ["ill"])
            await desk.until_told(f"lab/gang-{times}")
            assert len(desk.probes._later) == 1, "one look to come for each node"
        await until_async(lambda: not desk.probes._later, "every look that was to come")
        assert desk.nodes == ["ill"] * 4, "three that it fails, and the one that was to come"
        assert not faults
        desk.probes.close()

    with listening(ill) as (port,):
        played(scene)


def test_who_does_not_answer_in_time_has_failed() -> None:
    hangs = Probed()
    hangs.open.clear()

    async def scene() -> None:
        desk = Desk({"n": port}, bound=0.2)
        desk.probes.ask("lab/gang", ["n"])
        await desk.until_told("lab/gang")
        assert desk.probes.unfit("n") == "its probe did not answer within 0 s"
        desk.probes.close()
        hangs.open.set()

    with listening(hangs) as (port,):
        played(scene)


def test_the_nodes_of_a_large_gang_are_asked_at_once() -> None:
    """No probe ends before all have begun."""
    machines = [Probed() for _ in range(NODES)]
    together = threading.Barrier(NODES)
    for machine in machines:
        machine.others = together

    async def scene() -> None:
        desk = Desk({f"n{number}": port for number, port in enumerate(ports)})
        desk.probes.ask("lab/gang", desk.ports)
        await desk.until_told("lab/gang")
        assert not any(desk.probes.unfit(node) for node in desk.ports)
        assert len(desk.probes.known()) == NODES
        desk.probes.close()

    with listening(*machines) as ports:
        played(scene)


# --- on a cluster ------------------------------------------------------------------------------


@pytest.fixture
def lab(cluster: ControlPlane) -> Lab:
    cluster.add_nodes(3, gpus=8)
    return Lab(cluster)


def add_probe(lab: Lab, node: str, port: int) -> None:
    """As the DaemonSet's pods are, but that the kubelet runs beside us."""
    pods = "/api/v1/namespaces/weft-system/pods"
    restricted: dict[str, Any] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {
        "name": "probes",
        "image": "weft",
        "ports": [{"name": "probe", "containerPort": port}],
        "securityContext": restricted,
    }
    body = {
        "metadata": {"name": f"probe-{node}", "labels": {"weft.dev/probe": "node"}},
        "spec": {"nodeName": node, "containers": [container]},
    }
    lab.cluster.api.must("POST", pods, body)
    path = f"{pods}/probe-{node}/status"
    running = lambda: lab.cluster.api.must("GET", path)["status"].get("phase") == "Running"  # noqa: E731
    wait_until(running, f"the probe of {node}")
    address = {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
    lab.cluster.api.must("PATCH", path, {"status": address}, MERGE_PATCH)


def test_a_gang_starts_on_nodes_that_pass_now(
    cluster: ControlPlane, lab: Lab, tmp_path: Path
) -> None:
    machines = [Probed() for _ in range(3)]
    machines[0].found = (BAD,)
    machines[1].open.clear()
    kubeconfig = install_chart(cluster, {"probes": {"enabled": True}})
    with listening(*machines) as ports:
        for number, port in enumerate(ports):
            add_probe(lab, f"node-{number}", port)
        with OperatorProcess(kubeconfig, tmp_path, options=OPTIONS):
            lab.submit("gang", 16)
            wait_until(lambda: _reason(lab, "gang") == "Health.Probed", "its reason")
            machines[1].open.set()
            lab.await_workers("gang", epoch=_started(lab, "gang"))
            held = {pod["spec"]["nodeName"] for pod in lab.pods("gang").values()}
            assert held == {"node-1", "node-2"}
            lab.submit("small", 1)
            lab.wait_for("small", "Queued")


def test_a_gang_trains_on_beside_a_node_that_fails_now(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """The node was somebody else's until now; the gang would have grown onto it."""
    cluster.add_nodes(2, gpus=2)
    lab, port = Lab(cluster), free_port()
    machines = {"node-0": Probed(), "node-1": Probed()}
    options = {**OPTIONS, "gang_probe_gpus": 3, "recipe": ELASTIC, "reports_port": port}
    kubeconfig = install_chart(cluster, {"probes": {"enabled": True}})
    with listening(*machines.values()) as ports:
        for node, at in zip(machines, ports, strict=True):
            add_probe(lab, node, at)
        with OperatorProcess(kubeconfig, tmp_path, options=options):
            lab.submit("first", 2)
            lab.await_workers("first")
            lab.submit("wide", "1..4")
            with Head(cluster, lab.namespace, "wide", port):
                lab.await_workers("wide")
                (pod,) = lab.pods("first").values()
                machines[pod["spec"]["nodeName"]].found = (BAD,)
                lab.cancel("first")
                wait_until(lambda: "NotResized" in lab.told("wide"), "it to be told")
                assert lab.told("wide")["NotResized"].endswith("disk: dead")
                lab.wait_for("wide", "Running")
                decision = lab.job("wide")["status"]["decision"]
                assert (decision["epoch"], decision["width"]) == (1, 2)
                assert len(lab.pods("wide")) == 2, "nobody was started there"


def _reason(lab: Lab, name: str) -> str:
    return str(lab.job(name).get("status", {}).get("reason", ""))


def _started(lab: Lab, name: str) -> int:
    def epoch() -> int:
        return int(lab.job(name)["status"].get("decision", {}).get("epoch", 0))

    wait_until(lambda: epoch() > 0, f"{name} to be decided")
    return epoch()
