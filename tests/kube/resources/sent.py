"""Training jobs sent as they are to a real API server, with the policies that guard it."""

from collections.abc import Callable
from itertools import count
from typing import Any, Final

from tests.waiting import until
from tools.testcluster.rest import MERGE_PATCH, Answer, Rest
from weft.kube.names import jobs_path, queues_path
from weft.kube.resources import admission
from weft.kube.resources.training_job import manifest

ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
PATHS: Final = {
    "ValidatingAdmissionPolicy": f"{ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{ADMISSION}/validatingadmissionpolicybindings",
}
STRANGE: Final = {"run": "x", "nodeName": "n0"}

numbers = count()


class Jobs:
    """Training jobs of one namespace."""

    def __init__(self, api: Rest) -> None:
        self.api = api
        self.made = 0

    def create(self, spec: object, *, name: str = "", query: str = "", **more: Any) -> Answer:
        self.made += 1
        body = {**manifest(name or f"job-{self.made}", {}), "spec": spec, **more}
        return self.api.send("POST", jobs_path("team") + query, body)

    def patch(self, name: str, body: object, *, status: bool = False) -> Answer:
        path = jobs_path("team", name) + ("/status" if status else "")
        return self.api.send("PATCH", path, body, MERGE_PATCH)


def install_policies(jobs: Jobs) -> None:
    """Under new names, because those of the test before may still be at work."""
    mark = f"-{next(numbers)}"
    for body in admission.policies():
        body["metadata"]["name"] += mark
        if "policyName" in body["spec"]:
            body["spec"]["policyName"] += mark
        jobs.api.must("POST", PATHS[body["kind"]], body)
    queue = a_queue({"metadata": {"name": "q"}, "spec": {"strange": 1}})
    path = f"{queues_path()}?dryRun=All"
    wait_until(lambda: f"jobs{mark}'" in jobs.create(STRANGE, query="?dryRun=All").message)
    wait_until(lambda: f"queues{mark}'" in jobs.api.send("POST", path, queue).message)


def a_queue(body: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "weft.dev/v1alpha1", "kind": "Queue", **body}


def wait_until(done: Callable[[], bool]) -> None:
    """Policies take a moment from being stored to being heard."""
    until(done, "the policy to act")
