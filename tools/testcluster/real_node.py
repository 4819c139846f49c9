"""One real node: the programs that make a machine a member of a cluster, in their order."""

from collections.abc import Iterable

from tools.testcluster import images
from tools.testcluster.containerd import Containerd
from tools.testcluster.control_plane import ControlPlane
from tools.testcluster.image_store import ImageStore, cache
from tools.testcluster.layout import node_name
from tools.testcluster.machine import Machine
from tools.testcluster.node_settings import NodeSettings
from tools.testcluster.oci import Image


class RealNode:
    """Not running until its runtime, kubelet and proxy are started."""

    def __init__(self, plane: ControlPlane, index: int, *, cdi: bool = False) -> None:
        self.name = node_name(index)
        self._index = index
        self._plane = plane
        self._settings = NodeSettings(plane.layout, index)
        self.machine = Machine(self.name, cache() / self.name, self._settings.folder)
        networks = self._settings.pod_networks
        self._runtime = Containerd(self.machine, images.PAUSE, networks, cdi=cdi)

    def start_runtime(self, store: ImageStore) -> None:
        """Boot the machine and its containerd; return before that is ready."""
        self._settings.write()
        self.machine.start()
        self._plane.network.attach(self._index, self.machine.pid)
        store.copy_to(self._runtime.root)
        self._runtime.start()

    def load(self, with_weft: Iterable[Image], store: ImageStore) -> None:
        """Images with Weft, of which the store has all layers but the topmost."""
        self._runtime.wait()
        self._runtime.load(with_weft, store.bases.train.layers)

    def start_kubelet(self) -> None:
        self.machine.run("kubelet", self._settings.kubelet())

    def start_driver(self, gpus: int) -> None:
        """It publishes GPUs that are not there, and hands them to pods by CDI."""
        where = f"--kubeconfig={self._plane.kubeconfig()}"
        self.machine.run("gpu-driver", [f"--node={self.name}", where, f"--gpus={gpus}"])

    def start_proxy(self) -> None:
        self.machine.run("kube-proxy", self._settings.kube_proxy())
