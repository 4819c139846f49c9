"""Values of the chart with everything in it that is off by default."""

from collections.abc import Mapping
from typing import Any

EVERYTHING: Mapping[str, Any] = {
    "access": {"clusterViewers": ["researchers"]},
    "image": {"digest": f"sha256:{'0' * 64}", "pullSecrets": ["registry"]},
    "journal": {"enabled": True},
    "metrics": {
        "serviceMonitor": {"enabled": True},
        "dashboard": {"enabled": True},
        "alerts": {"enabled": True, "labels": {"release": "prometheus"}},
    },
    "nodes": {
        "selector": {"weft.dev/trial": "yes", "zone": "a"},
        "gpuResources": ["habana.ai/gaudi"],
        "gpuClass": "gpu.example.com",
        "rackLabels": ["example.com/block", "topology.kubernetes.io/rack"],
    },
    "scaleUp": {"pods": 4},
    "failures": {
        "notifySecret": "told",
        "notifyPorts": [443],
        "rulesConfigMap": "own-rules",
        "trialMinutes": 10,
        "servicePorts": [9000],
    },
    "probes": {"enabled": True},
    "networkPolicy": {"apiServerCidrs": ["10.0.0.1/32"]},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "podAnnotations": {"note": "x"},
    "priorityClassName": "system-cluster-critical",
    "recipe": "tiresias(limits=(3250.0, 7200.0), promote=8)",
    "reports": {"tls": {"secretName": "reports-tls", "caPath": "/etc/ssl/weft.pem"}},
    "tolerations": [{"key": "control", "operator": "Exists", "effect": "NoSchedule"}],
    "workers": {
        "defaultImage": "registry.example.com/train:1",
        "runAsUser": None,
        "tolerations": ["dedicated"],
        "jobTolerations": ["example.com/spot"],
        "priorityClasses": ["training"],
    },
}
