"""The bare engine: the same objects, written at full speed, with nobody who decides.

What remains is what etcd, the API server and, for pods, the stock scheduler and the fake kubelets
cost on this machine, and a client that does nothing but write. It is a process of its own, like
what it stands beside.

`python -m benchmarks.kube.bare COMMAND KUBECONFIG …`, with these commands; each prints seconds:

    jobs SHARE             every job of the baseline: created, decided, ended
    fill NAMESPACE COUNT   so many pinned pods of one GPU, as jobs of their own, until all run
    gang NAMESPACE COUNT NODES
                           so many pinned pods of a whole node, as one gang, until all run
                           (on the nodes `node-…` and then `extra-…`)
    stop NAMESPACE COUNT   so many of the pods of `fill`: a job's status written, the pod deleted
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, TypeVar

import orjson

from benchmarks.kube.baseline import Work, job_object
from weft.kube.client.api import MERGE, Api
from weft.kube.names import GROUP, jobs_path, pod_name, pods_path
from weft.kube.operator.observation.job import JobReader
from weft.kube.operator.status.patches import decision_patch
from weft.kube.pods import PodMaker, WorkerSettings
from weft.kube.resources.training_job import TrainingJobSpec, manifest
from weft.model.decision import Assignment
from weft.model.ids import NodeId
from weft.model.placement import Placement, Seat
from weft.model.state import State

CONNECTIONS = 32
LONG_CALL_SECONDS = 60.0
NODE_GPUS = 8
ONE_GPU = {"run": "train", "resources": {"gpus": 1}}

T = TypeVar("T")


async def write_jobs(api: Api, work: Work) -> float:
    """Seconds for three writes per job: what any scheduler that records its decisions must do."""
    bodies = [
        job_object(queue, kind, number)
        for queue, kind in work.streams()
        for number in range(work.count(kind))
    ]
    eyes = JobReader()

    async def write(body: dict[str, Any]) -> None:
        about = body["metadata"]
        path = jobs_path(about["namespace"], about["name"])
        made = await _send(api, "POST", jobs_path(about["namespace"]), body)
        observed = eyes(made)
        gpus = int(body["spec"]["resources"]["gpus"])
        decided = decision_patch(
            observed, 1, _alone(gpus), state=State.RUNNING, now=observed.created, leader=1
        )
        told = await _send(api, "PATCH", f"{path}/status", decided)
        await _send(api, "PATCH", f"{path}/status", _ended(told))

    return await _timed(write, bodies)


async def run_pods(api: Api, namespace: str, bodies: list[dict[str, Any]]) -> float:
    """Seconds until all of them run."""
    path = pods_path(namespace)
    version = (await api.get(path, {"limit": "1"}))["metadata"]["resourceVersion"]
    began = time.monotonic()
    running = asyncio.create_task(_wait_for_running(api, path, version, len(bodies)))

    async def create(body: dict[str, Any]) -> None:
        await _send(api, "POST", path, body)

    await _timed(create, bodies)
    await running
    return time.monotonic() - began


async def stop_jobs(api: Api, namespace: str, count: int) -> float:
    """Seconds to write so many jobs' status and to delete one pod of each."""
    names = [f"bare-{number}" for number in range(count)]

    async def create(name: str) -> None:
        await _send(api, "POST", jobs_path(namespace), manifest(name, ONE_GPU))

    async def stop(name: str) -> None:
        status = {"status": {"state": "Stopping", "message": "preempted for bare/none"}}
        await _send(api, "PATCH", f"{jobs_path(namespace, name)}/status", status)
        await _send(api, "DELETE", pods_path(namespace, pod_name(name, 1, 0)), {})

    await _timed(create, names)
    return await _timed(stop, names)


def single_pods(namespace: str, count: int) -> list[dict[str, Any]]:
    """The pods of jobs with one GPU, node by node."""
    bodies = []
    for number in range(count):
        seat = Seat(NodeId(f"node-{number // NODE_GPUS}"), 1)
        bodies += _pods(namespace, f"bare-{number}", ONE_GPU, (seat,))
    return bodies


def gang_pods(namespace: str, count: int, nodes: int) -> list[dict[str, Any]]:
    """The pods of one job that takes so many nodes."""
    names = [f"node-{number}" for number in range(nodes)]
    names += [f"extra-{number}" for number in range(count - nodes)]
    seats = tuple(Seat(NodeId(name), NODE_GPUS, number=number) for number, name in enumerate(names))
    spec = {"run": "train", "resources": {"gpus": NODE_GPUS * count}}
    return _pods(namespace, "bare-gang", spec, seats)


def _pods(
    namespace: str, name: str, spec: dict[str, Any], seats: tuple[Seat, ...]
) -> list[dict[str, Any]]:
    """As the operator makes them, but without an owner and under labels that are not its own."""
    maker = PodMaker(
        WorkerSettings(default_image="busybox"),
        namespace=namespace,
        name=name,
        uid="none",
        spec=TrainingJobSpec.model_validate(spec),
    )
    bodies = maker.pods(epoch=1, seats=seats, leader=1)
    for body in bodies:
        about = body["metadata"]
        del about["ownerReferences"]
        about["labels"] = {
            name.replace(GROUP, "bare"): word for name, word in about["labels"].items()
        }
    return bodies


async def _wait_for_running(api: Api, path: str, version: str, count: int) -> None:
    running: set[str] = set()
    params = {"resourceVersion": version, "timeoutSeconds": "3600"}
    events: AsyncIterator[tuple[str, dict[str, Any]]]
    async with aclosing(api.watch(path, params)) as events:
        async for _, raw in events:
            if raw["status"].get("phase") == "Running":
                running.add(raw["metadata"]["name"])
            if len(running) == count:
                return


async def _timed(write: Callable[[T], Awaitable[None]], todo: Iterable[T]) -> float:
    """Seconds for all of them, so many at a time."""
    line = iter(todo)
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(_write_from(line, write))
    return time.monotonic() - began


async def _write_from(line: Iterator[T], write: Callable[[T], Awaitable[None]]) -> None:
    for each in line:
        await write(each)


async def _send(api: Api, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    kind = str(MERGE) if method == "PATCH" else "application/json"
    answer = await api.raw(
        method,
        path,
        body=orjson.dumps(body) if body else b"",
        content_type=kind,
        timeout_seconds=LONG_CALL_SECONDS,
    )
    told: dict[str, Any] = orjson.loads(answer)
    return told


def _alone(gpus: int) -> Assignment:
    return Assignment(gpus, Placement((Seat(NodeId("all-0"), gpus),)))


def _ended(raw: dict[str, Any]) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    status = {
        "state": "Succeeded",
        "gpus": 0,
        "endedAt": now,
        "execution": {"epoch": 1, "phase": "Succeeded"},
        "conditions": raw["status"]["conditions"],
    }
    version = raw["metadata"]["resourceVersion"]
    return {"metadata": {"resourceVersion": version}, "status": status}


async def _main(command: str, kubeconfig: str, words: list[str]) -> None:
    async with await Api.connect(kubeconfig=kubeconfig, user_agent="bare") as api:
        if command == "jobs":
            seconds = await write_jobs(api, Work(float(words[0])))
        elif command == "fill":
            seconds = await run_pods(api, words[0], single_pods(words[0], int(words[1])))
        elif command == "gang":
            seconds = await run_pods(api, words[0], gang_pods(words[0], *map(int, words[1:])))
        else:
            seconds = await stop_jobs(api, words[0], int(words[1]))
    print(seconds, flush=True)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2], sys.argv[3:]))
