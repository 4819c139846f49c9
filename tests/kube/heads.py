"""The head of a job as the operator hears it: a test speaks for an agent that nobody runs."""

import json
import socket
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.client import HTTPConnection
from typing import Any, Final

from tools.testcluster import ControlPlane
from tools.testcluster.rest import Rest
from weft.agent.pods.discovery import HEAD
from weft.kube.names import jobs_path, pod_name, pods_path
from weft.kube.reports.server import report_path

EVERY_SECONDS: Final = 0.3
LIVE: Final = b'{"step": 1, "live": true}'


class Head:
    """Reports again and again that the job can be resized, with the token of the head's pod.

    With `rate`, steps per second by width, it measures its speed wherever it has settled. With
    `offers` it asks for orders to go to another plan, and follows each when all pods are there.
    """

    def __init__(
        self,
        cluster: ControlPlane,
        namespace: str,
        job: str,
        port: int,
        *,
        rate: Callable[[int], float] | None = None,
        offers: Sequence[str] = (),
    ) -> None:
        self._rate, self._steps, self._number = rate, 0.0, 0
        self._offers = list(offers)
        self.followed: list[dict[str, Any]] = []
        self._width = 0
        self._api = cluster.connect()
        self._namespace, self._job, self._port = namespace, job, port
        self._token = ("", "")
        self._epoch = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Head":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._api.close()

    def _run(self) -> None:
        while not self._over.wait(EVERY_SECONDS):
            uid = self._uid_of_head()
            if uid:
                token = self._token_of(uid)
                if self._offers:
                    self._follow(token)
                self._say(token)

    def _uid_of_head(self) -> str:
        job = self._seen(jobs_path(self._namespace, self._job))
        status = job.get("status", {})
        settled = status.get("state") == "Running"
        self._width = len(status.get("decision", {}).get("seats", ())) if settled else 0
        self._epoch = int(job.get("status", {}).get("decision", {}).get("epoch", 0))
        pod = self._seen(pods_path(self._namespace, self._pod))
        runs = pod.get("status", {}).get("phase") == "Running"
        return str(pod["metadata"]["uid"]) if runs else ""

    def _seen(self, path: str) -> dict[str, Any]:
        answer = self._api.send("GET", path)
        return answer.body if answer.status == HTTPStatus.OK else {}

    @property
    def _pod(self) -> str:
        return pod_name(self._job, self._epoch, 0)

    def _token_of(self, uid: str) -> str:
        """As the kubelet asks for it; the same for as long as the pod is the same."""
        if self._token[0] != uid:
            self._token = (uid, token_for(self._api, self._namespace, self._pod, uid))
        return self._token[1]

    def _say(self, token: str) -> None:
        self._post(token, report_path(self._namespace, self._job), self._report())

    def _follow(self, token: str) -> None:
        """An order that is new, once all pods run that it is for."""
        told = json.dumps({"epoch": self._epoch, "address": "10.0.0.1:1", "key": "5e" * 32})
        path = report_path(self._namespace, self._job) + HEAD
        order = self._post(token, path, told.encode()).get("order")
        known = [one["serial"] for one in self.followed]
        if order and order["serial"] not in known and self._running() >= order["width"]:
            self.followed.append(order)

    def _running(self) -> int:
        selector = f"?labelSelector=weft.dev/job={self._job}"
        pods = self._seen(pods_path(self._namespace) + selector).get("items", ())
        return sum(pod.get("status", {}).get("phase") == "Running" for pod in pods)

    def _post(self, token: str, path: str, body: bytes) -> dict[str, Any]:
        door = HTTPConnection("127.0.0.1", self._port, timeout=5.0)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        try:
            door.request("POST", path, body, headers)
            answer = door.getresponse()
            said = answer.read()
            return dict(json.loads(said)) if answer.status == HTTPStatus.OK else {}
        except OSError:
            return {}  # the operator is down, and hears it the next time
        finally:
            door.close()

    def _report(self) -> bytes:
        if self._offers:
            said = {"step": 1, "live": True, "offers": self._offers}
            done = [{"serial": one["serial"], "reached": True} for one in self.followed[-1:]]
            return json.dumps(said | ({"order": done[0]} if done else {})).encode()
        if self._rate is None or not self._width:
            return LIVE
        rate = self._rate(self._width)
        self._steps += rate * EVERY_SECONDS
        self._number += 1
        speed = {"number": self._number, "width": self._width, "steps_per_second": rate}
        return json.dumps(
            {
                "step": int(self._steps),
                "total_steps": 100_000,
                "width": self._width,
                "live": True,
                "speed": speed | {"seconds": 2.0},
            }
        ).encode()


class Door:
    """Where the pods of a job say that they lead it."""

    def __init__(self, cluster: ControlPlane, namespace: str, job: str, port: int) -> None:
        self._api, self._namespace, self._job, self._port = cluster.api, namespace, job, port

    def lead(self, pod: str, term: int) -> int:
        """Say so for that pod; gives the status of the answer."""
        found = self._api.must("GET", pods_path(self._namespace, pod))
        token = token_for(self._api, self._namespace, pod, found["metadata"]["uid"])
        epoch = int(pod.split("-")[-2])
        told = {"epoch": epoch, "address": "10.0.0.1:1", "key": "5e" * 32, "term": term}
        door = HTTPConnection("127.0.0.1", self._port, timeout=5.0)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        try:
            path = report_path(self._namespace, self._job) + HEAD
            door.request("POST", path, json.dumps(told), headers)
            return door.getresponse().status
        finally:
            door.close()


def token_for(api: Rest, namespace: str, pod: str, uid: str) -> str:
    bound = {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}
    spec = {"audiences": ["weft"], "expirationSeconds": 600, "boundObjectRef": bound}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    return str(api.must("POST", path, {"spec": spec})["status"]["token"])


def free_port() -> int:
    """A port that nobody listens at now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
