"""Real nodes for a control plane: real kubelets, containers, services and names.

    with ControlPlane(real=True) as plane, RealNodes(plane, count=2, gpus=2) as nodes:
        ...  # pods of OPERATOR_IMAGE and TRAIN_IMAGE, with imagePullPolicy Never
        nodes.kill("node-1")

Each node is a machine inside this one (`machine`) with its own containerd, kubelet and kube-proxy;
pods reach one another, services and the API server as in any cluster. GPUs are only said to be
there: a kubelet keeps whatever its node's status promises. CPUs and memory are this machine's, on
each node all of them.
"""

import math
import os
import platform
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, Self

from tools.testcluster import images
from tools.testcluster.binaries import CDI_PROGRAMS, REAL_PROGRAMS, missing
from tools.testcluster.containerd import PLUGINS
from tools.testcluster.control_plane import ControlPlane
from tools.testcluster.dns import Dns
from tools.testcluster.image_store import ImageStore
from tools.testcluster.layout import MAX_REAL_NODES, node_name
from tools.testcluster.machine import CGROUPS, Machine
from tools.testcluster.oci import Image
from tools.testcluster.real_node import RealNode
from tools.testcluster.rest import MERGE_PATCH
from weft.model.errors import WorldError

GPU: Final = "nvidia.com/gpu"
OPERATOR_IMAGE: Final = images.OPERATOR.removeprefix("docker.io/")
TRAIN_IMAGE: Final = images.TRAIN.removeprefix("docker.io/")

_PATIENCE_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.05
_NEEDED_PLUGINS: Final = ("ptp", "host-local", "loopback")


class RealNodes:
    """`node-0`, `node-1` and so on, and the names of their services and pods."""

    def __init__(
        self, plane: ControlPlane, *, count: int = 2, gpus: int = 2, devices: int = 0
    ) -> None:
        """`gpus` of a node are counted; beside them a driver hands out `devices`, if any."""
        if not 0 < count <= MAX_REAL_NODES:
            raise WorldError(f"{count} real nodes", hint=f"from 1 to {MAX_REAL_NODES}")
        self.names = tuple(node_name(index) for index in range(count))
        self._plane = plane
        self._gpus, self._devices = gpus, devices
        self._dns = Dns(plane.layout.folder, plane.kubeconfig())
        self._nodes = {
            name: RealNode(plane, index, cdi=devices > 0) for index, name in enumerate(self.names)
        }
        self._killed: set[str] = set()
        self._store: ImageStore | None = None
        self._images: tuple[Image, ...] = ()

    def __enter__(self) -> Self:
        try:
            self.start_all()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start_all(self) -> None:
        """Return when every node is ready with its GPUs, and names are known."""
        for index in range(MAX_REAL_NODES):  # what a run that was killed has left
            RealNode(self._plane, index).machine.remove()
        self._dns.start()
        self._store = ImageStore.prepare()
        self._images = images.with_weft(self._store.bases, self._plane.layout.folder)
        self._start(self.names)
        self._dns.wait()

    def stop(self) -> None:
        """End everything and remove its traces; the images stay in the cache."""
        for node in self._nodes.values():
            node.machine.remove()
        self._dns.stop()

    def is_ready(self, name: str) -> bool:
        """What the cluster thinks of it: of a lost node, the truth some seconds later."""
        return _is_ready(self._get(name), since=0.0)

    def machine(self, name: str) -> Machine:
        """To run commands in it, or to look at its processes."""
        return self._nodes[name].machine

    # ------------------------------------------------------------------ what befalls them

    def kill(self, name: str) -> None:
        """As by a loss of power: kubelet, containerd and every container end at once."""
        self._nodes[name].machine.kill()
        self._killed.add(name)

    def start(self, name: str) -> None:
        """Bring a lost node back, empty; return when it is ready with its GPUs."""
        self._start([name])

    def start_killed(self) -> None:
        """Bring back every node that was killed and not started since."""
        self._start(sorted(self._killed))

    def kill_kubelet(self, name: str) -> None:
        """Containers run on, and nobody speaks for the node."""
        self._nodes[name].machine.kill_program("kubelet")

    def start_kubelet(self, name: str) -> None:
        """Return when the node is ready with its GPUs."""
        began = time.time()
        self._nodes[name].start_kubelet()
        self._settle(name, began)

    def set_gpus(self, name: str, gpus: int) -> None:
        """As by a card that is put in or fails; what pods hold of them they keep."""
        held = {GPU: str(gpus)}
        body = {"status": {"capacity": held, "allocatable": held}}
        self._plane.api.must("PATCH", f"/api/v1/nodes/{name}/status", body, MERGE_PATCH)

    def set_all_gpus(self, gpus: int) -> None:
        """On every node, now and whenever it starts."""
        self._gpus = gpus
        for name in self.names:
            self.set_gpus(name, gpus)

    # ------------------------------------------------------------------ helpers

    def _start(self, names: Iterable[str]) -> None:
        if self._store is None:
            raise WorldError("the nodes were never started", hint="use them in a `with`")
        began = time.time()
        nodes = [self._nodes[name] for name in names]
        for node in nodes:
            node.start_runtime(self._store)
        for node in nodes:
            node.load(self._images, self._store)
            node.start_kubelet()
            node.start_proxy()
            if self._devices:
                node.start_driver(self._devices)
        for node in nodes:
            self._settle(node.name, began)
            self._killed.discard(node.name)

    def _settle(self, name: str, began: float) -> None:
        """Only then set GPUs: a kubelet takes them from a node that it does not remember."""
        self._wait(name, "ready", lambda: _is_ready(self._get(name), since=began))
        self.set_gpus(name, self._gpus)

    def _get(self, name: str) -> dict[str, Any]:
        answer = self._plane.api.send("GET", f"/api/v1/nodes/{name}")
        return answer.body if answer.status == HTTPStatus.OK else {}

    def _wait(self, name: str, state: str, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        machine = self._nodes[name].machine
        while not done():
            machine.check()
            if time.monotonic() > deadline:
                raise WorldError(f"{name} is not {state}", hint=f"see the logs in {machine.logs}")
            time.sleep(_POLL_SECONDS)


def unmet(*, drivers: bool = False) -> list[str]:
    """What this machine lacks for real nodes, and for drivers there; empty if nothing."""
    lacking = missing((*REAL_PROGRAMS, *(CDI_PROGRAMS if drivers else ())))
    lacking += [f"CNI plugin {each}" for each in _NEEDED_PLUGINS if not (PLUGINS / each).exists()]
    if os.geteuid() != 0:
        lacking.append("root")
    if not (CGROUPS / "memory" / "cgroup.procs").exists():
        lacking.append("cgroup v1")
    if platform.machine() != "x86_64":
        lacking.append("an x86-64 processor")
    return lacking


def _is_ready(node: dict[str, Any], *, since: float) -> bool:
    """By a word of the kubelet that is surely later; its clock shows whole seconds."""
    for each in node.get("status", {}).get("conditions", ()):
        if each["type"] == "Ready" and each["status"] == "True":
            spoken = datetime.fromisoformat(each["lastHeartbeatTime"]).timestamp()
            return spoken > math.floor(since)
    return False
