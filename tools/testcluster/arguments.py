"""With which arguments each program runs: as in a real cluster, where that can be had for nothing.

Authorization is RBAC, and the default admission plugins are on but for one. Client limits are off
everywhere, so that a test measures Weft and the API server, not the patience of a controller.

A layout with an address of its own is a cluster of real nodes: there the node authorizer and the
taints of nodes are on, pods reach the API server, and a node that falls silent is noticed.
"""

from pathlib import Path
from typing import Final

from tools.testcluster.layout import Layout
from tools.testcluster.network import SERVICES

_STAGES: Final = Path(__file__).with_name("stages")
_UNLIMITED: Final = ("--kube-api-qps=5000", "--kube-api-burst=10000")
_ALONE: Final = ("--leader-elect=false", "--secure-port=0")


def etcd(layout: Layout) -> list[str]:
    peer = f"http://127.0.0.1:{layout.etcd_peer_port}"
    return [
        f"--data-dir={layout.folder / 'etcd'}",
        f"--listen-client-urls={layout.etcd_url}",
        f"--advertise-client-urls={layout.etcd_url}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--quota-backend-bytes=4294967296",
    ]


def kube_apiserver(layout: Layout, *, full: bool) -> list[str]:
    return [
        f"--etcd-servers={layout.etcd_url}",
        f"--bind-address={layout.address}",
        f"--advertise-address={layout.address}",
        f"--secure-port={layout.api_port}",
        f"--cert-dir={layout.certificate.parent}",
        f"--token-auth-file={layout.tokens}",
        "--allow-privileged=true",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={layout.account_key}",
        f"--service-account-signing-key-file={layout.account_key}",
        f"--service-cluster-ip-range={SERVICES}",
        "--max-requests-inflight=4000",
        "--max-mutating-requests-inflight=2000",
        # Debian's etcd cannot serve it. Told so, clients list at once; else they retry for seconds.
        "--feature-gates=WatchList=false,DRADeviceTaints=true,DRADeviceTaintRules=true",
        "--runtime-config=resource.k8s.io/v1alpha3=true",
        *(_for_real_nodes(layout) if layout.real else _for_fake_nodes(full=full)),
    ]


def kube_controller_manager(layout: Layout, kubeconfig: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        "--controllers=*,-nodeipam,-route,-cloud-node-lifecycle,-service-lb-controller",
        f"--root-ca-file={layout.certificate}",
        f"--service-account-private-key-file={layout.account_key}",
        # Fake nodes have no heartbeat, real ones one each second.
        f"--node-monitor-grace-period={'8s' if layout.real else '24h'}",
        "--node-monitor-period=500ms",  # but a test may take their readiness away
        "--node-eviction-rate=100",
        "--pvclaimbinder-sync-period=1s",  # a claim and its volume may miss each other at first
        *_ALONE,
        *_UNLIMITED,
    ]


def kube_scheduler(kubeconfig: Path) -> list[str]:
    return [f"--kubeconfig={kubeconfig}", *_ALONE, *_UNLIMITED]


def kwok(layout: Layout, kubeconfig: Path) -> list[str]:
    configs = [layout.kwok_settings, *sorted(_STAGES.glob("*.yaml"))]
    return [
        f"--kubeconfig={kubeconfig}",
        *(f"--config={config}" for config in configs),
        "--manage-all-nodes",
        "--cidr=10.0.0.1/8",
        "--node-ip=127.0.0.1",
        f"--node-port={layout.kubelet_port}",
        f"--server-address=127.0.0.1:{layout.kubelet_port}",
        f"--tls-cert-file={layout.certificate}",
        f"--tls-private-key-file={layout.certificate.with_suffix('.key')}",
        "--v=WARN",
    ]


def coredns(settings: Path) -> list[str]:
    return [f"-conf={settings}"]


def _for_real_nodes(layout: Layout) -> list[str]:
    return [
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={layout.kubelet_client}",
        f"--kubelet-client-key={layout.kubelet_client.with_suffix('.key')}",
    ]


def _for_fake_nodes(*, full: bool) -> list[str]:
    # Else each node is born tainted, and every test waits for a controller to take that off.
    disabled = ["TaintNodesByCondition"]
    if not full:  # nobody makes the service accounts that pods are asked to have
        disabled.append("ServiceAccount")
    return [
        "--authorization-mode=RBAC",
        "--endpoint-reconciler-type=none",  # it would refuse a loopback address for ever
        f"--disable-admission-plugins={','.join(disabled)}",
    ]
