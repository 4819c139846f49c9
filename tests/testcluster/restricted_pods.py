"""Pods as a tenant may run them: no root, no rights, nothing of the node."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests import waiting
from tools.testcluster import ControlPlane
from tools.testcluster.real_nodes import OPERATOR_IMAGE, RealNodes

TEAM = "team-a"
PODS = f"/api/v1/namespaces/{TEAM}/pods"
SERVICES = f"/api/v1/namespaces/{TEAM}/services"


@dataclass(frozen=True)
class Real:
    """A cluster of two real nodes, with a namespace in which PodSecurity is at its strictest."""

    plane: ControlPlane
    nodes: RealNodes


def pod(name: str, *command: str, node: str, image: str = OPERATOR_IMAGE) -> dict[str, Any]:
    """One container as uid 1000 on this node; a test adds to it what it needs."""
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "Never",
        "command": command,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 1000,
                "runAsGroup": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        },
    }


def ended(plane: ControlPlane, body: dict[str, Any]) -> str:
    """Run a pod to its end and return what it printed; it must have succeeded."""
    name = begin(plane, body, "Succeeded", "Failed")
    said = plane.kubectl("logs", "-n", TEAM, name)
    assert phase(plane, name) == "Succeeded", said
    return said


def running(plane: ControlPlane, body: dict[str, Any]) -> str:
    """Start a pod; its name when it runs."""
    return begin(plane, body, "Running")


def begin(plane: ControlPlane, body: dict[str, Any], *phases: str) -> str:
    name = str(body["metadata"]["name"])
    plane.api.must("POST", PODS, body)
    until(lambda: phase(plane, name) in phases, what=f"{name} in {phases}")
    return name


def phase(plane: ControlPlane, name: str) -> str:
    return str(plane.api.must("GET", f"{PODS}/{name}")["status"]["phase"])


def until(done: Callable[[], bool], *, what: str = "it") -> None:
    waiting.until(done, what)
