"""The operator as a process of its own, so that it can be killed as a machine kills it."""

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tests.kube.warm_operator import WarmOperator, started
from tests.waiting import HANG_SECONDS, until
from tools.testcluster import ControlPlane
from tools.testcluster.rest import MERGE_PATCH
from weft.kube.seat_runs import seats_of

ROOT: Final = Path(__file__).parents[2]
TRAINING_JOBS: Final = "/apis/weft.dev/v1alpha1/namespaces/{}/trainingjobs"
OPTIONS: Final[Mapping[str, object]] = {
    "recipe": "backfill(spacing=0.1)",
    "default_image": "busybox",
    "run_as_user": 1000,  # as the chart says, whose policy lets no other user in
}


class OperatorProcess:
    """`weft operator` with a kubeconfig; leaves its log beside its journal."""

    def __init__(
        self,
        kubeconfig: Path,
        folder: Path,
        *,
        name: str = "one",
        options: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.folder = folder
        self.log = folder / f"{name}.log"
        given = {**OPTIONS, **(options or {})}
        self._command = [
            "operator",
            *("--kubeconfig", str(kubeconfig), "--identity", name, "--namespace", "weft-system"),
            *("--reports-port", "0", "--metrics-port", "0"),
            *(word for key, value in given.items() for word in _option(key, value)),
        ]
        path = f"{ROOT / 'src'}:{ROOT}"
        self._environment = {**os.environ, "PYTHONPATH": path, **(environment or {})}
        self._process: WarmOperator | None = None

    def start(self) -> "OperatorProcess":
        self._process = started(self._command, self._environment, self.log)
        return self

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """As if the machine had lost power."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def wait_until_dead(self, seconds: float = HANG_SECONDS) -> int:
        assert self._process is not None
        return self._process.wait(seconds)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            self._process.wait(HANG_SECONDS)
        except TimeoutError:
            self._process.kill()
            raise

    def __enter__(self) -> "OperatorProcess":
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(signal.SIGKILL if kind is not None else signal.SIGTERM)


class Relief:
    """When the first operator has died of its crash, the second one takes over."""

    def __init__(self, first: OperatorProcess, second: OperatorProcess, crash: str) -> None:
        self._first, self._second, self._crash = first, second, crash
        self._thread = threading.Thread(target=self._take_over, daemon=True)
        self._over = threading.Event()

    def __enter__(self) -> None:
        if self._crash:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        if not self._crash:
            return
        self._thread.join(HANG_SECONDS)
        self._over.set()
        self._second.stop()
        assert not self._thread.is_alive(), f"the operator never came to {self._crash}"

    def _take_over(self) -> None:
        status = self._first.wait_until_dead(120.0)
        if self._over.is_set():
            return
        assert status == -9, f"the operator ended by itself: {self._first.log.read_text()[-2000:]}"
        self._second.start()


class Lab:
    """What a user does in one namespace of a cluster, and what can be seen there."""

    def __init__(
        self,
        cluster: ControlPlane,
        namespace: str = "lab",
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self._path = TRAINING_JOBS.format(namespace)
        cluster.add_namespace(namespace, labels)

    def submit(self, name: str, gpus: int | str = 1, **spec: Any) -> dict[str, Any]:
        asked = {"run": "train", "resources": {"gpus": gpus}} | spec
        body = {
            "apiVersion": "weft.dev/v1alpha1",
            "kind": "TrainingJob",
            "metadata": {"name": name},
            "spec": asked,
        }
        return self.cluster.api.must("POST", self._path, body)

    def job(self, name: str) -> dict[str, Any]:
        return self.cluster.api.must("GET", f"{self._path}/{name}")

    def jobs(self) -> dict[str, dict[str, Any]]:
        listed = self.cluster.api.must("GET", self._path)["items"]
        return {job["metadata"]["name"]: job for job in listed}

    def delete(self, name: str) -> None:
        self.cluster.api.must("DELETE", f"{self._path}/{name}")

    def cancel(self, name: str) -> None:
        patch = {"metadata": {"annotations": {"weft.dev/cancel": "true"}}}
        self.cluster.api.must("PATCH", f"{self._path}/{name}", patch, MERGE_PATCH)

    def state(self, name: str) -> str:
        return str(self.job(name).get("status", {}).get("state", ""))

    def states(self) -> dict[str, str]:
        return {name: job.get("status", {}).get("state", "") for name, job in self.jobs().items()}

    def pods(self, job: str = "") -> dict[str, dict[str, Any]]:
        selector = f"weft.dev/job={job}" if job else "weft.dev/job"
        path = f"/api/v1/namespaces/{self.namespace}/pods?labelSelector={selector}"
        return {pod["metadata"]["name"]: pod for pod in self.cluster.api.must("GET", path)["items"]}

    def evict(self, pod: str) -> int:
        """As `kubectl drain` does it; the status of the answer."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/eviction"
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": self.namespace},
        }
        return self.cluster.api.send("POST", path, body).status

    def told(self, job: str) -> dict[str, str]:
        """What Events say of the job: reasons and notes."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        listed = self.cluster.api.must("GET", path)["items"]
        about = [event for event in listed if event.get("regarding", {}).get("name") == job]
        return {event["reason"]: event.get("note", "") for event in about}

    def await_workers(self, name: str, epoch: int = 1) -> None:
        try:
            wait_until(lambda: self._all_run(name, epoch), f"epoch {epoch} of {name} to run")
        except AssertionError as error:
            pods = {pod: one["status"] for pod, one in self.pods(name).items()}
            told = {one: self.told(one) for one in (name, *pods)}
            status = self.job(name).get("status")
            raise AssertionError(f"{error}: {status}; pods {pods}; events {told}") from None

    def finish(self, name: str, epoch: int) -> None:
        """Let the workers of that incarnation succeed, as soon as all of them run."""
        self.await_workers(name, epoch)
        for pod in self.pods(name):
            path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/status"
            self.cluster.api.must("PATCH", path, {"status": {"phase": "Succeeded"}}, MERGE_PATCH)

    def _all_run(self, name: str, epoch: int) -> bool:
        seats = seats_of(self.job(name).get("status", {}).get("decision", {}))
        phases = [
            pod["status"].get("phase")
            for pod in self.pods(name).values()
            if pod["metadata"]["labels"]["weft.dev/epoch"] == str(epoch)
        ]
        return bool(seats) and len(phases) == len(seats) and set(phases) == {"Running"}

    def wait_for(self, name: str, *states: str, seconds: float = HANG_SECONDS) -> dict[str, Any]:
        try:
            wait_until(lambda: self.state(name) in states, f"{name} to be {states}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.job(name).get('status')}") from None
        return self.job(name)


def wait_until(
    true: Callable[[], bool], what: str, seconds: float = HANG_SECONDS, poll: float = 0.05
) -> float:
    """Seconds until it was true, which benchmarks of the operator record."""
    began = time.monotonic()
    until(true, what, seconds=seconds, poll_seconds=poll)
    return time.monotonic() - began


def _option(key: str, value: object) -> tuple[str, ...]:
    name = f"--{key.replace('_', '-')}"
    return (name,) if value is True else (name, str(value))
