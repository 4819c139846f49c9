"""A cluster of two real nodes with the chart installed, and what is done and seen there.

The operator runs as the chart has it: two pods with an account of their own in a namespace that is
`restricted`. So is the namespace of the jobs.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

from tests.kube.installed import CHART, NAMESPACE, helm
from tests.kube.operators import Lab, wait_until
from tests.realnodes import steps
from tests.realnodes.steps import Step
from tools.testcluster import ControlPlane
from tools.testcluster.binaries import find
from tools.testcluster.real_nodes import OPERATOR_IMAGE, TRAIN_IMAGE, RealNodes
from tools.testcluster.volumes import add_shared_volume, remove_shared_volume
from weft.kube.names import LEASE
from weft.kube.operator.observation.node import SET_ASIDE
from weft.model.errors import WorldError

TEAM: Final = "team-a"
RESTRICTED: Final = {"pod-security.kubernetes.io/enforce": "restricted"}
CLAIM: Final = "ckpt"
MOUNT: Final = "/ckpt"
SCRIPT: Final = Path(__file__).parent / "jobs" / "tiny.py"
REPOSITORY, _, TAG = OPERATOR_IMAGE.partition(":")
VALUES: Final[dict[str, Any]] = {
    "image": {"repository": REPOSITORY, "tag": TAG, "pullPolicy": "Never"},
    "workers": {"defaultImage": TRAIN_IMAGE},
    "recipe": "maxmin(hold=2, spacing=0.5, min_run=0)",
    "fenceSeconds": 5,
    # Two nodes of two cores have to carry this and the training.
    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
}
CHECKPOINT_SECONDS: Final = 5
PATIENCE_SECONDS: Final = 120.0
LAST_WORDS: Final = 80
LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}"


class Site:
    """`times` are rows of a table: the phase, what took time, and how long."""

    def __init__(self, plane: ControlPlane, nodes: RealNodes, /, **values: Any) -> None:
        self.plane, self.nodes = plane, nodes
        self._values = {**VALUES, **values}
        self.lab = Lab(plane, TEAM, RESTRICTED)
        self.times: list[tuple[str, str, float]] = []
        self._folder = add_shared_volume(plane, TEAM, CLAIM)
        (self._folder / SCRIPT.name).write_text(SCRIPT.read_text())
        self._watch: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.plane.add_namespace(NAMESPACE, RESTRICTED)
        with self.timed("set up", "helm install --wait"):
            self._helm("install", self._values)
        with (self._folder / "watch.txt").open("w") as file:
            words = ["get", "trainingjobs", "-n", TEAM, "-w", "-o", "wide"]
            self._watch = subprocess.Popen(self._kubectl(*words), stdout=file, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._watch is not None:
            self._watch.kill()
            self._watch.wait()
        self._clear()

    # ------------------------------------------------------------------ what is done

    def upgrade(self, change: Mapping[str, Any]) -> None:
        self._helm("upgrade", {**self._values, **change})

    def submit(
        self,
        name: str,
        gpus: int | str,
        *,
        total: int,
        knobs: str = "",
        every: str = f"{CHECKPOINT_SECONDS}s",
        **spec: Any,
    ) -> None:
        """A job that trains, and leaves its checkpoints and steps on the shared volume."""
        self.folder(name)
        self.lab.submit(
            name,
            gpus,
            run=f"exec python {MOUNT}/{SCRIPT.name} --steps {total} {knobs}",
            checkpoint={"path": f"{MOUNT}/{name}", **({"every": every} if every else {})},
            volumes=[{"claim": CLAIM, "path": MOUNT}],
            grace="20s",
            **spec,
        )

    def folder(self, name: str) -> Path:
        """A folder of its own for a job, on the shared volume."""
        own = self._folder / name
        own.mkdir()
        own.chmod(0o777)
        return own

    def hurry(self, name: str) -> None:
        """Let its steps take no longer than they need."""
        (self._folder / name / "hurry").touch()

    def spread_operators(self) -> None:
        """Pods that had to leave a node do not come back by themselves."""
        self.plane.kubectl("rollout", "restart", "-n", NAMESPACE, f"deployment/{LEASE}")
        words = ("rollout", "status", "-n", NAMESPACE, f"deployment/{LEASE}", "--timeout=60s")
        self.plane.kubectl(*words)

    def kill_operators(self) -> None:
        """All at once, as if their machines had lost power; another pod leads after a while."""
        for pod in self.operators():
            words = ("delete", "pod", "-n", NAMESPACE, pod, "--grace-period=0", "--force")
            self.plane.kubectl(*words)

    def drain(self, node: str) -> None:
        """As an administrator does, with everything on it."""
        options = ("--delete-emptydir-data", "--ignore-daemonsets", "--timeout=90s")
        self.plane.kubectl("drain", node, *options)

    # ------------------------------------------------------------------ what is seen

    def steps(self, name: str, since: float = 0.0) -> list[Step]:
        return [step for step in steps.read(self._folder / name / "steps.txt") if step.at >= since]

    def witnessed(self, name: str) -> set[int]:
        """Numbers of steps that others than the first worker have done."""
        files = (self._folder / name).glob("witness-*.txt")
        return {step.number for file in files for step in steps.read(file)}

    def gpus(self, name: str) -> str:
        """The devices that its container was given, as it wrote them down."""
        file = self._folder / name / "gpus.txt"
        return file.read_text() if file.exists() else ""

    def decision(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.lab.job(name).get("status", {}).get("decision", {})
        return found

    def seats(self, name: str) -> dict[int, str]:
        """Numbers and nodes of the seats on record."""
        return {seat["number"]: seat["node"] for seat in self.decision(name).get("seats", ())}

    def uids(self, name: str) -> dict[str, str]:
        """Pods that run and are not leaving."""
        return {
            pod: found["metadata"]["uid"]
            for pod, found in self.lab.pods(name).items()
            if found["status"].get("phase") == "Running"
            and "deletionTimestamp" not in found["metadata"]
        }

    def restarts(self, name: str) -> int:
        """Of all containers of its pods."""
        return sum(
            container["restartCount"]
            for pod in self.lab.pods(name).values()
            for container in pod["status"].get("containerStatuses", ())
        )

    def operators(self) -> set[str]:
        """The names of their pods."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        return {pod["metadata"]["name"] for pod in self.plane.api.must("GET", path)["items"]}

    def leader(self) -> str:
        return str(self.plane.api.must("GET", LEASES)["spec"].get("holderIdentity") or "")

    def watched(self) -> str:
        """What `kubectl get trainingjobs -w` has printed."""
        return (self._folder / "watch.txt").read_text()

    def await_width(self, name: str, width: int, seconds: float = PATIENCE_SECONDS) -> float:
        """Until so many train, and nothing is on its way; how long that took."""

        def settled() -> bool:
            status = self.lab.job(name).get("status", {})
            done = self.steps(name)
            held = len(status.get("decision", {}).get("seats", ()))
            return bool(
                done
                and status["state"] == "Running"
                and (held, done[-1].width) == (width, width)
                and time.time() - done[-1].at < 2.0
            )

        try:
            return wait_until(settled, f"{name} to train {width} wide", seconds)
        except AssertionError as error:
            error.add_note(self.said(name))
            raise

    def await_step(self, name: str, number: int) -> float:
        def done() -> bool:
            found = self.steps(name)
            return bool(found) and found[-1].number >= number

        return wait_until(done, f"{name} to come to step {number}", PATIENCE_SECONDS)

    def until(
        self, phase: str, what: str, true: Callable[[], bool], since: float | None = None
    ) -> None:
        """Wait, and put into the table how long it took, or how long ago `since` is."""
        seconds = wait_until(true, what, PATIENCE_SECONDS)
        self.note(phase, what, seconds if since is None else time.time() - since)

    @contextmanager
    def timed(self, phase: str, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.note(phase, what, time.monotonic() - began)

    def note(self, phase: str, what: str, seconds: float) -> None:
        self.times.append((phase, what, seconds))

    def table(self) -> list[str]:
        return [f"{phase:<9} {what:<58} {seconds:7.2f} s" for phase, what, seconds in self.times]

    def said(self, name: str) -> str:
        """The last words of the job's pods and of the operators."""
        pods = [(TEAM, pod) for pod in self.lab.pods(name)]
        pods += [(NAMESPACE, pod) for pod in self.operators()]
        return "\n".join(f"--- {pod}\n{self._logs(namespace, pod)}" for namespace, pod in pods)

    # ------------------------------------------------------------------ helpers

    def _clear(self) -> None:
        """Leave nothing but the definitions of the custom resources and the nodes themselves."""
        self.nodes.start_killed()
        for name in self.lab.jobs():
            self.lab.delete(name)
        wait_until(lambda: not self.lab.jobs(), "the jobs to be gone")
        where = ("--kubeconfig", str(self.plane.kubeconfig()), "--namespace", NAMESPACE)
        helm("uninstall", "weft", *where)
        for namespace in (TEAM, NAMESPACE):
            force = ("--all", "--grace-period=0", "--force")
            self.plane.kubectl("delete", "pods", "-n", namespace, *force)
        self.plane.kubectl("delete", "namespace", TEAM, NAMESPACE, "--timeout=120s")
        self.plane.kubectl("delete", "queues.weft.dev,deviceclasses", "--all")
        remove_shared_volume(self.plane, TEAM, CLAIM)
        for node in self.nodes.names:
            self.plane.kubectl("uncordon", node)
            spec = self.plane.api.must("GET", f"/api/v1/nodes/{node}")["spec"]
            if any(taint["key"] == SET_ASIDE for taint in spec.get("taints", ())):
                self.plane.kubectl("taint", "node", node, f"{SET_ASIDE}-")

    def _logs(self, namespace: str, pod: str) -> str:
        try:
            return self.plane.kubectl("logs", "-n", namespace, pod, f"--tail={LAST_WORDS}")
        except WorldError as error:
            return str(error)

    def _helm(self, verb: str, values: Mapping[str, Any]) -> None:
        where = ("--kubeconfig", str(self.plane.kubeconfig()), "--namespace", NAMESPACE)
        wait = ("--wait", "--timeout", "120s", "--values", "-")
        helm(verb, "weft", str(CHART), *where, *wait, text=json.dumps(values))

    def _kubectl(self, *words: str) -> list[str]:
        return [str(find("kubectl")), f"--kubeconfig={self.plane.kubeconfig()}", *words]
