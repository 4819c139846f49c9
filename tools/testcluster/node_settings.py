"""What the kubelet and kube-proxy of a real node are told, and why.

All paths are those inside the node's machine, where /var/lib, /var/log and /run are its own.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tools.testcluster import network
from tools.testcluster.containerd import SOCKET
from tools.testcluster.layout import PROXY_USER, Layout, node_name, node_user, static_token

DOMAIN: Final = "cluster.local"


@dataclass(frozen=True)
class NodeSettings:
    """The files of one node; `write` makes them, the methods below give the arguments."""

    layout: Layout
    index: int

    @property
    def name(self) -> str:
        return node_name(self.index)

    @property
    def folder(self) -> Path:
        return self.layout.folder / self.name

    def write(self) -> None:
        self.pod_networks.mkdir(parents=True, exist_ok=True)
        (self.pod_networks / "pods.conflist").write_text(json.dumps(_pod_network(self.index)))
        self._resolver.write_text(f"nameserver {network.ADDRESS}\n")
        self._kubelet.write_text(yaml.safe_dump(self._kubelet_settings()))

    @property
    def pod_networks(self) -> Path:
        return self.folder / "cni"

    def kubelet(self) -> list[str]:
        user = node_user(self.name)
        return [
            f"--config={self._kubelet}",
            f"--kubeconfig={self.layout.kubeconfig(user, static_token(user), 'default')}",
            f"--hostname-override={self.name}",
            f"--node-ip={network.node_address(self.index)}",
            "--cert-dir=/var/lib/kubelet/pki",
        ]

    def kube_proxy(self) -> list[str]:
        kubeconfig = self.layout.kubeconfig(PROXY_USER, static_token(PROXY_USER), "default")
        return [
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={self.name}",
            "--proxy-mode=iptables",
            f"--cluster-cidr={network.PODS}",
            "--iptables-min-sync-period=100ms",
            # The table of connections is the whole kernel's: leave its size alone.
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0s",
            "--conntrack-tcp-timeout-close-wait=0s",
        ]

    @property
    def _kubelet(self) -> Path:
        return self.folder / "kubelet.yaml"

    @property
    def _resolver(self) -> Path:
        return self.folder / "resolv.conf"

    def _kubelet_settings(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{SOCKET}",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(self.layout.kubelet_client)},
            },
            "authorization": {"mode": "Webhook"},
            "clusterDNS": [network.ADDRESS],
            "clusterDomain": DOMAIN,
            "resolvConf": str(self._resolver),
            "volumePluginDir": "/var/lib/kubelet/volume-plugins",
            # Silence is noticed after 8 s: speak each second.
            "nodeStatusUpdateFrequency": "1s",
            "nodeLeaseDurationSeconds": 4,
            # On cgroup v1, inside a cgroup of its own.
            "failCgroupV1": False,
            "failSwapOn": False,
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            # A disk that is nearly full is this machine's affair.
            "evictionHard": {"nodefs.available": "0%", "imagefs.available": "0%"},
            "imageGCHighThresholdPercent": 100,
            "registerNode": True,
        }


def _pod_network(index: int) -> dict[str, Any]:
    """Each pod on a wire of its own: on a bridge, answers within a node would miss the proxy."""
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": network.pods_of(index)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    plugin = {"type": "ptp", "ipMasq": False, "ipam": ipam}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [plugin]}
