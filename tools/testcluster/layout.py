"""The folder and the ports of one control plane, and the files that its programs read.

Everything lies in one temporary folder and on ports that nobody else uses, so that several control
planes may run on a machine, and nothing is left behind.
"""

import json
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import yaml

from tools.testcluster.binaries import find

ADMIN: Final = "admin"
USERS: Final = ("alice", "bob")
"""Known by name and nothing more: they may do what the RBAC objects of a test grant."""

LOOPBACK: Final = "127.0.0.1"
PROXY_USER: Final = "system:kube-proxy"
MAX_REAL_NODES: Final = 8


@dataclass(frozen=True)
class Layout:
    """Where each thing is; `make` creates it on disk."""

    folder: Path
    etcd_port: int
    etcd_peer_port: int
    api_port: int
    kubelet_port: int
    address: str = field(default=LOOPBACK, kw_only=True)  # of the API server

    @classmethod
    def make(cls, address: str = LOOPBACK) -> Self:
        folder = Path(tempfile.mkdtemp(prefix="weft-testcluster-"))
        layout = cls(folder, *_free_ports(4), address=address)
        layout.certificate.parent.mkdir()
        layout.account_key.write_bytes(_new_key())
        if layout.real:
            _make_kubelet_client(layout.kubelet_client)
        layout.tokens.write_text("\n".join(_token_lines()) + "\n")
        layout.worker_log.write_text(
            "2026-01-01T00:00:00.000000000Z stdout F hello from a worker\n"
        )
        layout.kwok_settings.write_text(yaml.safe_dump_all(_kwok_settings(layout.worker_log)))
        return layout

    @property
    def real(self) -> bool:
        """Whether pods are to reach the API server: then its address is not the loopback's."""
        return self.address != LOOPBACK

    @property
    def url(self) -> str:
        return f"https://{self.address}:{self.api_port}"

    @property
    def etcd_url(self) -> str:
        return f"http://127.0.0.1:{self.etcd_port}"

    @property
    def certificate(self) -> Path:
        """Made by the API server at its first start; it vouches for itself."""
        return self.folder / "certificates" / "apiserver.crt"

    @property
    def account_key(self) -> Path:
        """It signs the tokens of service accounts."""
        return self.folder / "accounts.key"

    @property
    def kubelet_client(self) -> Path:
        """With this certificate the API server shows real kubelets who it is."""
        return self.folder / "certificates" / "kubelet-client.crt"

    @property
    def tokens(self) -> Path:
        return self.folder / "tokens.csv"

    @property
    def kwok_settings(self) -> Path:
        return self.folder / "kwok.yaml"

    @property
    def worker_log(self) -> Path:
        """What every pod is said to have printed, in the format of container runtimes."""
        return self.folder / "worker.log"

    def kubeconfig(self, user: str, token: str, namespace: str) -> Path:
        """Write the file with which this user reaches the cluster."""
        cluster = {"server": self.url, "certificate-authority": str(self.certificate)}
        context = {"cluster": "test", "user": user, "namespace": namespace}
        body = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": context}],
            "current-context": "test",
        }
        path = self.folder / f"kubeconfig-{user}-{namespace}.json"
        path.write_text(json.dumps(body))
        return path


def static_token(user: str) -> str:
    return f"{user}-token"


def node_name(index: int) -> str:
    """How real nodes are called."""
    return f"node-{index}"


def node_user(name: str) -> str:
    """As whom the kubelet of a real node speaks: the node authorizer goes by this name."""
    return f"system:node:{name}"


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _new_key() -> bytes:
    command = [str(find("openssl")), "ecparam", "-name", "prime256v1", "-genkey", "-noout"]
    return subprocess.run(command, capture_output=True, check=True).stdout


def _make_kubelet_client(certificate: Path) -> None:
    """One that vouches for itself, so that kubelets need no authority beside it."""
    command = f"""
        {find("openssl")} req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1
        -subj /O=system:masters/CN=kube-apiserver-kubelet-client -days 2
        -keyout {certificate.with_suffix(".key")} -out {certificate}
    """
    subprocess.run(command.split(), capture_output=True, check=True)


def _token_lines() -> Iterator[str]:
    yield f'{static_token(ADMIN)},{ADMIN},{ADMIN},"system:masters"'
    for user in USERS:
        yield f"{static_token(user)},{user},{user}"
    yield f"{static_token(PROXY_USER)},{PROXY_USER},{PROXY_USER}"
    for user in (node_user(node_name(index)) for index in range(MAX_REAL_NODES)):
        yield f'{static_token(user)},{user},{user},"system:nodes"'


def _kwok_settings(worker_log: Path) -> Iterator[dict[str, Any]]:
    yield {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {"podPlayStageParallelism": 16, "nodePlayStageParallelism": 16},
    }
    yield {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterLogs",
        "metadata": {"name": "workers"},
        "spec": {"logs": [{"logsFile": str(worker_log)}]},
    }
