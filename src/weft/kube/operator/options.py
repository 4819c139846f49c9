"""What `weft operator` was told on its command line."""

from dataclasses import dataclass
from typing import Literal

from weft.kube.names import LEASE


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOptions:
    """Options of one replica; a port of 0 means that nobody listens there.

    `pod_ip` is empty outside of a pod, where nothing can be pointed to it. What was named several
    times is a tuple; an empty one means what Weft does by itself.
    """

    namespace: str
    identity: str
    kubeconfig: str | None = None
    lease: str = LEASE
    recipe: str = "weave"
    default_image: str = ""
    scheduler_name: str = "default-scheduler"
    report_url: str = ""
    report_ca: str = ""
    reports_service: str = ""
    pod_ip: str = ""
    reports_port: int = 8080
    metrics_port: int = 9090
    run_as_user: int | None = 1000
    tls_cert: str = ""
    tls_key: str = ""
    tls_ca: str = ""
    journal: str = ""
    workers: Literal["pods", "none"] = "pods"
    backoff_seconds: float = 60.0
    fence_seconds: float = 60.0
    keep_days: float = 30.0
    node_selector: tuple[str, ...] = ()
    gpu_resource: tuple[str, ...] = ()
    gpu_class: str = ""
    rack_label: tuple[str, ...] = ()
    toleration: tuple[str, ...] = ()
    job_toleration: tuple[str, ...] = ()
    priority_class: tuple[str, ...] = ()
    lending: bool = False
    isolated: bool = False
    reached_from: tuple[str, ...] = ()
    scale_up_pods: int = 0
    scale_up_class: str = ""
    notify: str = ""
    failure_rules: str = ""
    taint_nodes: bool = False
    trial_minutes: float = 0.0
    gang_probe_gpus: int = 0
    log_level: str = "INFO"
