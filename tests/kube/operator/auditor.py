"""Watches what really runs, apart from what anybody believes.

It reads pods from the API server all the time and keeps what must never be seen: two incarnations
of one job alive at once, more GPUs bound on a node than it has, a gang that stays incomplete. A
job that may be resized has no fixed number of workers, so the last does not apply to it.
"""

import threading
from collections import defaultdict
from http.client import HTTPException
from typing import Any

from tools.testcluster import ControlPlane

GPU = "nvidia.com/gpu"
POLL_SECONDS = 0.05
MAX_PARTIAL_LOOKS = 1_200


class Auditor:
    """A thread that looks while a test runs; `faults` is what it saw."""

    def __init__(self, cluster: ControlPlane) -> None:
        self.faults: list[str] = []
        self.looks = 0
        self._api = cluster.connect()
        self._capacity = {
            node["metadata"]["name"]: int(node["status"]["allocatable"].get(GPU, 0))
            for node in self._api.must("GET", "/api/v1/nodes")["items"]
        }
        self._partial_looks: dict[tuple[str, str], int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Auditor":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._api.close()

    def _run(self) -> None:
        while not self._over.wait(POLL_SECONDS):
            try:
                answer = self._api.send("GET", "/api/v1/pods")
            except (OSError, HTTPException):
                self._api.close()
                continue
            if answer.status == 200:
                self.looks += 1
                self._look(answer.body["items"])

    def _look(self, pods: list[dict[str, Any]]) -> None:
        live = [pod for pod in pods if pod["status"].get("phase") in ("Pending", "Running")]
        self._check_nodes(live)
        self._check_jobs([pod for pod in live if "weft.dev/job" in pod["metadata"]["labels"]])

    def _check_nodes(self, live: list[dict[str, Any]]) -> None:
        bound: dict[str, int] = defaultdict(int)
        for pod in live:
            asked = pod["spec"]["containers"][0].get("resources", {}).get("requests", {})
            bound[pod["spec"].get("nodeName", "")] += int(asked.get(GPU, 0))
        for node, gpus in bound.items():
            if node in self._capacity and gpus > self._capacity[node]:
                self._fault(f"{node} has {self._capacity[node]} GPUs and {gpus} are bound")

    def _check_jobs(self, live: list[dict[str, Any]]) -> None:
        epochs: dict[str, set[str]] = defaultdict(set)
        ranks: dict[tuple[str, str], int] = defaultdict(int)
        seats: dict[tuple[str, str], int] = {}
        for pod in live:
            about = pod["metadata"]
            labels = about["labels"]
            job = f"{about['namespace']}/{labels['weft.dev/job']}"
            epochs[job].add(labels["weft.dev/epoch"])
            key = (job, labels["weft.dev/epoch"])
            ranks[key] += "deletionTimestamp" not in about
            env = {e["name"]: e.get("value") for e in pod["spec"]["containers"][0]["env"]}
            elastic = env["WEFT_MIN_GPUS"] != env["WEFT_MAX_GPUS"]
            seats[key] = 0 if elastic else int(env["WEFT_SEATS"])
        for job, seen in epochs.items():
            if len(seen) > 1:
                self._fault(f"{job} lives in epochs {sorted(seen)}")
        partial = {key for key, count in ranks.items() if 0 < count < seats[key]}
        self._count_partial(partial)

    def _count_partial(self, partial: set[tuple[str, str]]) -> None:
        self._partial_looks = {key: self._partial_looks.get(key, 0) + 1 for key in partial}
        for key, looks in self._partial_looks.items():
            if looks > MAX_PARTIAL_LOOKS:
                self._fault(f"{key} is incomplete in {looks} looks in a row")

    def _fault(self, text: str) -> None:
        if text not in self.faults:
            self.faults.append(text)
