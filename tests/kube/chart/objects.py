"""Objects that tests of the chart put into a cluster, and patience."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

from tests import waiting
from tests.kube.installed import Manifest
from tools.testcluster import ControlPlane
from weft.kube.names import jobs_path
from weft.kube.pods import PodMaker, WorkerSettings
from weft.model.ids import NodeId
from weft.model.placement import Seat
from weft.spec.job_file import JobSpec

TEAM: Final = "team-a"
SEATS: Final = (Seat(node=NodeId("node-0"), gpus=1),)


def training_job(name: str) -> Manifest:
    about = {"apiVersion": "weft.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name}}
    return {**about, "spec": {"run": "true", "image": "busybox"}}


def pod_maker(*, namespace: str = TEAM, uid: str = "0" * 8) -> PodMaker:
    spec = JobSpec.model_validate(
        {"run": "true", "image": "busybox", "volumes": [{"claim": "data", "path": "/data"}]}
    )
    settings = WorkerSettings(report_url="http://weft")
    return PodMaker(settings, namespace=namespace, name="sft", uid=uid, spec=spec)


def worker_pod(cluster: ControlPlane, namespace: str = TEAM) -> Manifest:
    """As the operator makes it; without its claim, for which nobody has a volume here."""
    job = cluster.api.must("POST", jobs_path(namespace), training_job("sft"))
    maker = pod_maker(namespace=namespace, uid=job["metadata"]["uid"])
    pod = deepcopy(maker.pod(epoch=1, seats=SEATS, number=0, leader=1))
    pod["spec"]["volumes"].pop()
    container(pod)["volumeMounts"].pop()
    return pod


def foreign_pod(name: str, **spec: Any) -> Manifest:
    body = {"containers": [{"name": "main", "image": "busybox"}], **spec}
    return {"metadata": {"name": name}, "spec": body}


def container(pod: Manifest) -> Manifest:
    first: Manifest = pod["spec"]["containers"][0]
    return first


def until(look: Callable[[], Any]) -> Any:  # noqa: ANN401
    """What is seen at last: anything but no or nothing."""
    found = waiting.until(lambda: [seen for seen in (look(),) if seen not in (None, False)], "it")
    return found[0]
