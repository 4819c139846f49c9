"""Bodies of nodes as a kubelet would register them: ready, with an address, and with GPUs."""

from collections.abc import Mapping
from typing import Any, Final

PROBE: Final = "testcluster-probe"

_MAX_PODS: Final = "250"


def node(
    name: str, resources: Mapping[str, str], labels: Mapping[str, str], kubelet_port: int
) -> dict[str, Any]:
    """A node that is ready from the start, so that it costs one write."""
    held = {key: amount for key, amount in resources.items() if amount != "0"}
    held["pods"] = _MAX_PODS
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {
            "capacity": held,
            "allocatable": held,
            "conditions": [ready_condition("True")],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
        },
    }


def ready_condition(status: str) -> dict[str, str]:
    return {"type": "Ready", "status": status, "reason": "Test", "message": "set by a test"}


def probe_node() -> dict[str, Any]:
    """One that kwok has to make ready, and on which no pod but the probe may run."""
    taint = {"key": PROBE, "effect": "NoSchedule"}
    return {
        "metadata": {"name": PROBE, "labels": {"kubernetes.io/hostname": PROBE}},
        "spec": {"taints": [taint]},
        "status": {"allocatable": {"pods": "1"}, "capacity": {"pods": "1"}},
    }


def probe_pod() -> dict[str, Any]:
    return {
        "metadata": {"name": PROBE},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": PROBE},
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "probe", "image": "none"}],
        },
    }
