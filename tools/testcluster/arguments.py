"""With which arguments each program runs: as in a real cluster, where that can be had for nothing.

Authorization is RBAC, and the default admission plugins are on but for one. Client limits are off
everywhere, so that a test measures Weft and the API server, not the patience of a controller.
"""

from pathlib import Path
from typing import Final

from tools.testcluster.layout import Layout

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
    # Else each node is born tainted, and every test waits for a controller to take that off.
    disabled = ["TaintNodesByCondition"]
    if not full:  # nobody makes the service accounts that pods are asked to have
        disabled.append("ServiceAccount")
    return [
        f"--etcd-servers={layout.etcd_url}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",  # it would refuse a loopback address for ever
        f"--secure-port={layout.api_port}",
        f"--cert-dir={layout.certificate.parent}",
        f"--token-auth-file={layout.tokens}",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={layout.account_key}",
        f"--service-account-signing-key-file={layout.account_key}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--max-requests-inflight=4000",
        "--max-mutating-requests-inflight=2000",
        # Debian's etcd cannot serve it. Told so, clients list at once; else they retry for seconds.
        "--feature-gates=WatchList=false",
        f"--disable-admission-plugins={','.join(disabled)}",
    ]


def kube_controller_manager(layout: Layout, kubeconfig: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        "--controllers=*,-nodeipam,-route,-cloud-node-lifecycle,-service-lb-controller",
        f"--root-ca-file={layout.certificate}",
        f"--service-account-private-key-file={layout.account_key}",
        "--node-monitor-grace-period=24h",  # nodes have no heartbeat
        "--node-monitor-period=500ms",  # but a test may take their readiness away
        "--node-eviction-rate=100",
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
